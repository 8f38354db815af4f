# SPDX-License-Identifier: Apache-2.0
"""Each op of a plan beside torchvision's function, given the same parameters: over many pictures and positions."""

import json

import numpy
import pytest

torch = pytest.importorskip("torch")

from stoker.data.reference_test import Image, apply, v2

from stoker import _native
from stoker.data import image as images
from stoker.data import source

native = _native.pipeline


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """PNGs of many sizes: colour waves with noise, flat colours, every gray, few values."""
    folder, draw, paths = tmp_path_factory.mktemp("pictures"), numpy.random.default_rng(3), []
    for number in range(24):
        width, height = (int(side) for side in draw.integers(9, 260, 2))
        y, x = numpy.mgrid[0:height, 0:width] / 40.0
        waves = [128 + 90 * numpy.sin(x * draw.uniform(0.2, 3) + y * draw.uniform(0.2, 3)) for _ in range(3)]
        pixels = numpy.clip(numpy.stack(waves, -1) + draw.normal(0, 20, (height, width, 3)), 0, 255).astype(numpy.uint8)
        if number % 6 == 4:
            pixels = pixels // 64 * 17 + number
        if number % 6 == 5:
            pixels[...] = draw.integers(0, 256, 3) if number % 12 == 5 else pixels[..., :1]
        paths.append(str(folder / f"{number}.png"))
        Image.fromarray(pixels).save(paths[-1])
    return paths


def opened(paths, ops, output):
    manifest = source.files([(path, 0) for path in paths])
    text = json.dumps(
        {
            "format": "stoker-plan/1",
            "kind": "native",
            "source": {"kind": "files", "root": "/", "manifest": manifest.hash, "items": manifest.items},
            "ops": [{"op": "decode_rgb"}, *ops],
            "output": output,
            "seed": 5,
            "libraries": json.loads(native.native_libraries("13" if images.default_pillow() >= 13 else "12")),
        }
    )
    plan = native.Plan.parse(text)
    assert native.Plan.parse(plan.json).json == plan.json
    return plan, native.Producer.open(plan, manifest.bytes())


def pairs(paths, ops, output="uint8", rounds=3, channels=3):
    """(ours, the reference's, the parameters) of each picture, `rounds` times."""
    plan, producer = opened(paths, ops, output)
    for epoch in range(rounds):
        for item, path in enumerate(paths):
            position = epoch * len(paths) + item
            ours = producer.produce(numpy.array([position]), numpy.array([item]))[0][0]
            value = Image.open(path).convert("RGB")
            chosen = json.loads(plan.parameters(position, item, *value.size))
            for op in chosen:
                for action in op["did"]:
                    value = apply(value, action)
            wanted = v2.pil_to_tensor(value) if isinstance(value, Image.Image) else value
            yield ours, wanted.numpy()[:channels], chosen


SMALL = {"op": "center_crop", "size": [40, 48]}
RRC = {"op": "random_resized_crop", "size": [40, 48], "scale": [0.08, 1.0], "ratio": [0.75, 4 / 3]}
JITTER = {"brightness": [0.5, 1.6], "contrast": [0.2, 1.9], "saturation": [0.0, 2.0], "hue": [-0.5, 0.5]}
FLOAT = {"op": "to_float", "rule": "v2"}


def adjust(what, **value):
    return [{"op": "adjust", "what": what, **value}, SMALL]


EXACT = {
    "bicubic": [{"op": "resize", "size": [37, 61], "filter": "bicubic"}],
    "bicubic crop": [{**RRC, "filter": "bicubic"}],
    "nearest": [{"op": "resize", "size": [37, 61], "filter": "nearest"}],
    "nearest crop": [{**RRC, "filter": "nearest"}, {"op": "horizontal_flip", "p": 0.5}],
    "nearest, more": [{"op": "resize", "size": [301, 277], "filter": "nearest"}],
    "tensor": [{"op": "resize", "size": [37, 61], "arithmetic": "tensor"}],
    "tensor crop": [{**RRC, "arithmetic": "tensor"}],
    "tensor, more": [{"op": "resize", "size": [301, 277], "arithmetic": "tensor"}],
    "tensor bicubic": [{**RRC, "arithmetic": "tensor", "filter": "bicubic"}],
    "tensor nearest": [{**RRC, "arithmetic": "tensor", "filter": "nearest"}],
    "max size": [{"op": "resize", "size": 50, "max_size": 64}, SMALL],
    "long side": [{"op": "resize", "max_size": 64}, SMALL],
    "random crop": [{"op": "random_crop", "size": [40, 48], "pad_if_needed": True}],
    "padded crop": [{"op": "random_crop", "size": [32, 32], "padding": [4, 3, 2, 20], "pad_if_needed": True, "fill": [1, 2, 250]}],
    "vertical flip": [{"op": "vertical_flip", "p": 0.5}, RRC, {"op": "vertical_flip", "p": 0.5}, {"op": "horizontal_flip", "p": 0.5}],
    "jitter": [RRC, {"op": "color_jitter", **JITTER}],
    "jitter first": [{"op": "color_jitter", **JITTER}, SMALL, {"op": "horizontal_flip", "p": 0.5}],
    "gray": [{"op": "grayscale", "channels": 3}, RRC],
    "invert": adjust("invert"),
    "posterize": adjust("posterize", value=3),
    "solarize": adjust("solarize", value=127.5),
    "autocontrast": adjust("autocontrast"),
    "equalize": adjust("equalize"),
    "sharper": adjust("sharpness", value=1.9),
    "softer": adjust("sharpness", value=0.3),
    "apply": [{"op": "random_apply", "p": 0.5, "ops": [{"op": "adjust", "what": "invert"}, {"op": "vertical_flip", "p": 1}]}, SMALL],
    "choice": [
        {
            "op": "random_choice",
            "weights": [1, 0, 2],
            "branches": [[{"op": "color_jitter", **JITTER}], [{"op": "grayscale", "channels": 3}], [RRC]],
        },
        SMALL,
    ],
    "order": [
        {
            "op": "random_order",
            "branches": [[{"op": "resize", "size": [50, 40]}], [{"op": "adjust", "what": "equalize"}], [{"op": "horizontal_flip", "p": 0.5}]],
        },
        SMALL,
    ],
}
for filter in ({}, {"filter": "bilinear"}):
    name = filter.get("filter", "nearest")
    EXACT["rotation, " + name] = [{"op": "random_rotation", "degrees": [-180, 180], "fill": [3, 2, 9], **filter}, SMALL]
    EXACT["expanded rotation, " + name] = [{"op": "random_rotation", "degrees": [0, 90], "expand": True, **filter}, {"op": "resize", "size": [40, 40]}]
    EXACT["right angles, " + name] = [{"op": "random_rotation", "degrees": [angle, angle], **filter} for angle in (90, 180, 270, 0)] + [SMALL]
    EXACT["affine, " + name] = [
        {
            "op": "random_affine",
            "degrees": [-30, 60],
            "translate": [0.2, 0.1],
            "scale": [0.5, 1.6],
            "shear": [-10, 20, -15, 5],
            "center": [7, 12],
            "fill": [200, 0, 9],
            **filter,
        },
        SMALL,
    ]
    EXACT["scaling, " + name] = [{"op": "random_affine", "degrees": [0, 0], "translate": [0.2, 0.1], "scale": [0.5, 1.6], **filter}, SMALL]
    EXACT["perspective, " + name] = [{"op": "random_perspective", "p": 0.9, "distortion": 0.6, "fill": [9, 1, 4], **filter}, SMALL]
    EXACT["augment, " + name] = [
        {
            "op": "random_choice",
            "weights": [1] * 7,
            "branches": [
                [{"op": "augment", "what": "shear_x", "magnitudes": [0.1, 0.7], "signed": True, **filter}],
                [{"op": "augment", "what": "shear_y", "magnitudes": [0.1, 0.7], "signed": True, **filter}],
                [{"op": "augment", "what": "translate_x", "magnitudes": [0.1, 0.3], "of_side": True, **filter}],
                [{"op": "augment", "what": "translate_y", "magnitudes": [7.9], "signed": True, **filter}],
                [{"op": "augment", "what": "rotate", "magnitudes": [10, 35], "signed": True, "fill": [1, 2, 3], **filter}],
                [{"op": "augment", "what": "color", "magnitudes": [0.5], "signed": True}],
                [{"op": "augment", "what": "identity"}],
            ],
        },
        SMALL,
    ]
for mode in ("constant", "edge", "reflect", "symmetric"):
    EXACT["pad " + mode] = [{"op": "pad", "padding": [5, 8, 7, 3], "mode": mode, "fill": [9, 8, 7]}, {"op": "resize", "size": [30, 30]}]
    if mode == "constant":
        del EXACT["pad constant"][0]["mode"]
    EXACT["crop " + mode] = [{"op": "random_crop", "size": [60, 60], "pad_if_needed": True, "mode": mode}]


@pytest.mark.parametrize("name", EXACT)
def test_bytes_are_torchvisions(pictures, name):
    for ours, wanted, chosen in pairs(pictures, EXACT[name]):
        assert ours.shape == wanted.shape and ours.tobytes() == wanted.tobytes(), chosen


def close(ours, theirs):
    numpy.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)


def test_matrices_are_torchvisions():
    from torchvision.transforms import functional as v1

    affine = {"op": "random_affine", "degrees": [30, 30], "scale": [1.5, 1.5], "shear": [10, 10, -7, -7], "center": [5, 9]}
    plan, _ = opened(["/x.png"], [affine, SMALL], "uint8")
    matrix = json.loads(plan.parameters(0, 0, 100, 60))[1]["did"][0]["matrix"]
    close(matrix, v1._get_inverse_affine_matrix([5, 9], 30, [0, 0], 1.5, [10, -7]))
    for what, shear in (("shear_x", [torch.rad2deg(torch.tensor(0.3).double().atan()).item(), 0.0]), ("shear_y", [0.0, 16.69924423399362])):
        plan, _ = opened(["/x.png"], [{"op": "augment", "what": what, "magnitudes": [0.3]}, SMALL], "uint8")
        matrix = json.loads(plan.parameters(0, 0, 100, 60))[1]["did"][0]["matrix"]
        numpy.testing.assert_allclose(matrix, v1._get_inverse_affine_matrix([0, 0], 0, [0, 0], 1.0, shear), rtol=1e-6, atol=1e-7)
    # Four corners go back to those of the picture.
    plan, _ = opened(["/x.png"], [{"op": "random_perspective", "p": 1, "distortion": 0.5}, SMALL], "uint8")
    a, b, c, d, e, f, g, h = json.loads(plan.parameters(3, 0, 101, 61))[1]["did"][0]["matrix"]
    system = numpy.array([[a - x * g, b - x * h, d - y * g, e - y * h, x - c, y - f] for x, y in ((0, 0), (100, 0), (100, 60), (0, 60))])
    ends = numpy.array([numpy.linalg.solve(row[:4].reshape(2, 2), row[4:]) for row in system])
    assert numpy.abs(ends - ends.round()).max() < 2e-4
    theirs = v1._get_perspective_coeffs([[0, 0], [100, 0], [100, 60], [0, 60]], ends.round().astype(int).tolist())
    numpy.testing.assert_allclose([a, b, c, d, e, f, g, h], theirs, rtol=1e-6)


def test_every_colour_turns_its_hue_as_pillow_does(tmp_path):
    values = numpy.arange(256, dtype=numpy.uint8)
    rest = numpy.array([0, 1, 2, 5, 17, 51, 64, 100, 127, 128, 129, 170, 200, 250, 254, 255], dtype=numpy.uint8)
    paths = []
    for number, first in enumerate(rest):
        green, blue = numpy.meshgrid(values, values)
        pixels = numpy.stack(numpy.broadcast_arrays(first, green, blue), -1)
        paths.append(str(tmp_path / f"{number}.png"))
        Image.fromarray(numpy.roll(pixels, number, -1)).save(paths[-1])
    ops = [{"op": "color_jitter", "hue": [-0.5, 0.5]}, {"op": "center_crop", "size": [256, 256]}]
    for ours, wanted, chosen in pairs(paths, ops):
        assert ours.tobytes() == wanted.tobytes(), chosen


def test_one_channel_of_gray_is_pillows_l(pictures):
    ops = [RRC, {"op": "grayscale", "channels": 1}, {"op": "color_jitter", **JITTER}, FLOAT, {"op": "normalize", "mean": [0.5], "std": [0.25]}]
    for ours, wanted, _ in pairs(pictures, ops[:2], channels=1):
        assert ours.shape == (1, 40, 48) and ours.tobytes() == wanted.tobytes()
    for ours, wanted, _ in pairs(pictures, ops, "float32", channels=1):
        assert ours.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("kernel", [[3, 3], [11, 5], [1, 7], [23, 23]])
def test_blurred_bytes_are_within_one(pictures, kernel):
    large = [{"op": "resize", "size": [64, 80]}]
    differ = total = 0
    for ours, wanted, chosen in pairs(pictures, large + [{"op": "gaussian_blur", "kernel": kernel, "sigma": [0.1, 3.0]}]):
        off = numpy.abs(ours.astype(int) - wanted)
        assert off.max() <= 1, chosen
        differ, total = differ + numpy.count_nonzero(off), total + off.size
    assert differ <= 1e-4 * total


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("kernel", [[3, 3], [11, 11], [5, 31]])
def test_blurred_floats_are_within_a_millionth_for_each_blur(pictures, kernel, count):
    blur = {"op": "gaussian_blur", "kernel": kernel, "sigma": [0.1, 3.0]}
    ops = [{"op": "resize", "size": [64, 80]}, FLOAT, *[blur] * count]
    for ours, wanted, chosen in pairs(pictures, ops, "float32", rounds=2):
        numpy.testing.assert_allclose(ours, wanted, rtol=count * 1e-6, atol=1e-7, err_msg=str(chosen))


def in_double(value, action):
    """One blur of float64 [C, H, W], without rounding to speak of."""
    for axis, side in ((1, action["kernel"][0]), (2, action["kernel"][1])):
        half, length = side // 2, value.shape[axis]
        weights = numpy.exp(-((numpy.arange(-half, half + 1) / action["sigma"]) ** 2) / 2)
        around = numpy.pad(value, [(half, half) if axis == a else (0, 0) for a in range(3)], mode="reflect")
        value = sum(w * numpy.take(around, range(i, i + length), axis) for i, w in enumerate(weights / weights.sum()))
    return value


def test_ten_blurs_are_within_a_millionth_of_the_exact_sum(pictures):
    small = [{"op": "resize", "size": [64, 80]}, FLOAT]
    blurs = [{"op": "gaussian_blur", "kernel": [11, 11], "sigma": [0.1, 2.0]}] * 10
    sharp, (plan, producer) = opened(pictures, small, "float32")[1], opened(pictures, small + blurs, "float32")
    for item in range(len(pictures)):
        value = sharp.produce(numpy.array([item]), numpy.array([item]))[0][0].astype(float)
        for op in json.loads(plan.parameters(item, item, 50, 50))[3:]:
            value = in_double(value, op["did"][0])
        ours = producer.produce(numpy.array([item]), numpy.array([item]))[0][0]
        numpy.testing.assert_allclose(ours, value, rtol=1e-6, atol=1e-7)


def test_normalize_stands_alone_too(pictures):
    ops = [RRC, FLOAT, {"op": "random_erasing", "p": 0.7, "scale": [0.02, 0.4], "ratio": [0.3, 3.3], "value": [0.25]}]
    ops.append({"op": "normalize", "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]})
    for ours, wanted, chosen in pairs(pictures, ops, "float32"):
        assert ours.tobytes() == wanted.tobytes(), chosen


@pytest.mark.parametrize("value", [[0.5], [1.0, 2.0, 3.0]])
def test_erased_is_erased(pictures, value):
    erasing = {"op": "random_erasing", "p": 0.9, "scale": [0.02, 0.6], "ratio": [0.3, 3.3], "value": value}
    for ours, wanted, chosen in pairs(pictures, [RRC, FLOAT, erasing], "float32"):
        assert ours.tobytes() == wanted.tobytes(), chosen
    for ours, wanted, chosen in pairs(pictures, [RRC, erasing]):
        assert ours.tobytes() == wanted.tobytes(), chosen


def test_noise_is_normal(pictures):
    erasing = {"op": "random_erasing", "p": 1, "scale": [0.5, 0.6], "ratio": [0.9, 1.1]}
    plan, producer = opened(pictures, [{**RRC, "size": [300, 300]}, FLOAT, erasing], "float32")
    row = producer.produce(numpy.array([7]), numpy.array([1]))[0][0]
    box = json.loads(plan.parameters(7, 1, 100, 100))[3]["did"][0]
    noise = row[:, box["top"] : box["top"] + box["height"], box["left"] : box["left"] + box["width"]].ravel()
    ordered, n = numpy.sort(noise), noise.size
    from math import erf

    steps = numpy.array([0.5 * (1 + erf(x / 2**0.5)) for x in ordered])
    assert numpy.abs(steps - (numpy.arange(n) + 0.5) / n).max() * n**0.5 < 1.95
    assert abs(numpy.corrcoef(noise[:-1], noise[1:])[0, 1]) < 4 / n**0.5
    assert row.tobytes() == producer.produce(numpy.array([7]), numpy.array([1]))[0][0].tobytes()
