# SPDX-License-Identifier: Apache-2.0
"""Pictures to arrays, with the bits that Pillow and torchvision give.

Pixels are uint8 RGB, shape [height, width, 3] unless a function says otherwise. JPEG of every kind, PNG
and WebP are read, by decode() what else Pillow reads; the contents decide which, EXIF rotation and colour profiles are not applied, alpha is dropped. Boxes are
(left, top, width, height), sizes (width, height). Functions work without the GIL and may be called from any thread.

Damaged input raises :class:`ImageError`; an argument that does not fit raises ValueError.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple, Optional, Sequence, Tuple

from stoker import _native
from stoker.data import interpreter

if TYPE_CHECKING:
    import numpy

_image = _native.image

Box = Tuple[int, int, int, int]
Size = Tuple[int, int]


class ImageError(ValueError):
    """The stored bytes of a picture are wrong.

    kind: 'empty', 'not_image', 'unsupported', 'truncated', 'corrupt' or 'too_large'.
    path: the file, or '' where the bytes came without one.
    offset: the byte at which it was noticed, or None.
    """

    def __init__(self, message: str, kind: str, path: str = "", offset: Optional[int] = None):
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.path = path
        self.offset = offset

    def __str__(self) -> str:
        # Messages of a loader's samples name both already.
        where = f"{self.path}: " if self.path and self.path not in self.message else ""
        at = "" if self.offset is None or f"byte {self.offset}" in self.message else f" (byte {self.offset})"
        return f"{where}{self.kind}: {self.message}{at}"

    def __reduce__(self):
        return (type(self), (self.message, self.kind, self.path, self.offset))


class Header(NamedTuple):
    format: str  # 'JPEG', 'PNG' or 'WEBP'
    width: int
    height: int


class FloatTable:
    """How bytes become float32, one table entry per channel and value.

    scale: 'multiply' as v2.ToDtype(torch.float32, scale=True), 'divide' as ToTensor(), 'none' for the bare number;
    these two differ in the last bit. mean and std as for Normalize, or neither.
    """

    def __init__(self, scale: str = "multiply", mean: Optional[Sequence[float]] = None,
                 std: Optional[Sequence[float]] = None):
        kinds = {"multiply": _image.ToFloat.MULTIPLY, "divide": _image.ToFloat.DIVIDE, "none": _image.ToFloat.UNSCALED}
        if scale not in kinds:
            raise ValueError(f"scale must be one of {sorted(kinds)}, not {scale!r}")
        if (mean is None) != (std is None):
            raise ValueError("mean and std go together")
        if std is not None and any(float(s) == 0.0 for s in std):
            raise ValueError("std must not be zero")
        self.native = _image.NormalizeTable(kinds[scale], None if mean is None else _three(mean),
                                            None if std is None else _three(std))


def read_header(data: bytes) -> Header:
    """Format and size from the first bytes; what follows may still be damaged."""
    return Header(*_image.read_header(data))


GRAY16 = ("clip", "scale")


def check_gray16(gray16: str) -> str:
    if gray16 not in GRAY16:
        raise ValueError(f"gray16 should be 'clip' or 'scale', but got {gray16!r}")
    return gray16


def decode(data: bytes, *, path: str = "", gray16: str = "clip") -> numpy.ndarray:
    """The whole picture, uint8 [H, W, 3], equal to Pillow's Image.open(...).convert("RGB").

    Formats other than JPEG, PNG and WebP are Pillow's own to read, in a process that is started for the first of them.
    A file that was cut raises ImageError of kind 'truncated'. `path` only appears in errors.
    16-bit gray is clipped to white as Pillow does it, with a warning: once per path (once for all without one). With
    gray16="scale" it becomes the high byte of each value, as 16-bit colours always do.
    """
    scale = check_gray16(gray16) == "scale"
    global _others
    if _others is None:
        _others = interpreter.pillow()
    pixels, gray16_clipped = _located(path, _image.decode, data, _others, scale)
    if gray16_clipped and path not in _told_gray16 and len(_told_gray16) < 1000:
        _told_gray16.add(path)
        warnings.warn(f"{path or 'picture'}: 16-bit gray, clipped to 8 bits as Pillow does it; gray16='scale' keeps the high byte", stacklevel=2)
    return pixels


def decode_region(data: bytes, box: Box, *, path: str = "", gray16: str = "clip") -> numpy.ndarray:
    """The part of the picture under `box`, uint8 [height, width, 3], equal to that part of decode(data, gray16=gray16)."""
    return _located(path, _image.decode_region, data, box, check_gray16(gray16) == "scale")


def decode_resized_crop(data: bytes, crop: Box, size: Size, *, flip: bool = False, window: Optional[Box] = None,
                        table: Optional[FloatTable] = None, layout: str = "hwc", pillow: Optional[int] = None,
                        path: str = "", gray16: str = "clip") -> numpy.ndarray:
    """Decodes, crops, resizes (bilinear, antialiased) and mirrors in one pass over the region.

    crop: box of the stored picture; size: what it is resized to; window: the part of the resized picture to return.
    Returns float32 [3, height, width] with a table, else uint8 [height, width, 3], or [3, height, width] for
    layout='chw'. pillow: major version whose order of passes to follow; default_pillow() without.
    """
    if layout not in ("hwc", "chw"):
        raise ValueError(f"layout must be 'hwc' or 'chw', not {layout!r}")
    return _located(path, _image.decode_resized_crop, data, crop, size, window, flip, table and table.native, layout,
                    _major(pillow), check_gray16(gray16) == "scale")


def resize(pixels: numpy.ndarray, size: Size, *, pillow: Optional[int] = None) -> numpy.ndarray:
    """Bilinear and antialiased, equal to Pillow's; uint8 [height, width, 3]. Give a slice to resize a crop."""
    return _image.resize(pixels, size, _major(pillow))


def to_float_chw(pixels: numpy.ndarray, table: FloatTable, *, flip: bool = False) -> numpy.ndarray:
    """uint8 [H, W, 3] to float32 [3, H, W], mirrored if asked."""
    return _image.to_float_chw(pixels, table.native, flip)


def default_pillow() -> int:
    """The installed Pillow's major version, or 13 where there is none."""
    global _installed
    if _installed is None:
        from importlib import metadata

        try:
            _installed = int(metadata.version("pillow").split(".")[0])
        except (metadata.PackageNotFoundError, ValueError):
            _installed = 13
    return _installed


_installed: Optional[int] = None
_others = None  # the Pillow that decode() keeps
_told_gray16: "set[str]" = set()  # paths of which a warning has told; it ends after 1000


def _major(pillow: Optional[int]) -> int:
    return default_pillow() if pillow is None else pillow


def _three(values: Sequence[float]) -> list:
    values = [float(v) for v in values]
    return values * 3 if len(values) == 1 else values


def _located(path, function, *args):
    try:
        return function(*args)
    except ImageError as error:
        error.path = path
        raise
