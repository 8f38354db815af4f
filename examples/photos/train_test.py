# SPDX-License-Identifier: Apache-2.0
"""The example's data set alone, on pictures made here; tests/ runs it as a job."""
import os

import numpy as np
import torch
import train
from PIL import Image


def make_pictures(root):
    rng = np.random.default_rng(0)
    for label in ("a", "b"):
        os.makedirs(root / label)
        for i in range(2):
            pixels = rng.integers(0, 256, (40, 60, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / label / f"{i}.jpg")


def test_samples_have_one_shape_and_their_folder_s_label(tmp_path):
    make_pictures(tmp_path)
    photos = train.Photos(str(tmp_path), size=32, blurs=2)
    assert photos.classes == ["a", "b"]
    assert [label for _, label in (photos[i] for i in range(4))] == [0, 0, 1, 1]
    image, _ = photos[0]
    assert image.shape == (3, 32, 32) and image.dtype == torch.float32


def test_blur_keeps_a_flat_picture_and_spreads_a_point():
    flat = torch.full((3, 20, 20), 0.5)
    assert torch.allclose(train.gaussian_blur(flat, 0.7), flat, atol=1e-6)
    point = torch.zeros(3, 21, 21)
    point[:, 10, 10] = 1
    blurred = train.gaussian_blur(point, 1.0)
    assert torch.allclose(blurred.sum((1, 2)), torch.ones(3), atol=1e-5)
    assert blurred[0, 10, 10] < 0.2
