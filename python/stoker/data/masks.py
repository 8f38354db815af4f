# SPDX-License-Identifier: Apache-2.0
"""Pictures with masks: class numbers per pixel, as segmentation needs them. docs/guide/sources.md is the guide."""

import os

import numpy

from stoker import _native
from stoker.data import csv_list, source, unreadable
from stoker.data.identity import common_folder
from stoker.data.list_source import _check
from stoker.data.pictures import PictureSource, _picture

_SUFFIXES = (".jpg", ".jpeg", ".png")


def image_masks(images, masks=None, transform=None, mask_dtype="uint8", image_column=None, mask_column=None):
    """Pictures and their masks. `images` and `masks` are two folders, whose files belong together by their names without
    suffix (sub-folders too); or two sequences of paths; or `images` is the path of a `.csv` with a column for each, named by
    its first line (by default the first two) or numbered from 0, where every line counts; paths are relative to its folder.

    Masks are PNG files of one number a pixel, a palette or gray of up to 16 bits; the numbers are kept. mask_dtype: "uint8", or
    "int64" for numbers above 255. A sample is `{"image": bytes, "mask": bytes}`, or with a transform of torchvision v2 what
    it makes of (a PIL picture, a tv_tensors.Mask [H, W]). A stoker.DataLoader makes uint8 or float32 [B, C, H, W] and
    masks [B, H, W] without Python where it knows the transforms exactly.

    ValueError names files without a partner.
    """
    if mask_dtype not in ("uint8", "int64"):
        raise ValueError(f"mask_dtype should be 'uint8' or 'int64', but got {mask_dtype!r}")
    images, masks = (os.fsdecode(one) if isinstance(one, bytes) else one for one in (images, masks))
    if masks is None:
        root = os.path.dirname(os.path.abspath(unreadable.path_of("images", images)))
        pairs = [[os.path.join(root, name) for name in pair] for pair in _of_csv(images, root, image_column, mask_column)]
    elif isinstance(images, (str, os.PathLike)):
        root = os.path.commonpath([os.path.abspath(images), os.path.abspath(masks)])
        with unreadable.named(images, "a folder of pictures and one of their masks, or one CSV file with both"):
            pairs = _of_folders(os.path.abspath(images), os.path.abspath(masks))
    else:
        pairs = list(zip(map(os.path.abspath, images), map(os.path.abspath, masks), strict=True))
        root = common_folder([path for pair in pairs for path in pair])
    listed = [(pair[0], -1) for pair in pairs] + [(pair[1], -1) for pair in pairs]
    return MaskedPictures(root, source.files(listed, (), root), transform, mask_dtype)


class MaskedPictures(PictureSource):
    """See image_masks(). The manifest lists the pictures and then the mask of each."""

    def __init__(self, root, manifest, transform, mask_dtype):
        super().__init__("image_masks", "pairs", root, manifest, transform)
        self.mask_dtype = mask_dtype

    def __len__(self) -> int:
        return self._manifest.items // 2

    def __getitem__(self, item):
        item = self._checked(item)
        if self._reader is None:
            self._reader = _native.pipeline.ItemReader(self._manifest, os.fsencode(self._root))
        data, mask = self._reader.read(item), self._reader.read(len(self) + item)
        if self.transform is None:
            return {"image": data, "mask": mask}
        return self.transform(_picture(data, self._reader.path(item)), _mask(mask, self.mask_dtype))

    labels = None

    def with_transform(self, transform) -> "MaskedPictures":
        return MaskedPictures(self._root, self._manifest, transform, self.mask_dtype)

    def plan_source(self, mask_dtype: str = "") -> dict:
        return {**super().plan_source(), "items": len(self), "mask": mask_dtype or self.mask_dtype}


def _mask(data: bytes, dtype: str):
    import torch
    from torchvision import tv_tensors

    numbers = _native.image.decode_numbers(data)
    if dtype == "uint8" and numbers.size and numbers.max() > 255:
        raise ValueError(f"class {numbers.max()} does not fit uint8; ask for mask_dtype='int64'")
    return tv_tensors.Mask(torch.from_numpy(numbers.astype(numpy.dtype(dtype))))


def _of_folders(images: str, masks: str) -> list:
    pictures, numbers = _by_stem(images), _by_stem(masks)
    alone = sorted(pictures.keys() ^ numbers.keys())
    if alone:
        at = images if alone[0] in pictures else masks
        raise ValueError(f"{os.path.join(at, alone[0])} has no partner of its name, and so {len(alone)} files in all")
    return [(pictures[stem], numbers[stem]) for stem in sorted(pictures)]


def _by_stem(folder: str) -> dict:
    """{path under the folder without suffix: path}."""
    found = {}
    for at, folders, names in os.walk(folder, onerror=_refuse):
        folders.sort()
        for name in sorted(names):
            stem, suffix = os.path.splitext(name)
            if suffix.lower() not in _SUFFIXES:
                continue
            key = os.path.relpath(os.path.join(at, stem), folder)
            if key in found:
                raise ValueError(f"{found[key]} and {os.path.join(at, name)} have the same name")
            found[key] = os.path.join(at, name)
    return found


def _refuse(error: OSError):
    raise error


def _of_csv(path, root: str, image_column, mask_column) -> list:
    pairs, lines = csv_list.read(path, root, {"image_column": image_column, "mask_column": mask_column}, 2)
    for pair, line in zip(pairs, lines, strict=True):
        for name in pair:
            _check(name, root, False, f"{path}, line {line}")
    return pairs
