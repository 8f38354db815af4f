# SPDX-License-Identifier: Apache-2.0
"""What lowering reads from transforms of torchvision: which class one is, and its arguments as fields of ops."""

import sys

V1 = "torchvision.transforms.transforms"
V1_AUGMENT = "torchvision.transforms.autoaugment"
_V2 = "torchvision.transforms.v2"


class NotExact(Exception):
    """This step has no native form; the text is the reason."""


def flatten(transform) -> list:
    """The leaves of nested Compose and Sequential objects, in order."""
    if transform is None:
        return []
    if known_name(transform) == "Compose":
        return [leaf for inner in transform.transforms for leaf in flatten(inner)]
    torch = sys.modules.get("torch")
    if torch is not None and type(transform) is torch.nn.Sequential:
        return [leaf for inner in transform for leaf in flatten(inner)]
    return [transform]


def known_name(transform) -> str:
    """The class's name if it is torchvision's own class (never a subclass), else ""."""
    module = type(transform).__module__ or ""
    return type(transform).__name__ if module in (V1, V1_AUGMENT) or module.startswith(_V2 + ".") else ""


def filter_fields(interpolation, is_tensor) -> dict:
    value = getattr(interpolation, "value", interpolation)
    names = {"bilinear": "bilinear", 2: "bilinear", "bicubic": "bicubic", 3: "bicubic", "nearest": "nearest", 0: "nearest"}
    if not is_tensor:
        names["nearest-exact"] = "nearest"  # Pillow has one of them
    if value not in names:
        raise NotExact(f"interpolation {value} has no native form")
    return {} if names[value] == "bilinear" else {"filter": names[value]}


def fills(fill, is_tensor) -> tuple:
    """What a transform fills with: (in pictures, in masks). v2 takes a dict by type."""
    if not isinstance(fill, dict):
        return fill, fill
    tv_tensors = sys.modules["torchvision.tv_tensors"]
    picture = tv_tensors.Image if is_tensor else sys.modules["PIL.Image"].Image

    def of(kind):
        if kind in fill:
            return fill[kind]
        if "others" not in fill:
            raise NotExact(f"its fill has nothing for {kind.__name__}")
        return fill["others"]

    return of(picture), fill.get(tv_tensors.Mask, fill.get("others", ()))


def dtypes(by_type: dict) -> tuple:
    """What v2.ToDtype({type: dtype}) makes of (pictures that are tensors, masks)."""
    tv_tensors = sys.modules["torchvision.tv_tensors"]
    if tv_tensors.Image not in by_type or not {tv_tensors.Mask, "others"} & by_type.keys():
        raise NotExact("its dtypes name no tv_tensors.Image, or nothing for masks")
    return by_type[tv_tensors.Image], by_type.get(tv_tensors.Mask, by_type.get("others"))


def colour_of(fill) -> list:
    values = [0] if fill is None else list(fill) if isinstance(fill, (list, tuple)) else [fill]
    values = values * 3 if len(values) == 1 else values
    if len(values) != 3 or not all(isinstance(x, (int, float)) and 0 <= int(x) <= 255 for x in values):
        raise NotExact(f"fill {fill} is not one or three numbers from 0 to 255")
    return [int(x) for x in values]


def class_of(fill) -> int:
    """Of a mask."""
    if fill is None:
        return 0
    if not isinstance(fill, (int, float)) or not float(fill).is_integer() or not 0 <= fill <= 65535:
        raise NotExact(f"fill {fill} is no class number; a dict gives masks their own: {{tv_tensors.Mask: 255, …}}")
    return int(fill)


def center_fields(center) -> dict:
    return {} if center is None else {"center": [float(x) for x in center]}


def probability(p) -> float:
    p = float(p)
    if not 0 <= p <= 1:
        raise NotExact("its p is no probability")
    return p


def pair(size) -> list:
    size = list(size)
    if len(size) != 2 or not all(float(x).is_integer() and x > 0 for x in size):
        raise NotExact(f"size {size} is not two positive whole numbers")
    return [int(x) for x in size]


def sides(padding) -> list:
    """left, top, right, bottom."""
    all_sides = [padding] if isinstance(padding, int) else list(padding)
    if len(all_sides) in (1, 2):
        all_sides = all_sides * (4 // len(all_sides))
    if len(all_sides) != 4 or not all(isinstance(x, int) and x >= 0 for x in all_sides):
        raise NotExact(f"padding {padding} is not of whole numbers >= 0")
    return all_sides


def per_channel(values, channels) -> list:
    values = [float(x) for x in (values.tolist() if hasattr(values, "tolist") else values)]
    if len(values) == 1:
        values *= channels
    if len(values) != channels:
        raise NotExact(f"{len(values)} values for {channels} channels")
    return values
