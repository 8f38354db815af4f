# SPDX-License-Identifier: Apache-2.0
"""A method for each op of a native plan (docs/formats/plan.md), with the arguments of torchvision's transform of that kind.

The op is the one that lowering makes of the transform, so plan and pixels are the same.
"""

from stoker.data.fluent_stages import Op
from stoker.data.image import check_gray16
from stoker.data.op_arguments import Arguments

_THIRD = (3.0 / 4.0, 4.0 / 3.0)


class PictureOps:
    """Methods of pipes; each returns a new pipe. Sizes are (height, width), or one number for both."""

    def decode(self, gray16="clip"):
        """Stored pictures to (image, label): uint8 [3, H, W], the pixels of Pillow's convert("RGB"), and an integer. gray16:
        "clip" makes values of 16-bit gray over 255 white, as Pillow does; "scale" keeps their high byte."""
        try:
            return self._op(Arguments("decode_rgb"), **gray16_field(gray16))
        except (TypeError, ValueError) as error:
            raise type(error)(f"decode(): {error}") from None

    def random_resized_crop(self, size, scale=(0.08, 1.0), ratio=_THIRD, filter="bilinear"):
        of = Arguments("random_resized_crop")
        fields = {"size": of.pair("size", size), "scale": of.numbers("scale", scale), "ratio": of.numbers("ratio", ratio)}
        return self._op(of, **fields, **_filter(filter))

    def resize(self, size=None, max_size=None, filter="bilinear"):
        """A number is the length of the short side, as in torchvision; (height, width) is the size."""
        of = Arguments("resize")
        if size is None and max_size is None:
            raise ValueError("resize(): give size=, or max_size= for the long side alone")
        fields = {} if size is None else {"size": of.pair("size", size) if hasattr(size, "__iter__") else of.whole("size", size)}
        return self._op(of, **fields, **({} if max_size is None else {"max_size": of.whole("max_size", max_size)}), **_filter(filter))

    def center_crop(self, size):
        of = Arguments("center_crop")
        return self._op(of, size=of.pair("size", size))

    def random_crop(self, size, padding=None, pad_if_needed=False, fill=0, mode="constant"):
        """padding: of all sides, (x, y) or (left, top, right, bottom)."""
        of = Arguments("random_crop")
        fields = {"size": of.pair("size", size), **of.border(fill, mode)}
        if padding is not None and any(sides := of.sides("padding", padding)):
            fields["padding"] = sides
        return self._op(of, **fields, **({"pad_if_needed": True} if pad_if_needed else {}))

    def pad(self, padding, fill=0, mode="constant"):
        of = Arguments("pad")
        return self._op(of, padding=of.sides("padding", padding), **of.border(fill, mode))

    def horizontal_flip(self, p=0.5):
        of = Arguments("horizontal_flip")
        return self._op(of, p=of.number("p", p))

    def vertical_flip(self, p=0.5):
        of = Arguments("vertical_flip")
        return self._op(of, p=of.number("p", p))

    def random_rotation(self, degrees, expand=False, center=None, filter="nearest", fill=0):
        """degrees: (from, to), or d for (-d, d)."""
        of = Arguments("random_rotation")
        fields = {"degrees": of.span("degrees", degrees), **of.center(center), **of.look(filter, fill)}
        return self._op(of, **fields, **({"expand": True} if expand else {}))

    def random_affine(self, degrees, translate=None, scale=None, shear=None, center=None, filter="nearest", fill=0):
        """shear: s for (-s, s) in x, (from, to) in x, or four numbers for x and y."""
        of = Arguments("random_affine")
        fields = {"degrees": of.span("degrees", degrees), **of.center(center), **of.look(filter, fill)}
        if translate is not None:
            fields["translate"] = of.numbers("translate", translate)
        if scale is not None:
            fields["scale"] = of.numbers("scale", scale)
        if shear is not None:
            fields["shear"] = [*of.span("shear", shear), 0.0, 0.0][:4]
        return self._op(of, **fields)

    def random_perspective(self, distortion=0.5, p=0.5, filter="bilinear", fill=0):
        of = Arguments("random_perspective")
        return self._op(of, p=of.number("p", p), distortion=of.number("distortion", distortion), **of.look(filter, fill))

    def grayscale(self, channels=1):
        of = Arguments("grayscale")
        return self._op(of, channels=of.whole("channels", channels))

    def color_jitter(self, brightness=None, contrast=None, saturation=None, hue=None):
        """x for [max(0, 1 - x), 1 + x] (hue: [-x, x]), or (from, to)."""
        of = Arguments("color_jitter")
        given = {"brightness": brightness, "contrast": contrast, "saturation": saturation, "hue": hue}
        return self._op(of, **{name: of.strength(name, x) for name, x in given.items() if x is not None})

    def adjust(self, what, value=None):
        """brightness, contrast, saturation, sharpness, hue, posterize, solarize by `value`; invert, autocontrast, equalize."""
        return self._op(Arguments("adjust"), what=what, **({} if value is None else {"value": value}))

    def gaussian_blur(self, kernel, sigma=(0.1, 2.0)):
        of = Arguments("gaussian_blur")
        sigma = (sigma, sigma) if isinstance(sigma, (int, float)) else sigma
        return self._op(of, kernel=of.pair("kernel", kernel), sigma=of.numbers("sigma", sigma, "a number, or (from, to)"))

    def to_float(self, rule="v2"):
        """Bytes to float32 in [0, 1]: "v2" as ToDtype(float32, scale=True), "v1" as ToTensor; they differ in the last bit.
        "unscaled": the number as it is."""
        return self._op(Arguments("to_float"), rule=rule)

    def normalize(self, mean, std):
        """(x - mean) / std per channel. Bytes go through to_float() first."""
        of = Arguments("normalize")
        fields = {"mean": of.channels("mean", mean), "std": of.channels("std", std)}
        pipe = self if any(op.fields["op"] == "to_float" for op in self._ops()) else self.to_float()
        return pipe._op(of, **fields)

    def random_erasing(self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0):
        """value: a number, three, or "random" (after to_float)."""
        of = Arguments("random_erasing")
        fields = {"p": of.number("p", p), "scale": of.numbers("scale", scale), "ratio": of.numbers("ratio", ratio)}
        random = isinstance(value, str) and value == "random"
        return self._op(of, **fields, **({} if random else {"value": of.channels("value", value)}))

    def random_apply(self, ops, p=0.5):
        """ops: a function of a pipe that adds them, or a list of such: `.random_apply(lambda p: p.gaussian_blur(5))`."""
        of = Arguments("random_apply")
        return self._op(of, p=of.number("p", p), ops=self._inner(of, "ops", ops))

    def random_choice(self, branches, weights=None):
        """branches: a list of such functions; one is taken."""
        of = Arguments("random_choice")
        inner = self._branches(of, branches)
        weights = [1.0 / len(inner)] * len(inner) if weights is None else of.numbers("weights", weights)
        return self._op(of, weights=weights, branches=inner)

    def random_order(self, branches):
        of = Arguments("random_order")
        return self._op(of, branches=self._branches(of, branches))

    def _op(self, of: Arguments, **fields):
        return self._with(Op(of.check({"op": of.op, **fields}), len(self._ops())))

    def _branches(self, of: Arguments, branches) -> list:
        if not isinstance(branches, (list, tuple)) or not branches:
            raise ValueError(f"{of.op}(): branches should be a list of functions of a pipe, but got {branches!r}")
        return [self._inner(of, "branches", branch) for branch in branches]

    def _inner(self, of: Arguments, name: str, ops) -> list:
        functions = ops if isinstance(ops, (list, tuple)) else [ops]
        pipe = before = self._as_pipe()
        for function in functions:
            if not callable(function):
                raise TypeError(f"{of.op}(): {name} should be functions of a pipe, such as lambda p: p.gaussian_blur(5), but got {function!r}")
            pipe = function(pipe)
        stages = getattr(pipe, "stages", None)
        if stages is None or stages[: len(before.stages)] != before.stages or not all(isinstance(stage, Op) for stage in stages[len(before.stages) :]):
            raise TypeError(f"{of.op}(): {name} should add native ops to the pipe that they get, and nothing else, but one gave {pipe!r}")
        return [stage.fields for stage in stages[len(before.stages) :]]


def gray16_field(gray16: str) -> dict:
    """Of the op decode_rgb."""
    return {} if check_gray16(gray16) == "clip" else {"gray16": gray16}


def _filter(filter: str) -> dict:
    return {} if filter == "bilinear" else {"filter": filter}
