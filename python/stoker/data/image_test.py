# SPDX-License-Identifier: Apache-2.0
"""Pixels against Pillow and torchvision, bit for bit."""

import io
import json
import pathlib
import random
import subprocess
import sys
import warnings

import numpy as np
import pytest

from stoker.data import image as pixels

Image = pytest.importorskip("PIL.Image")

# Handed to the project beside its checkout.
CASES = next((parent / "shared" / "cases" for parent in pathlib.Path(__file__).resolve().parents
              if (parent / "shared" / "cases" / "make_cases.py").is_file()), pathlib.Path("absent"))


def picture(width, height, mode="RGB", seed=0):
    bands = {"RGB": 3, "L": 1, "CMYK": 4, "RGBA": 4}[mode]
    draw = np.random.default_rng(seed)
    coarse = draw.integers(0, 256, (max(2, height // 8), max(2, width // 8), bands), dtype=np.uint8)
    image = Image.fromarray(coarse.squeeze(2) if bands == 1 else coarse, mode).resize((width, height), Image.BICUBIC)
    noisy = np.asarray(image).astype(int) + draw.integers(-20, 20, np.asarray(image).shape)
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8), mode)


def encoded(image, kind="JPEG", **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def pillow(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def any_box(draw, width, height):
    w, h = draw.randint(1, width), draw.randint(1, height)
    return draw.randint(0, width - w), draw.randint(0, height - h), w, h


def cases():
    manifest = CASES / "manifest.json"
    if not manifest.is_file():
        return []
    listed = json.loads(manifest.read_text())
    listed = listed if isinstance(listed, list) else listed["cases"]
    return [c for c in listed if c["kind"] == "image"]


@pytest.fixture(scope="module")
def case_files(tmp_path_factory):
    if not cases():
        pytest.skip("the handed cases are not beside this checkout (../shared/cases)")
    folder = tmp_path_factory.mktemp("cases")
    subprocess.run([sys.executable, str(CASES / "make_cases.py"), "--out", str(folder)], check=True,
                   stdout=subprocess.DEVNULL)
    return folder


@pytest.mark.parametrize("case", cases() or [None], ids=lambda c: c["id"] if c else "none")
def test_handed_case(case, case_files):
    expect = case["expect"]
    data = (case_files / case["path"]).read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = pixels.decode(data, path=case["path"])
    except pixels.ImageError as error:
        assert expect["outcome"] in ("error", "either"), error
        assert error.kind == expect.get("error_kind", error.kind)
        assert error.path == case["path"] and case["path"] in str(error)
        return
    assert expect["outcome"] in ("decode", "either")
    if "width" in expect:
        assert got.shape == (expect["height"], expect["width"], 3)
    if expect["outcome"] == "decode":
        np.testing.assert_array_equal(got, pillow(data))


def test_gray16_is_pillows_with_a_warning():
    wide = Image.fromarray(np.arange(0, 65536, 97, dtype=np.uint16)[:600].reshape(20, 30))
    data = encoded(wide, "PNG")
    with pytest.warns(UserWarning, match="16-bit gray"):
        got = pixels.decode(data, path="scan.png")
    with warnings.catch_warnings():  # once per picture
        warnings.simplefilter("error")
        pixels.decode(data, path="scan.png")
    np.testing.assert_array_equal(got, pillow(data))


@pytest.mark.parametrize("seed", range(40))
def test_jpeg_whole_region_and_resized_crop(seed):
    draw = random.Random(seed)
    width, height = draw.choice([(draw.randint(1, 40), draw.randint(1, 40)), (draw.randint(30, 300), draw.randint(30, 300))])
    mode = draw.choice(["RGB", "RGB", "RGB", "L", "CMYK"])
    options = {"quality": draw.choice([30, 75, 95]), "progressive": draw.random() < 0.3}
    if mode == "RGB":
        options["subsampling"] = draw.choice(["4:4:4", "4:2:2", "4:2:0"])
    if draw.random() < 0.4:
        options["restart_marker_blocks"] = draw.randint(1, 5)
    data = encoded(picture(width, height, mode, seed), **options)
    reference = pillow(data)
    np.testing.assert_array_equal(pixels.decode(data), reference)
    for _ in range(6):
        left, top, w, h = box = any_box(draw, width, height)
        np.testing.assert_array_equal(pixels.decode_region(data, box), reference[top:top + h, left:left + w])
        size = draw.choice([(draw.randint(1, 90), draw.randint(1, 90)), (w, draw.randint(1, 60)), (224, 224)])
        want = Image.fromarray(reference).crop((left, top, left + w, top + h)).resize(size, Image.BILINEAR)
        np.testing.assert_array_equal(pixels.decode_resized_crop(data, box, size), np.asarray(want))
        np.testing.assert_array_equal(pixels.resize(reference[top:top + h, left:left + w], size), np.asarray(want))
        mirrored = np.asarray(want.transpose(Image.FLIP_LEFT_RIGHT))
        planes = pixels.decode_resized_crop(data, box, size, flip=True, layout="chw")
        np.testing.assert_array_equal(planes, mirrored.transpose(2, 0, 1))


@pytest.mark.parametrize("seed", range(30))
def test_resize_follows_pillow_at_all_sizes(seed):
    draw = random.Random(seed)
    for _ in range(20):
        longest = draw.choice([12, 90, 600])
        source = np.random.default_rng(draw.randint(0, 1 << 30)).integers(
            0, 256, (draw.randint(1, longest), draw.randint(1, longest), 3), dtype=np.uint8)
        size = (draw.randint(1, longest), draw.randint(1, longest))
        want = np.asarray(Image.fromarray(source).resize(size, Image.BILINEAR))
        np.testing.assert_array_equal(pixels.resize(source, size), want)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_png_modes(mode):
    image = picture(53, 41).convert(mode)
    for options in ({}, {"bits": 4} if mode == "P" else {}, {"transparency": 3} if mode in ("L", "P") else {}):
        data = encoded(image, "PNG", **options)
        reference = pillow(data)
        np.testing.assert_array_equal(pixels.decode(data), reference)
        np.testing.assert_array_equal(pixels.decode_region(data, (5, 7, 20, 11)), reference[7:18, 5:25])


def either(function, *args):
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001  Pillow's own are of many classes
        return error


@pytest.mark.parametrize("seed", range(30))
def test_webp_whole_regions_and_damage_as_pillow(seed):
    draw = random.Random(seed)
    width, height = draw.randint(1, 150), draw.randint(1, 150)
    mode = draw.choice(["RGB", "RGBA"])
    image = picture(width, height, mode, seed)
    if draw.random() < 0.2:
        image = image.convert("P").convert(mode)  # few colours: a palette in lossless files
    options = {"quality": draw.choice([5, 75, 95]), "lossless": draw.random() < 0.3, "method": draw.randint(0, 4)}
    if draw.random() < 0.2:
        options |= {"save_all": True, "append_images": [picture(width, height, mode, seed + 1)]}
    data = encoded(image, "WEBP", **options)
    reference = pillow(data)
    np.testing.assert_array_equal(pixels.decode(data), reference)
    assert pixels.read_header(data) == ("WEBP", width, height)
    for _ in range(6):
        left, top, w, h = box = any_box(draw, width, height)
        np.testing.assert_array_equal(pixels.decode_region(data, box), reference[top:top + h, left:left + w])
    for _ in range(8):
        damaged = bytearray(data)
        for _ in range(draw.choice([1, 2, 5])):
            damaged[draw.randrange(12, len(damaged))] = draw.randrange(256)
        damaged = bytes(damaged[:draw.choice([len(damaged), draw.randrange(12, len(damaged))])])
        want, got = either(pillow, damaged), either(pixels.decode, damaged)
        if isinstance(want, Exception):
            assert isinstance(got, pixels.ImageError), want
        else:
            np.testing.assert_array_equal(got, want)


def test_webp_animation_whose_first_frame_is_a_part_of_the_canvas():
    def chunk(name, body):
        return name + len(body).to_bytes(4, "little") + body + bytes(len(body) % 2)

    def three(number):
        return number.to_bytes(3, "little")

    image = picture(21, 13, "RGBA")
    for options in ({"lossless": True}, {"quality": 60}):
        plain = encoded(image.convert("RGB"), "WEBP", **options)
        first = three(4) + three(3) + three(20) + three(12) + three(100) + b"\0" + plain[12:]  # at (8, 6)
        body = chunk(b"VP8X", b"\x02\0\0\0" + three(39) + three(29)) + chunk(b"ANIM", b"\xff\xee\xdd\xff\0\0")
        body += chunk(b"ANMF", first)
        data = chunk(b"RIFF", b"WEBP" + body)
        reference = pillow(data)
        assert reference.shape == (30, 40, 3) and reference.any()
        np.testing.assert_array_equal(pixels.decode(data), reference)
        for left, top, w, h in [(0, 0, 8, 6), (5, 5, 20, 10), (9, 7, 3, 3), (20, 10, 20, 20), (0, 0, 40, 30)]:
            np.testing.assert_array_equal(pixels.decode_region(data, (left, top, w, h)), reference[top:top + h, left:left + w])


def test_webp_canvas_is_checked_before_memory_is_taken():
    header = b"RIFF" + (1000).to_bytes(4, "little") + b"WEBPVP8X" + (10).to_bytes(4, "little") + bytes(4)
    with pytest.raises(pixels.ImageError) as raised:
        pixels.decode(header + b"\xff\xff\x3f" * 2 + bytes(900))
    assert raised.value.kind == "too_large"


def test_cut_files_are_found_where_pillow_finds_them():
    for seed, options in enumerate([{}, {"progressive": True}, {"subsampling": "4:4:4"}, {"restart_marker_blocks": 3}]):
        data = encoded(picture(61, 47, seed=seed), **options)
        for cut in [*range(1, 20), len(data) // 2, len(data) - 30]:
            try:
                want = pillow(data[:-cut])
            except OSError:
                with pytest.raises(pixels.ImageError) as raised:
                    pixels.decode(data[:-cut])
                assert raised.value.kind == "truncated"
            else:
                np.testing.assert_array_equal(pixels.decode(data[:-cut]), want)


def test_errors_say_what_and_where():
    with pytest.raises(pixels.ImageError) as raised:
        pixels.decode(b"GIF89a" + bytes(20), path="a/b.jpg")
    assert (raised.value.kind, raised.value.path) == ("unsupported", "a/b.jpg")
    assert isinstance(raised.value, ValueError)
    with pytest.raises(ValueError, match="outside"):
        pixels.decode_region(encoded(picture(8, 8)), (0, 0, 9, 8))


@pytest.fixture(scope="module")
def v2():
    pytest.importorskip("torch")
    return pytest.importorskip("torchvision.transforms.v2")


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.mark.parametrize("scale", ["multiply", "divide"])
@pytest.mark.parametrize("seed", range(6))
def test_training_path_is_torchvisions(v2, scale, seed):
    import torch

    draw = random.Random(seed)
    data = encoded(picture(draw.randint(60, 500), draw.randint(60, 500), seed=seed), quality=90)
    image = Image.open(io.BytesIO(data)).convert("RGB")
    left, top, w, h = any_box(draw, *image.size)
    flip = draw.random() < 0.5
    out = v2.functional.resized_crop(image, top, left, h, w, [224, 224], antialias=True)
    out = v2.functional.horizontal_flip(out) if flip else out
    if scale == "multiply":
        out = v2.ToDtype(torch.float32, scale=True)(v2.PILToTensor()(out))
    else:
        from torchvision.transforms import ToTensor

        out = ToTensor()(out)
    out = v2.Normalize(MEAN, STD)(out)
    table = pixels.FloatTable(scale, MEAN, STD)
    got = pixels.decode_resized_crop(data, (left, top, w, h), (224, 224), flip=flip, table=table)
    assert got.dtype == np.float32 and got.shape == (3, 224, 224)
    assert got.tobytes() == out.contiguous().numpy().tobytes()


@pytest.mark.parametrize("seed", range(6))
def test_evaluation_path_is_torchvisions(v2, seed):
    draw = random.Random(seed)
    width, height = draw.randint(200, 600), draw.randint(200, 600)
    data = encoded(picture(width, height, seed=seed))
    image = Image.open(io.BytesIO(data)).convert("RGB")
    want = np.asarray(v2.Compose([v2.Resize(256), v2.CenterCrop(224)])(image))
    short = min(width, height)
    size = (256, int(256 * height / short)) if width <= height else (int(256 * width / short), 256)
    window = (round((size[0] - 224) / 2), round((size[1] - 224) / 2), 224, 224)
    got = pixels.decode_resized_crop(data, (0, 0, width, height), size, window=window)
    np.testing.assert_array_equal(got, want)
