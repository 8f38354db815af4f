# SPDX-License-Identifier: Apache-2.0
"""The reference's way of doing one action of plan.parameters(): torchvision's own functions, for parity tests."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as v1
from torchvision.transforms.v2 import functional as v2

FILTERS = {"bilinear": InterpolationMode.BILINEAR, "bicubic": InterpolationMode.BICUBIC, "nearest": InterpolationMode.NEAREST}


def apply(value, action):
    """What the action makes of a PIL picture or a tensor [C, H, W]."""
    return DO[action["do"]](value, action)


def crop(value, action):
    top, left, height, width = (action[key] for key in ("top", "left", "height", "width"))
    have_height, have_width = v2.get_size(value)
    sides = [max(0, -left), max(0, -top), max(0, left + width - have_width), max(0, top + height - have_height)]
    if any(sides):
        value = v2.pad(value, sides, fill=action["fill"], padding_mode=action["mode"])
    return v2.crop(value, max(0, top), max(0, left), height, width)


def resize(value, action):
    is_tensor = action["arithmetic"] == "tensor"
    made = v2.pil_to_tensor(value) if is_tensor else value
    made = v2.resize(made, [action["height"], action["width"]], FILTERS[action["filter"]], antialias=True)
    return v2.to_pil_image(made) if is_tensor else made


def to_float(value, action):
    if action["rule"] == "v1":
        return v1.to_tensor(value)
    return v2.to_dtype(v2.to_image(value), torch.float32, scale=action["rule"] == "v2")


def gaussian_blur(value, action):
    return v2.gaussian_blur(value, action["kernel"][::-1], [action["sigma"]] * 2)


def normalize(value, action):
    return v2.normalize(value, action["mean"], action["std"])


def erase(value, action):
    if isinstance(value, Image.Image):
        value = v2.pil_to_tensor(value)
    top, left, height, width = (action[key] for key in ("top", "left", "height", "width"))
    return v2.erase(value, top, left, height, width, torch.tensor(action["value"])[:, None, None])


def warp(value, action):
    method = Image.Transform.PERSPECTIVE if action["do"] == "perspective" else Image.Transform.AFFINE
    filter = Image.Resampling.BILINEAR if action["filter"] == "bilinear" else Image.Resampling.NEAREST
    size = (action["width"], action["height"])
    return value.transform(size, method, action["matrix"], filter, fillcolor=tuple(action["fill"]))


DO = {
    "affine": warp,
    "perspective": warp,
    "crop": crop,
    "resize": resize,
    "horizontal_flip": lambda value, action: v2.horizontal_flip(value),
    "vertical_flip": lambda value, action: v2.vertical_flip(value),
    "grayscale": lambda value, action: v2.rgb_to_grayscale(value, num_output_channels=3),
    "brightness": lambda value, action: v2.adjust_brightness(value, action["value"]),
    "contrast": lambda value, action: v2.adjust_contrast(value, action["value"]),
    "saturation": lambda value, action: v2.adjust_saturation(value, action["value"]),
    "hue": lambda value, action: v2.adjust_hue(value, action["value"]),
    "sharpness": lambda value, action: v2.adjust_sharpness(value, action["value"]),
    "invert": lambda value, action: v2.invert(value),
    "posterize": lambda value, action: v2.posterize(value, int(action["value"])),
    "solarize": lambda value, action: v2.solarize(value, action["value"]),
    "autocontrast": lambda value, action: v2.autocontrast(value),
    "equalize": lambda value, action: v2.equalize(value),
    "gaussian_blur": gaussian_blur,
    "to_float": to_float,
    "normalize": normalize,
    "erase": erase,
}
