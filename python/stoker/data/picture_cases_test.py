# SPDX-License-Identifier: Apache-2.0
"""Every handed picture through a loader: the bytes of Pillow and torchvision, or an error that says kind and file."""

import pathlib
import warnings

import numpy as np
import pytest

import stoker
from stoker.data.image import ImageError

Image = pytest.importorskip("PIL.Image")

# Pillow gives pixels, we refuse (docs/parity.md, "Stricter than Pillow"); the cases allow both.
STRICTER = {"png-bad-crc", "png-short-data"}
# Pillow refuses over chunks that we never read ("Laxer than Pillow"); the cases allow both.
LAXER = {"png-big-text", "png-text-crc"}


def reference(path, transform):
    """What torchvision's loader and transform give, or None where Pillow refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path) as opened:
                return transform(opened.convert("RGB")).numpy()
    except Exception:  # noqa: BLE001  its errors are of many classes
        return None


@pytest.mark.parametrize("workers", [0, 1])
def test_handed_pictures_through_a_loader(torchvision, handed, workers):
    v2 = pytest.importorskip("torchvision.transforms.v2")
    transform = v2.Compose([v2.Resize(20), v2.CenterCrop(16), v2.PILToTensor()])
    cases = handed("image")
    source = stoker.data.file_list([path for path, _ in cases], transform=transform, absolute=True)
    loader = stoker.DataLoader(source, batch_size=1, num_workers=workers)
    assert loader.explain().native
    iterator, wrong, decoded = iter(loader), [], 0
    for path, row in cases:
        expect, want = row["expect"], reference(path, transform)
        try:
            got = next(iterator)[0][0].numpy()
        except ImageError as error:
            allowed = expect["outcome"] != "decode" and (want is None or row["id"] in STRICTER)
            kinds = {error.kind, expect.get("error_kind", error.kind)}
            if not allowed or len(kinds) > 1 or error.path != path or pathlib.Path(path).name not in str(error):
                wrong.append((row["id"], expect["outcome"], expect.get("error_kind"), str(error)[-200:]))
            continue
        decoded += 1
        if expect["outcome"] == "either" and want is None and row["id"] in LAXER:
            continue
        if expect["outcome"] == "error" or want is None or not np.array_equal(got, want):
            wrong.append((row["id"], expect["outcome"], "pixels"))
    assert not wrong
    assert decoded > 80
