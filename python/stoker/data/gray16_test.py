# SPDX-License-Identifier: Apache-2.0
"""16-bit gray, clipped or scaled, against NumPy on the 16-bit source; 16-bit colours, which are always their high bytes."""

import io
import struct
import sys
import warnings
import zlib

import numpy as np
import pytest

import stoker
from stoker.data import image as pixels
from stoker.data.loader_feed_test import feed  # noqa: F401  a fixture

Image = pytest.importorskip("PIL.Image")

WAYS = {
    "clip": lambda values: np.minimum(values, 255).astype(np.uint8),
    "scale": lambda values: (values >> 8).astype(np.uint8),
}
FILES = [("PNG", "png"), ("interlaced PNG", "png"), ("TIFF", "tif"), ("big-endian TIFF", "tif"), ("PPM", "pgm")]


def values_of(seed, width=33, height=27):
    """All magnitudes as often: most of the clipped picture is not white."""
    draw = np.random.default_rng(seed)
    return (draw.integers(0, 1 << 16, (height, width)) >> draw.integers(0, 17, (height, width))).astype(np.uint16)


def png(values, colour, interlaced=False):
    """values: uint16 [H, W] or [H, W, channels]."""
    height, width = values.shape[:2]
    big = values.reshape(height, width, -1).astype(">u2")

    def lines(part):
        return b"".join(b"\0" + line.tobytes() for line in part) if part.size else b""

    starts = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    passes = [big[y::down, x::right] for y, x, down, right in starts] if interlaced else [big]
    head = struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, int(interlaced))
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(b"".join(map(lines, passes)))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def encoded(values, kind):
    if kind.endswith("PNG"):
        return png(values, 0, kind != "PNG")
    out = io.BytesIO()
    if kind == "PPM":
        Image.fromarray(values.astype(np.int32)).save(out, kind)
    elif kind == "TIFF":
        Image.fromarray(values).save(out, kind)
    else:
        Image.frombytes("I;16B", values.shape[::-1], values.astype(">u2").tobytes()).save(out, "TIFF")
    return out.getvalue()


def planes(gray):
    return np.broadcast_to(gray, (3, *gray.shape))


@pytest.mark.parametrize("kind", [kind for kind, _ in FILES])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore:.*16-bit gray")
def test_each_way_and_format_is_numpys(kind, way):
    values = values_of(3)
    data = encoded(values, kind)
    want = np.moveaxis(planes(WAYS[way](values)), 0, 2)
    np.testing.assert_array_equal(pixels.decode(data, gray16=way), want)
    if kind.endswith("PNG"):
        np.testing.assert_array_equal(pixels.decode_region(data, (5, 3, 20, 11), gray16=way), want[3:14, 5:25])
        crop = pixels.decode_resized_crop(data, (5, 3, 20, 11), (20, 11), gray16=way)
        np.testing.assert_array_equal(crop, want[3:14, 5:25])


def test_clipping_warns_and_scaling_does_not():
    data = encoded(values_of(1), "PNG")
    with pytest.warns(UserWarning, match="16-bit gray, clipped.*gray16='scale'"):
        pixels.decode(data, path="deep.png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pixels.decode(data, path="deeper.png", gray16="scale")


@pytest.mark.parametrize("colour, channels", [(2, 3), (4, 2), (6, 4)], ids=["RGB", "gray and alpha", "RGB and alpha"])
@pytest.mark.parametrize("interlaced", [False, True])
def test_other_pictures_of_16_bits_are_their_high_bytes_as_in_pillow(colour, channels, interlaced):
    values = np.stack([values_of(seed) for seed in range(channels)], axis=2)
    data = png(values, colour, interlaced)
    high = (values >> 8).astype(np.uint8)
    want = high[:, :, :3] if channels > 2 else np.repeat(high[:, :, :1], 3, axis=2)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data)).convert("RGB")), want)
    for way in WAYS:
        np.testing.assert_array_equal(pixels.decode(data, gray16=way), want)


def test_scaled_gray_is_what_colours_of_the_same_values_are():
    values = values_of(5)
    colours = png(np.stack([values] * 3, axis=2), 2)
    np.testing.assert_array_equal(pixels.decode(encoded(values, "PNG"), gray16="scale"), pixels.decode(colours))


# ---- in loaders


@pytest.fixture
def root(tmp_path):
    for number in range(12):
        kind, ending = FILES[number % len(FILES)]
        at = tmp_path / "scans" / str(number % 2)
        at.mkdir(exist_ok=True, parents=True)
        (at / f"{number:02}.{ending}").write_bytes(encoded(values_of(number), kind))
    return tmp_path / "scans"


def want_of(root, way):
    """[N, 3, H, W] in the order of a listing."""
    numbers = [int(path.stem) for folder in sorted(root.iterdir()) for path in sorted(folder.iterdir())]
    return np.stack([planes(WAYS[way](values_of(number))) for number in numbers])


@pytest.fixture
def scans(torchvision, root):
    v2 = pytest.importorskip("torchvision.transforms.v2")
    return torchvision.datasets.ImageFolder(str(root), v2.Compose([v2.CenterCrop((27, 33)), v2.PILToTensor()]))


def rows_of(loader):
    sys.modules["torch"].manual_seed(3)
    rows = np.concatenate([batch[0].numpy() for batch in loader])
    return rows, loader.state_dict()["digest"]


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_a_loader_makes_them_as_asked(root, scans, way, workers):
    loader = stoker.DataLoader(scans, batch_size=5, num_workers=workers, gray16=way)
    explained = loader.explain()
    assert explained.native and ("16-bit gray by its high byte" in str(explained)) == (way == "scale")
    np.testing.assert_array_equal(rows_of(loader)[0], want_of(root, way))


def test_feed_groups_make_them_as_asked(root, scans, feed, monkeypatch):
    feed.add_worker()
    rows, there = rows_of(stoker.DataLoader(scans, batch_size=5, num_workers=1, gray16="scale"))
    np.testing.assert_array_equal(rows, want_of(root, "scale"))
    monkeypatch.delenv("STOKER_FEED")
    assert rows_of(stoker.DataLoader(scans, batch_size=5, num_workers=2, gray16="scale"))[1] == there


def test_it_counts_in_the_plan_and_its_hash(scans):
    loaders = [stoker.DataLoader(scans), *(stoker.DataLoader(scans, gray16=way) for way in ("clip", "scale"))]
    default, clipped, scaled = (loader._recipe.plan(0) for loader in loaders)
    assert clipped.hash == default.hash != scaled.hash
    assert '{"gray16":"scale","op":"decode_rgb"}' in scaled.text and "gray16" not in clipped.text
    loader = stoker.DataLoader(scans, batch_size=5, gray16="scale")
    next(iter(loader))
    with pytest.raises(ValueError, match="plan"):
        stoker.DataLoader(scans, batch_size=5).load_state_dict(loader.state_dict())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore:.*16-bit gray")
def test_pipes_make_them_as_asked(root, way):
    decoded = stoker.data.image_folder(root).decode(gray16=way)
    pipes = {
        "native": decoded.center_crop((27, 33)),
        "native before Python": decoded.center_crop((27, 33)).map(tuple),
        "decoded in Python": decoded.map(tuple),
    }
    for name, pipe in pipes.items():
        assert pipe.batch(5).explain().native == (name == "native")
        for workers in (0, 1):
            rows = np.concatenate([batch[0] for batch in pipe.batch(5).numpy(workers=workers)])
            np.testing.assert_array_equal(rows, want_of(root, way), err_msg=name)


def test_what_cannot_be_honoured_is_refused(scans):
    with pytest.raises(ValueError, match="gray16 should be 'clip' or 'scale', but got 'scaled'"):
        stoker.DataLoader(scans, gray16="scaled")
    with pytest.raises(ValueError, match="gray16 should be"):
        stoker.data.image_folder(scans.root).decode(gray16=True)
    with pytest.raises(ValueError, match="gray16 should be"):
        pixels.decode(b"", gray16="16")
    with pytest.raises(NotImplementedError, match="gray16='scale' is for stored pictures of native plans.*own Python code"):
        iter(stoker.DataLoader(list(range(3)), gray16="scale"))
    rows = np.zeros((4, 8, 8, 3), np.uint8)
    with pytest.raises(NotImplementedError, match="rows of arrays are not decoded"):
        iter(stoker.DataLoader(stoker.data.arrays(rows), gray16="scale"))
    torch_data = sys.modules["torch"].utils.data

    class Endless(torch_data.IterableDataset):
        def __iter__(self):
            yield from range(3)

    with pytest.raises(NotImplementedError, match="not for iterable datasets"):
        stoker.DataLoader(Endless(), gray16="scale")
