# SPDX-License-Identifier: Apache-2.0
"""Transforms of torchvision (v1 and v2) as ops of a native plan, one method per class, named as it is.

What the reference does depends on what the sample is at that point: a PIL picture, a uint8 tensor or a float tensor.
`NotExact` says why a transform has no native form there; docs/parity.md says what is exact.
"""

import json
import math
import sys

from stoker import _native
from stoker.data import lowering_augment, lowering_containers
from stoker.data.lowering_values import (
    V1,
    V1_AUGMENT,
    NotExact,
    center_fields,
    class_of,
    colour_of,
    dtypes,
    fills,
    filter_fields,
    known_name,
    pair,
    per_channel,
    probability,
    sides,
)


class Ops:
    """The plan's ops so far, and what the sample is after them. Confined.

    Ops on pictures come first in a plan. Crops and flips copy values, so those that a user wrote behind the conversion to
    float are moved before it; what depends on neighbouring pixels or floats stays behind it (`late`).
    """

    def __init__(self, is_tensor=False, masked=False):
        self.masked = masked  # a tv_tensors.Mask goes the same way
        self.mask_dtype = ""  # what it is converted to
        self.early, self.late = [], []
        self.is_tensor = is_tensor
        self.is_float = self.is_normalized = self.is_gray = False

    def add(self, transform) -> None:
        """Appends its ops, or raises NotExact and changes nothing."""
        name = known_name(transform)
        if not name:
            raise NotExact("not a transform of torchvision")
        if "forward" in vars(transform) or getattr(transform, "_forward_hooks", None) or transform.__dict__.get(
            "_forward_pre_hooks"
        ):
            raise NotExact("it has hooks, or a forward of its own")
        if self.masked and type(transform).__module__ in (V1, V1_AUGMENT):
            raise NotExact("v1 takes no masks; its class of v2 does")
        method = getattr(self, "_" + name, None)
        if method is None:
            raise NotExact("it has no native form yet")
        method(transform, type(transform).__module__ in (V1, V1_AUGMENT))

    def finish(self, first: list, size=None) -> list:
        """All ops behind `first`, checked by the pipeline room. `size`: (width, height) of pictures that have one."""
        if not self.is_tensor:
            raise NotExact("the transforms end in a picture, not in a tensor")
        ops = [*first, *self.early, *self.late]
        try:
            _native.pipeline.check_ops(json.dumps(ops), size)
        except ValueError as error:
            if "size open" in str(error):
                raise NotExact("the transforms leave pictures of different sizes, so rows differ in shape") from None
            raise NotExact(str(error)) from None
        return ops

    # ---- what may stand where

    def _geometry(self, *ops, fill=0) -> None:
        """Crops, pads and flips: equal on pictures and tensors, and before or after the conversion to float."""
        if any(op["op"] not in ("to_float", "normalize") for op in self.late):
            raise NotExact("it stands behind a blur or an erasing of a float tensor")
        if self.is_float and fill:
            raise NotExact("on a float tensor its fill is another colour")
        self.early.extend(ops)

    def _on_picture(self, *ops) -> None:
        if self.is_tensor:
            raise NotExact("it acts on a tensor here, whose pixels differ from a PIL picture's; only PIL's are native")
        self.early.extend(ops)

    def _on_bytes(self, *ops) -> None:
        if self.is_float:
            raise NotExact("it acts on a float tensor here; only bytes have a native form")
        self._geometry(*ops)

    def _resampling(self, transform, v1) -> dict:
        """The fields of a resize: by Pillow's arithmetic, or by that of torch's own kernel for uint8 tensors."""
        filter = filter_fields(transform.interpolation, self.is_tensor)
        if not self.is_tensor:
            return filter
        if self.is_float:
            raise NotExact("it resizes a float tensor; only bytes have a native form")
        if v1:
            raise NotExact("v1 resizes tensors as floats; v2 on tensors, or a PIL picture, has a native form")
        bilinear = "filter" not in filter
        if filter.get("filter") != "nearest" and not transform.antialias:
            raise NotExact("without antialias it has no native form")
        cpu = sys.modules["torch"].backends.cpu.get_cpu_capability()
        if bilinear and cpu not in ("AVX2", "AVX512"):
            raise NotExact("torchvision resizes bytes as floats on this processor")
        return {**filter, "arithmetic": "tensor"}

    # ---- geometry

    def _RandomResizedCrop(self, t, v1):
        scale, ratio = [float(x) for x in t.scale], [float(x) for x in t.ratio]
        if not (0 <= scale[0] <= scale[1] and 0 < ratio[0] <= ratio[1]):
            raise NotExact("its scale or ratio is not of the kind (min, max)")
        op = {"op": "random_resized_crop", "size": pair(t.size), "scale": scale, "ratio": ratio}
        self._geometry({**op, **self._resampling(t, v1)})

    def _Resize(self, t, v1):
        op = {"op": "resize"}
        size = [t.size] if isinstance(t.size, int) else t.size
        if size is not None:
            op["size"] = int(size[0]) if len(size) == 1 else pair(size)
        if t.max_size is not None:
            op["max_size"] = int(t.max_size)
        self._geometry({**op, **self._resampling(t, v1)})

    def _CenterCrop(self, t, v1):
        if self.is_normalized:
            raise NotExact("after Normalize its padding would be another colour")
        self._geometry({"op": "center_crop", "size": pair(t.size)})

    def _RandomCrop(self, t, v1):
        border = self._border(t)
        if v1 and t.padding is not None:
            self._geometry({"op": "pad", "padding": sides(t.padding), **border}, fill=border.get("fill"))
            padding = None
        else:
            padding = t.padding and [t.padding[i] for i in (0, 2, 1, 3)]  # torchvision holds left, right, top, bottom
        op = {"op": "random_crop", "size": pair(t.size), **border}
        if padding:
            op["padding"] = sides(padding)
        if t.pad_if_needed:
            op["pad_if_needed"] = True
        if self.is_normalized and (padding or t.pad_if_needed or (v1 and t.padding)):
            raise NotExact("after Normalize its padding would be another colour")
        self._geometry(op, fill=border.get("fill"))

    def _Pad(self, t, v1):
        if self.is_normalized:
            raise NotExact("after Normalize its padding would be another colour")
        border = self._border(t)
        self._geometry({"op": "pad", "padding": sides(t.padding), **border}, fill=border.get("fill"))

    def _border(self, t) -> dict:
        return self._fill(t.fill) if t.padding_mode == "constant" else {"mode": t.padding_mode}

    def _fill(self, fill) -> dict:
        """The fields `fill` and `mask_fill`, where they are not black and class 0."""
        of_picture, of_mask = fills(fill, self.is_tensor)
        colour = colour_of(of_picture)
        fields = {"fill": colour} if any(colour) else {}
        number = class_of(of_mask) if self.masked else 0
        return {**fields, "mask_fill": number} if number else fields

    def _RandomHorizontalFlip(self, t, v1):
        self._geometry({"op": "horizontal_flip", "p": probability(t.p)})

    def _RandomVerticalFlip(self, t, v1):
        self._geometry({"op": "vertical_flip", "p": probability(t.p)})

    def _RandomRotation(self, t, v1):
        op = {"op": "random_rotation", "degrees": [float(x) for x in t.degrees], **center_fields(t.center), **self._look(t)}
        if t.expand:
            op["expand"] = True
        self._on_picture(op)

    def _RandomAffine(self, t, v1):
        op = {"op": "random_affine", "degrees": [float(x) for x in t.degrees], **center_fields(t.center), **self._look(t)}
        if t.translate is not None:
            op["translate"] = [float(x) for x in t.translate]
        if t.scale is not None:
            op["scale"] = [float(x) for x in t.scale]
        if t.shear is not None:
            op["shear"] = [*(float(x) for x in t.shear), 0.0, 0.0][:4]
        self._on_picture(op)

    def _RandomPerspective(self, t, v1):
        op = {"op": "random_perspective", "p": probability(t.p), "distortion": float(t.distortion_scale), **self._look(t)}
        self._on_picture(op)

    def _look(self, t) -> dict:
        """How maps that are no crop or resize take their pixels."""
        filter = filter_fields(t.interpolation, self.is_tensor).get("filter", "bilinear")
        if filter == "bicubic":
            raise NotExact("interpolation bicubic has no native form here")
        return {**({} if filter == "nearest" else {"filter": filter}), **self._fill(t.fill)}

    def _RandAugment(self, t, v1):
        self._augment(lowering_augment.rand_augment, t, v1)

    def _TrivialAugmentWide(self, t, v1):
        self._augment(lowering_augment.trivial_augment, t, v1)

    def _AutoAugment(self, t, v1):
        self._augment(lowering_augment.auto_augment, t, v1)

    def _augment(self, lower, t, v1):
        if self.masked:
            raise NotExact("torchvision's refuses masks")
        self._on_picture(*lower(t, v1, self._look(t)))

    # ---- colour

    def _ColorJitter(self, t, v1):
        op = {"op": "color_jitter"}
        for name in ("brightness", "contrast", "saturation", "hue"):
            limits = getattr(t, name)
            if limits is not None:
                op[name] = [float(x) for x in limits]
        self._on_picture(op)

    def _Grayscale(self, t, v1):
        channels = int(t.num_output_channels)
        if channels == 3 and self.is_gray:
            raise NotExact("it makes three channels of one again")
        self._on_picture({"op": "grayscale", "channels": channels})
        self.is_gray = self.is_gray or channels == 1

    def _RandomGrayscale(self, t, v1):
        self._on_picture(_maybe(t.p, {"op": "grayscale", "channels": 3}))

    def _RandomInvert(self, t, v1):
        self._on_bytes(_maybe(t.p, {"op": "adjust", "what": "invert"}))

    def _RandomPosterize(self, t, v1):
        self._on_bytes(_maybe(t.p, {"op": "adjust", "what": "posterize", "value": int(t.bits)}))

    def _RandomSolarize(self, t, v1):
        self._on_bytes(_maybe(t.p, {"op": "adjust", "what": "solarize", "value": float(t.threshold)}))

    def _RandomAutocontrast(self, t, v1):
        self._on_picture(_maybe(t.p, {"op": "adjust", "what": "autocontrast"}))

    def _RandomEqualize(self, t, v1):
        self._on_picture(_maybe(t.p, {"op": "adjust", "what": "equalize"}))

    def _RandomAdjustSharpness(self, t, v1):
        self._on_picture(_maybe(t.p, {"op": "adjust", "what": "sharpness", "value": float(t.sharpness_factor)}))

    def _RGB(self, t, v1):
        if self.is_gray:
            raise NotExact("it makes three channels of one again")

    # ---- conversions, blur, and what comes after

    def _GaussianBlur(self, t, v1):
        width, height = pair(t.kernel_size)
        op = {"op": "gaussian_blur", "kernel": [height, width], "sigma": [float(x) for x in t.sigma]}
        if self.is_float:
            self.late.append(op)
        else:
            self._geometry(op)

    def _RandomErasing(self, t, v1):
        value = t.value
        if not self.is_tensor:
            raise NotExact("it does nothing to a PIL picture; a ToImage before it is missing")
        if value is None or value == "random":
            if not self.is_float:
                raise NotExact("random values in bytes have no native form")
            values = None
        else:
            values = [float(x) for x in (value if isinstance(value, (list, tuple)) else [value])]
            if not self.is_float and not all(0 <= x <= 255 for x in values):
                raise NotExact("its value is no byte")
        op = {"op": "random_erasing", "p": probability(t.p), "scale": [float(x) for x in t.scale],
              "ratio": [float(x) for x in t.ratio]}
        self.late.append({**op, "value": values} if values else op)

    def _ToTensor(self, t, v1):
        if self.is_tensor:
            raise NotExact("it acts on a tensor here; only PIL pictures have a native form")
        torch = sys.modules["torch"]
        if torch.get_default_dtype() is not torch.float32:
            raise NotExact(f"the default dtype is {torch.get_default_dtype()}")
        self._float("v1")

    def _PILToTensor(self, t, v1):
        if self.is_tensor:
            raise NotExact("it acts on a tensor here; only PIL pictures have a native form")
        self.is_tensor = True

    def _ToImage(self, t, v1):
        self.is_tensor = True

    def _ToPureTensor(self, t, v1):
        pass

    _Identity = _ToPureTensor

    def _ToDtype(self, t, v1):
        torch = sys.modules["torch"]
        if not self.is_tensor:
            raise NotExact("it does nothing to a PIL picture; a ToImage before it is missing")
        dtype = t.dtype
        if isinstance(dtype, dict):
            dtype, of_mask = dtypes(dtype)
            self._mask_to(of_mask)
        if dtype is None or dtype is (torch.float32 if self.is_float else torch.uint8):
            return
        if self.is_float or dtype is not torch.float32:
            raise NotExact("only uint8 to float32 has a native form")
        self._float("v2" if t.scale else "unscaled")

    def _mask_to(self, dtype) -> None:
        if dtype is not None and self.masked:
            if dtype is not sys.modules["torch"].int64:
                raise NotExact("masks become int64 or stay as they are")
            self.mask_dtype = "int64"

    def _ConvertImageDtype(self, t, v1):
        torch = sys.modules["torch"]
        if not self.is_tensor or self.is_float or t.dtype is not torch.float32:
            raise NotExact("only uint8 to float32 has a native form")
        self._float("v1" if v1 else "v2")

    def _float(self, rule) -> None:
        if self.late:
            raise NotExact("it stands behind an erasing of bytes")
        self.is_tensor = self.is_float = True
        self.late.append({"op": "to_float", "rule": rule})

    def _Normalize(self, t, v1):
        if not self.is_float or self.is_normalized:
            raise NotExact("it does not follow the conversion to float")
        channels = 1 if self.is_gray else 3
        mean, std = per_channel(t.mean, channels), per_channel(t.std, channels)
        if not all(math.isfinite(x) for x in mean + std) or 0.0 in std:
            raise NotExact("its mean or std is not finite, or std is zero")
        self.is_normalized = True
        self.late.append({"op": "normalize", "mean": mean, "std": std})

    # ---- containers

    def _RandomApply(self, t, v1):
        lowering_containers.random_apply(self, t)

    def _RandomChoice(self, t, v1):
        lowering_containers.random_choice(self, t)

    def _RandomOrder(self, t, v1):
        lowering_containers.random_order(self, t)

    def kind(self) -> tuple:
        """What the sample is."""
        return self.is_tensor, self.is_float, self.is_normalized, self.is_gray

    def inside(self) -> "Ops":
        """Ops of a container that stands here."""
        inner = Ops(masked=self.masked)
        inner.is_tensor, inner.is_float, inner.is_normalized, inner.is_gray = self.kind()
        return inner

    def place(self, op, is_late: bool) -> None:
        """Appends a container of ops on pictures, or of ops on tensors."""
        if is_late:
            self.late.append(op)
        else:
            self._geometry(op)


def _maybe(p, op) -> dict:
    return {"op": "random_apply", "p": probability(p), "ops": [op]}
