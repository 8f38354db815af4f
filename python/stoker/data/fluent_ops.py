# SPDX-License-Identifier: Apache-2.0
"""A method for each op of a native plan (docs/formats/plan.md), with the arguments of torchvision's transform of that kind.

The op is the one that lowering makes of the transform, so plan and pixels are the same.
"""

from stoker.data.fluent_stages import Op
from stoker.data.image import check_gray16
from stoker.data.whole import whole

_THIRD = (3.0 / 4.0, 4.0 / 3.0)


class PictureOps:
    """Methods of pipes; each returns a new pipe. Sizes are (height, width), or one number for both."""

    def decode(self, gray16="clip"):
        """Stored pictures to (image, label): uint8 [3, H, W], the pixels of Pillow's convert("RGB"), and an integer. gray16:
        "clip" makes values of 16-bit gray over 255 white, as Pillow does; "scale" keeps their high byte."""
        return self._op("decode_rgb", **gray16_field(gray16))

    def random_resized_crop(self, size, scale=(0.08, 1.0), ratio=_THIRD, filter="bilinear"):
        return self._op(
            "random_resized_crop", size=_pair(size), scale=_floats(scale), ratio=_floats(ratio), **_filter(filter)
        )

    def resize(self, size=None, max_size=None, filter="bilinear"):
        """A number is the length of the short side, as in torchvision; (height, width) is the size."""
        fields = {} if size is None else {"size": size if isinstance(size, int) else _pair(size)}
        return self._op("resize", **fields, **({} if max_size is None else {"max_size": whole("max_size", max_size, 1)}), **_filter(filter))

    def center_crop(self, size):
        return self._op("center_crop", size=_pair(size))

    def random_crop(self, size, padding=None, pad_if_needed=False, fill=0, mode="constant"):
        """padding: of all sides, (x, y) or (left, top, right, bottom)."""
        fields = {"size": _pair(size), **_border(fill, mode)}
        if padding:
            fields["padding"] = _sides(padding)
        return self._op("random_crop", **fields, **({"pad_if_needed": True} if pad_if_needed else {}))

    def pad(self, padding, fill=0, mode="constant"):
        return self._op("pad", padding=_sides(padding), **_border(fill, mode))

    def horizontal_flip(self, p=0.5):
        return self._op("horizontal_flip", p=float(p))

    def vertical_flip(self, p=0.5):
        return self._op("vertical_flip", p=float(p))

    def random_rotation(self, degrees, expand=False, center=None, filter="nearest", fill=0):
        """degrees: (from, to), or d for (-d, d)."""
        fields = {"degrees": _span(degrees), **_center(center), **_look(filter, fill)}
        return self._op("random_rotation", **fields, **({"expand": True} if expand else {}))

    def random_affine(self, degrees, translate=None, scale=None, shear=None, center=None, filter="nearest", fill=0):
        """shear: s for (-s, s) in x, (from, to) in x, or four numbers for x and y."""
        fields = {"degrees": _span(degrees), **_center(center), **_look(filter, fill)}
        if translate is not None:
            fields["translate"] = _floats(translate)
        if scale is not None:
            fields["scale"] = _floats(scale)
        if shear is not None:
            fields["shear"] = [*_span(shear), 0.0, 0.0][:4]
        return self._op("random_affine", **fields)

    def random_perspective(self, distortion=0.5, p=0.5, filter="bilinear", fill=0):
        return self._op("random_perspective", p=float(p), distortion=float(distortion), **_look(filter, fill))

    def grayscale(self, channels=1):
        return self._op("grayscale", channels=whole("channels", channels, 1))

    def color_jitter(self, brightness=None, contrast=None, saturation=None, hue=None):
        """x for [max(0, 1 - x), 1 + x] (hue: [-x, x]), or (from, to)."""
        given = {"brightness": brightness, "contrast": contrast, "saturation": saturation, "hue": hue}
        return self._op("color_jitter", **{name: _strength(name, x) for name, x in given.items() if x is not None})

    def adjust(self, what, value=None):
        """brightness, contrast, saturation, sharpness, hue, posterize, solarize by `value`; invert, autocontrast, equalize."""
        return self._op("adjust", what=what, **({} if value is None else {"value": value}))

    def gaussian_blur(self, kernel, sigma=(0.1, 2.0)):
        sigma = (sigma, sigma) if isinstance(sigma, (int, float)) else sigma
        return self._op("gaussian_blur", kernel=_pair(kernel), sigma=_floats(sigma))

    def to_float(self, rule="v2"):
        """Bytes to float32 in [0, 1]: "v2" as ToDtype(float32, scale=True), "v1" as ToTensor; they differ in the last bit.
        "unscaled": the number as it is."""
        return self._op("to_float", rule=rule)

    def normalize(self, mean, std):
        """(x - mean) / std per channel. Bytes go through to_float() first."""
        pipe = self if any(op.fields["op"] == "to_float" for op in self._ops()) else self.to_float()
        return pipe._op("normalize", mean=_channels(mean), std=_channels(std))

    def random_erasing(self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0):
        """value: a number, three, or "random" (after to_float)."""
        fields = {"p": float(p), "scale": _floats(scale), "ratio": _floats(ratio)}
        values = {} if value == "random" else {"value": _channels(value)}
        return self._op("random_erasing", **fields, **values)

    def random_apply(self, ops, p=0.5):
        """ops: a function of a pipe that adds them, or a list of such: `.random_apply(lambda p: p.gaussian_blur(5))`."""
        return self._op("random_apply", p=float(p), ops=self._inner(ops))

    def random_choice(self, branches, weights=None):
        """branches: a list of such functions; one is taken."""
        weights = [1.0 / len(branches)] * len(branches) if weights is None else _floats(weights)
        return self._op("random_choice", weights=weights, branches=[self._inner(branch) for branch in branches])

    def random_order(self, branches):
        return self._op("random_order", branches=[self._inner(branch) for branch in branches])

    def _op(self, name: str, **fields):
        return self._with(Op({"op": name, **fields}, len(self._ops())))

    def _inner(self, ops) -> list:
        functions = ops if isinstance(ops, (list, tuple)) else [ops]
        pipe = before = self._as_pipe()
        for function in functions:
            pipe = function(pipe)
        added = pipe.stages[len(before.stages) :]
        if not all(isinstance(stage, Op) for stage in added):
            raise TypeError("a container of ops holds native ops only")
        return [stage.fields for stage in added]


def gray16_field(gray16: str) -> dict:
    """Of the op decode_rgb."""
    return {} if check_gray16(gray16) == "clip" else {"gray16": gray16}


def _pair(size) -> list:
    return [whole("size", side, 1) for side in (size if hasattr(size, "__iter__") else (size, size))]


def _floats(values) -> list:
    return [float(x) for x in values]


def _channels(values) -> list:
    return [float(values)] if isinstance(values, (int, float)) else _floats(values)


def _span(value) -> list:
    return [-float(value), float(value)] if isinstance(value, (int, float)) else _floats(value)


def _sides(padding) -> list:
    sides = [padding] if isinstance(padding, int) else [int(x) for x in padding]
    return sides * (4 // len(sides))


def _strength(name: str, value) -> list:
    if not isinstance(value, (int, float)):
        return _floats(value)
    return [-float(value), float(value)] if name == "hue" else [max(0.0, 1 - value), 1.0 + value]


def _filter(filter: str) -> dict:
    return {} if filter == "bilinear" else {"filter": filter}


def _colour(fill) -> dict:
    colour = [int(fill)] * 3 if isinstance(fill, (int, float)) else [int(x) for x in fill]
    return {"fill": colour} if any(colour) else {}


def _border(fill, mode: str) -> dict:
    return _colour(fill) if mode == "constant" else {"mode": mode}


def _look(filter: str, fill) -> dict:
    return {**({} if filter == "nearest" else {"filter": filter}), **_colour(fill)}


def _center(center) -> dict:
    return {} if center is None else {"center": _floats(center)}
