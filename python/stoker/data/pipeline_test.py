# SPDX-License-Identifier: Apache-2.0
"""The pipeline room beside what it must equal: torchvision, Pillow, and the format pages."""

import contextlib
import json
import os
import pathlib
import random
import warnings

import numpy
import pytest

from stoker import _native
from stoker.data import source
from stoker.data.image import ImageError

native = _native.pipeline


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


# ---- image folders


def listed(manifest, root=None):
    samples = [[manifest.path(i), int(label)] for i, label in enumerate(manifest.labels)]
    return [[os.path.join(root, path), label] for path, label in samples] if root else samples


def test_handed_folder_cases(handed):
    cases = handed("folder")
    assert len(cases) >= 14
    for path, row in cases:
        expect, root = row["expect"], pathlib.Path(path)
        if expect["outcome"] == "error":
            with pytest.raises(source.FolderError) as caught:
                source.image_folder(root)
            assert caught.value.kind == expect["error_kind"], row["id"]
            for name in expect.get("empty_classes", []):
                assert name in str(caught.value)
            if "classes" not in expect:
                continue
        manifest = _quiet(lambda: source.image_folder(root, allow_empty=True))
        assert manifest.classes == expect["classes"], row["id"]
        assert listed(manifest) == expect["samples"], row["id"]


def _quiet(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def test_a_hidden_class_is_counted_with_a_warning_that_names_it(tmp_path):
    for name in (".ipynb_checkpoints/a.jpg", "cat/b.jpg"):
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).touch()
    with pytest.warns(UserWarning, match="ipynb_checkpoints"):
        manifest = source.image_folder(tmp_path / "root")
    assert manifest.classes == [".ipynb_checkpoints", "cat"]
    with pytest.warns(UserWarning, match="ipynb_checkpoints"):
        source.image_folder(tmp_path / "root")  # the second time as well


def random_tree(root, seed):
    draw = random.Random(seed)
    parts = [b"a", b"b", b"Z", b"a-", b"a b", b"\xc3\xa9", b"\xff", b"\xee\x80\x80", b"\xf0\x9f\x90\xb6", b"10", b"9", b"_x"]
    ends = [b".jpg", b".JPG", b".png", b".txt", b".webp", b".jpg.bak", b".TIFF", b""]
    for _ in range(60):
        depth = draw.randrange(1, 4)
        folder = b"/".join(b"".join(draw.sample(parts, draw.randrange(1, 3))) for _ in range(depth))
        at = os.fsencode(root) + b"/" + folder
        with contextlib.suppress(OSError):  # a file may stand where a folder is wanted
            os.makedirs(at, exist_ok=True)
            open(at + b"/" + draw.choice(parts) + draw.choice(ends), "wb").close()


@pytest.mark.parametrize("seed", range(8))
def test_order_and_classes_are_torchvisions(torchvision, tmp_path, seed):
    root = tmp_path / "root"
    random_tree(root, seed)
    reference = torchvision.datasets.ImageFolder(str(root), allow_empty=True)
    manifest = source.image_folder(root, allow_empty=True)
    assert manifest.classes == reference.classes
    assert listed(manifest, str(root)) == [list(sample) for sample in reference.samples]
    # The list that the data set holds gives the same manifest as the folder.
    files = source.files(reference.samples, reference.classes, reference.root)
    assert files.hash == manifest.hash
    assert native.Manifest.from_bytes(manifest.bytes()).hash == manifest.hash


def test_lists_of_files_are_checked():
    assert source.files([]).items == 0
    with pytest.raises(ValueError, match="NUL"):
        source.files([("a\0b", 1)])
    with pytest.raises(FileNotFoundError):
        source.image_folder("/nonexistent-root")
    with pytest.raises(ValueError, match="is a file; what is wanted is the folder"):
        source.image_folder(__file__)
    manifest = source.files([("x.jpg", 7)])
    assert manifest.path(0) == os.path.join(os.getcwd(), "x.jpg")
    with pytest.raises(IndexError):
        manifest.path(1)


# ---- rows


def libraries():
    import PIL

    return json.loads(native.native_libraries("13" if int(PIL.__version__.split(".")[0]) >= 13 else "12"))


def open_plan(manifest, root, ops, output, seed=5):
    text = json.dumps(
        {
            "format": "stoker-plan/1",
            "kind": "native",
            "source": {"kind": "files", "root": str(root), "manifest": manifest.hash, "items": manifest.items},
            "ops": [{"op": "decode_rgb"}, *ops],
            "output": output,
            "seed": seed,
            "libraries": libraries(),
        }
    )
    plan = native.Plan.parse(text)
    return plan, native.Producer.open(plan, manifest.bytes())


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Pictures of many kinds, or the first 200 of the folder named by STOKER_TEST_PHOTOS."""
    given = os.environ.get("STOKER_TEST_PHOTOS")
    if given:
        return sorted(str(path) for path in pathlib.Path(given).rglob("*.jpg"))[:200]
    Image = pytest.importorskip("PIL.Image")
    folder, draw = tmp_path_factory.mktemp("photos"), numpy.random.default_rng(1)
    paths = []
    for number in range(40):
        width, height = (int(side) for side in draw.integers(20, 600, 2))
        y, x = numpy.mgrid[0:height, 0:width] / 40.0
        waves = [128 + 90 * numpy.sin(x * draw.uniform(0.2, 3) + y * draw.uniform(0.2, 3)) for _ in range(3)]
        pixels = numpy.clip(numpy.stack(waves, -1) + draw.normal(0, 20, (height, width, 3)), 0, 255).astype(numpy.uint8)
        picture = Image.fromarray(pixels)
        kind = number % 8
        if kind == 6:
            paths.append(str(folder / f"{number}.png"))
            picture.convert("RGBA" if number % 16 == 6 else "P").save(paths[-1])
            continue
        if kind == 5:
            picture = picture.convert("L")
        paths.append(str(folder / f"{number}.jpg"))
        picture.save(paths[-1], quality=75 + number % 20, subsampling=number % 3, progressive=kind == 4, optimize=kind == 3)
    return paths


MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
RRC = {"op": "random_resized_crop", "size": [224, 224], "scale": [0.08, 1.0], "ratio": [0.75, 4 / 3]}
FLIP = {"op": "horizontal_flip", "p": 0.5}
NORMALIZE = {"op": "normalize", "mean": MEAN, "std": STD}
PIPELINES = {
    "train_v2": [RRC, FLIP, {"op": "to_float", "rule": "v2"}, NORMALIZE],
    "train_v1": [RRC, FLIP, {"op": "to_float", "rule": "v1"}, NORMALIZE],
    "train_uint8": [RRC, FLIP],
    "flip_first": [FLIP, {**RRC, "size": [96, 128]}],
    "validation": [{"op": "resize", "size": 256}, {"op": "center_crop", "size": [224, 224]}, {"op": "to_float", "rule": "v2"}, NORMALIZE],
    "tall": [{"op": "resize", "size": [300, 100]}, FLIP, {"op": "to_float", "rule": "v2"}],
    "padded": [{"op": "center_crop", "size": [320, 300]}],
    "several": [{"op": "resize", "size": [333, 401]}, RRC, {"op": "center_crop", "size": [200, 100]}, {"op": "resize", "size": [64, 64]}, FLIP],
}


def by_torchvision(torchvision, path, parameters):
    """The reference's own functions on a PIL picture, with our parameters; uint8 or float32 [C, H, W]."""
    from PIL import Image
    from torchvision.transforms.v2 import functional as v2

    from stoker.data.reference_test import apply

    value = Image.open(path).convert("RGB")
    for op in parameters:
        for action in op["did"]:
            value = apply(value, action)
    if isinstance(value, Image.Image):
        value = v2.pil_to_tensor(value)
    return value.numpy()


@pytest.mark.parametrize("name", PIPELINES)
def test_rows_have_torchvisions_bits(torchvision, photos, name):
    from PIL import Image

    ops = PIPELINES[name]
    manifest = source.files([(path, number * 3) for number, path in enumerate(photos)])
    output = "float32" if any(op["op"] == "to_float" for op in ops) else "uint8"
    plan, producer = open_plan(manifest, "/", ops, output)
    assert plan.is_native and producer.items == len(photos)
    rounds = 2 if len(photos) > 100 else 4
    for epoch in range(rounds):
        items = numpy.arange(len(photos), dtype=numpy.int64)
        positions = items + epoch * len(photos) + (2**40 if epoch == 3 else 0)
        images, labels = producer.produce(positions, items)
        assert [images.dtype.name, list(images.shape[1:])] == [producer.layout[0][1], list(producer.layout[0][2])]
        assert labels.tolist() == [3 * item for item in items]
        for position, item in zip(positions.tolist(), items.tolist()):
            width, height = Image.open(photos[item]).size
            chosen = json.loads(plan.parameters(position, item, width, height))[1:]
            wanted = by_torchvision(torchvision, photos[item], chosen)
            assert images[item].tobytes() == wanted.tobytes(), (photos[item], chosen)


def test_errors_name_the_file(tmp_path):
    (tmp_path / "bad.jpg").write_bytes(b"this is no picture at all")
    manifest = source.files([("bad.jpg", 0), ("gone.jpg", 1)], root="", classes=["x"])
    manifest = source.files([(str(tmp_path / "bad.jpg"), 0), (str(tmp_path / "gone.jpg"), 1)], root=str(tmp_path))
    assert manifest.path(0) == "bad.jpg"
    _, producer = open_plan(manifest, tmp_path, [{"op": "center_crop", "size": [8, 8]}], "uint8")
    with pytest.raises(ImageError, match="position 9") as caught:
        producer.produce(numpy.array([9]), numpy.array([0]))
    assert (caught.value.kind, caught.value.path) == ("not_image", str(tmp_path / "bad.jpg"))
    with pytest.raises(OSError, match="gone.jpg"):
        producer.produce(numpy.array([9]), numpy.array([1]))
    with pytest.raises(ValueError, match="item 2"):
        producer.produce(numpy.array([9]), numpy.array([2]))
    with pytest.raises(ValueError, match="no op \"sharpen\""):
        open_plan(manifest, tmp_path, [{"op": "sharpen"}], "uint8")


# ---- distributions


def kolmogorov_smirnov(a, b):
    """The statistic of two samples, in units in which 1.95 has probability 0.001."""
    both = numpy.concatenate([a, b])
    distance = numpy.abs(
        numpy.searchsorted(numpy.sort(a), both, side="right") / len(a)
        - numpy.searchsorted(numpy.sort(b), both, side="right") / len(b)
    ).max()
    return distance * numpy.sqrt(len(a) * len(b) / (len(a) + len(b)))


@pytest.mark.parametrize("width,height,scale", [(500, 375, [0.08, 1.0]), (375, 500, [0.5, 0.9]), (900, 120, [0.3, 1.0])])
def test_crops_are_distributed_as_torchvisions(torchvision, width, height, scale):
    import torch
    from torchvision.transforms import RandomResizedCrop

    count = 4000
    ops = [{**RRC, "scale": scale}]
    plan, _ = open_plan(source.files([("/x.jpg", 0)]), "/", ops, "uint8", seed=77)
    ours = [json.loads(plan.parameters(position, 0, width, height))[1]["did"][0] for position in range(count)]
    ours = numpy.array([[one["top"], one["left"], one["height"], one["width"]] for one in ours], float)
    torch.manual_seed(3)
    blank = torch.empty(3, height, width)
    theirs = numpy.array([RandomResizedCrop.get_params(blank, scale, [0.75, 4 / 3]) for _ in range(count)], float)
    for name, of in {
        "area": lambda box: box[:, 2] * box[:, 3],
        "aspect": lambda box: box[:, 3] / box[:, 2],
        "top": lambda box: box[:, 0],
        "left": lambda box: box[:, 1],
        "top, of the room there is": lambda box: (box[:, 0] + 0.5) / (height - box[:, 2] + 1),
    }.items():
        assert kolmogorov_smirnov(of(ours), of(theirs)) < 2.2, name


def test_fallback_crop_is_torchvisions(torchvision):
    import torch
    from torchvision.transforms import RandomResizedCrop

    for width, height in ((100, 400), (400, 100), (100, 90), (7, 1000), (333, 10)):
        ops = [{**RRC, "scale": [2.0, 3.0], "ratio": [0.7, 1.3]}]  # never fits
        plan, _ = open_plan(source.files([("/x.jpg", 0)]), "/", ops, "uint8")
        one = json.loads(plan.parameters(0, 0, width, height))[1]["did"][0]
        theirs = RandomResizedCrop.get_params(torch.empty(3, height, width), [2.0, 3.0], [0.7, 1.3])
        assert (one["top"], one["left"], one["height"], one["width"]) == theirs


# ---- orders, by the format page alone


def philox(counter, key):
    counter, (k0, k1) = list(counter), key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(p1 >> 32) ^ counter[1] ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ counter[3] ^ k1, p0 & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return counter


def feistel(i, n, key):
    bits = 1
    while 4**bits < n:
        bits += 1
    mask = 2**bits - 1
    while True:
        left, right = i >> bits, i & mask
        for number in range(8):
            mixed = philox((right, number, 0, 0), (key & 0xFFFFFFFF, key >> 32))[0] & mask
            left, right = right, left ^ mixed
        i = left << bits | right
        if i < n:
            return i


@pytest.mark.parametrize("n", [1, 2, 5, 64, 100])
def test_full_order_is_that_of_the_page(n):
    order = native.Order("full", n, 12)
    for epoch in (0, 1, 2**33):
        key = native.order_key(12, epoch)
        wanted = [feistel(i, n, key) for i in range(n)]
        assert order.items(epoch * n, n).tolist() == wanted
        assert order(epoch * n + n - 1) == wanted[-1]
        assert sorted(wanted) == list(range(n))
    with pytest.raises(ValueError):
        native.Order("random", n, 1)


def test_batches():
    assert native.batch_count(10, 4, False) == 3 and native.batch_count(10, 4, True) == 2
    assert native.batch_range(10, 4, False, 2, 2) == (28, 2)
    with pytest.raises(ValueError):
        native.batch_count(10, 0, False)
