# SPDX-License-Identifier: Apache-2.0
"""Native ops behind a Python step: on an array in the place of a stored picture, with the bytes and draws of the plan's op.

Conversions and flips are NumPy; other ops go through the native producer of pictures in arrays.
"""

import json
import struct
import zlib
from collections import OrderedDict

import numpy

from stoker import _native
from stoker.data import device_ops

_MOST_SHAPES = 16  # of pictures, whose producers are kept
_SIMPLE = ("to_float", "normalize", "horizontal_flip", "vertical_flip")


def apply_to_sample(sample, ops, seed: int, position: int, opened: dict):
    """The sample with its picture, uint8 or float32 [C, H, W], through the ops. The picture is the sample, the first of a
    tuple or list, or `image` of a dict. `opened`: kept by the caller from call to call."""
    if isinstance(sample, dict):
        return {**sample, "image": _apply(sample["image"], ops, seed, position, opened)}
    if isinstance(sample, (tuple, list)):
        return (_apply(sample[0], ops, seed, position, opened), *sample[1:])
    return _apply(sample, ops, seed, position, opened)


def _apply(array, ops, seed: int, position: int, opened: dict):
    array = numpy.asarray(array)
    if array.ndim != 3 or array.shape[0] not in (1, 3):
        raise TypeError(f"{ops[0]} takes a picture [1 or 3, height, width], but got {array.dtype}{list(array.shape)}")
    if all(op.fields["op"] in _SIMPLE for op in ops):
        return device_ops.on_arrays(array[None], ops, seed, [position])[0]
    if array.dtype != numpy.uint8 or array.shape[0] != 3:
        raise TypeError(f"{ops[0]} takes uint8 [3, height, width], but got {array.dtype}{list(array.shape)}: call it before map()")
    kept = opened.setdefault("rows", OrderedDict())
    key = (seed, ops[0].number, array.shape)
    if key not in kept:
        while len(kept) >= _MOST_SHAPES:
            kept.popitem(last=False)
        kept[key] = _OneRow(ops, seed, array.shape)
    return kept[key].run(array, position)


class _OneRow:
    """A producer whose only row is written anew for each picture. Confined."""

    def __init__(self, ops, seed: int, shape):
        plan = device_ops.row_plan(seed, ops[0].number, json.dumps([op.fields for op in ops]), *shape[1:])
        self._row = numpy.empty(shape, numpy.uint8)
        self._producer = _native.pipeline.open_arrays(plan, [self._row.reshape(-1)])

    def run(self, array, position: int):
        self._row[:] = array
        return self._producer.produce(numpy.array([position], numpy.int64), numpy.zeros(1, numpy.int64))[0][0]


def png_of(pixels, level: int = 6) -> bytes:
    """A PNG of uint8 [H, W, 3] or [H, W]."""
    height, width = pixels.shape[:2]
    lines = numpy.zeros((height, 1 + pixels[0].size), dtype=numpy.uint8)
    lines[:, 1:] = pixels.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if pixels.ndim == 3 else 0, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), level)), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
