# SPDX-License-Identifier: Apache-2.0
"""Pictures and masks go the same way, as in torchvision v2 with tv_tensors.Mask."""

import pickle

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
import numpy
from PIL import Image
from torch.utils.data import DataLoader as TorchLoader
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import v2

import stoker
from stoker import _native
from stoker.data.image import ImageError

FLOATS = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.25] * 3)]
COUNT = 12


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Regions of classes as palette, gray and 16-bit PNG; pictures as PNG and JPEG."""
    root, random = tmp_path_factory.mktemp("pairs"), numpy.random.default_rng(2)
    for folder in ("images/a", "masks/a", "masks16/a"):
        (root / folder).mkdir(parents=True)
    for i in range(COUNT):
        height, width = (int(x) for x in random.integers(45, 130, 2))
        rough = random.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=numpy.uint8)
        Image.fromarray(rough).resize((width, height), Image.BICUBIC).save(root / f"images/a/{i}.{'png' if i % 2 else 'jpg'}")
        classes = random.integers(0, 21, (height // 6 + 1, width // 6 + 1), dtype=numpy.uint8)
        classes = numpy.kron(classes, numpy.ones((6, 6), numpy.uint8))[:height, :width]
        classes[:3] = 255
        mask = Image.fromarray(classes)
        if i % 3 == 0:
            mask.putpalette([int(x) for x in random.integers(0, 256, 768)])
            assert mask.mode == "P"
        mask.save(root / f"masks/a/{i}.png")
        Image.fromarray(classes.astype(numpy.uint16) * 1000 // 255 * 40 + classes).save(root / f"masks16/a/{i}.png")
    return root


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def pairs(root, transform, **more):
    return stoker.data.image_masks(root / "images", root / "masks", transform=v2.Compose([*transform, *FLOATS]), **more)


NUMBERED = {Image.Image: (9, 8, 7), tv_tensors.Mask: 255, "others": 0}
EQUAL = {
    "resize": [v2.Resize((50, 61))],
    "resize, short side": [v2.Resize(37), v2.CenterCrop(30)],
    "resize, nearest": [v2.Resize((33, 90), v2.InterpolationMode.NEAREST)],
    "center crop": [v2.CenterCrop((100, 40))],
    "pad": [v2.CenterCrop(40), v2.Pad((1, 2, 3, 4), fill=7)],
    "pad, own fill": [v2.CenterCrop(40), v2.Pad(5, fill=NUMBERED)],
    "pad, reflected": [v2.CenterCrop(40), v2.Pad(5, padding_mode="reflect")],
    "pad, edge": [v2.CenterCrop(40), v2.Pad(5, padding_mode="edge")],
    "crop of its size": [v2.Resize((50, 50)), v2.RandomCrop(50)],
    "crop with padding": [v2.Resize((50, 50)), v2.RandomCrop(60, padding=5, fill=NUMBERED)],
    "flips": [v2.RandomHorizontalFlip(1), v2.CenterCrop(44), v2.RandomVerticalFlip(1)],
    "flip, resize": [v2.RandomHorizontalFlip(1), v2.Resize((70, 30))],
    "colour": [v2.ColorJitter((1.5, 1.5)), v2.RandomInvert(1), v2.RandomGrayscale(1), v2.CenterCrop(40), v2.RandomPosterize(3, 1)],
    "containers": [v2.RandomApply([v2.Resize((40, 40)), v2.RandomVerticalFlip(1)], 1), v2.RandomOrder([v2.CenterCrop(40)])],
}


def compare(dataset, workers=0):
    """The share of the masks' pixels that differ; those of pictures are all equal."""
    ours = stoker.DataLoader(dataset, batch_size=4, num_workers=workers)
    assert ours.explain().native, str(ours.explain())
    other = total = 0
    for (x, y), (images, masks) in zip(TorchLoader(dataset, batch_size=4), ours, strict=True):
        assert images.dtype == x.dtype and torch.equal(images, x)
        assert masks.dtype == y.dtype and masks.shape == y.shape
        other, total = other + int((masks != y).sum()), total + y.numel()
    ours.close()
    return other / total


def test_masks_are_converted_where_a_dict_says_so(folders):
    to = {tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}
    transform = v2.Compose([v2.CenterCrop(30), v2.ToImage(), v2.ToDtype(to, scale=True)])
    dataset = stoker.data.image_masks(folders / "images", folders / "masks", transform=transform)
    assert compare(dataset) == 0
    images, masks = next(iter(stoker.DataLoader(dataset)))
    assert images.dtype == torch.float32 and masks.dtype == torch.int64


@pytest.mark.parametrize("name", EQUAL)
def test_masks_equal_torchvisions(folders, name):
    assert compare(pairs(folders, EQUAL[name])) == 0


BILINEAR = v2.InterpolationMode.BILINEAR
CLOSE = {
    "rotation": [v2.CenterCrop(50), v2.RandomRotation((30, 30), BILINEAR, fill=NUMBERED)],
    "affine": [v2.CenterCrop(50), v2.RandomAffine((12, 12), scale=(1.5, 1.5), shear=(8, 8), fill=NUMBERED)],
    "shear": [v2.CenterCrop(50), v2.RandomAffine((0, 0), shear=(8, 8, 5, 5), interpolation=BILINEAR, fill=3)],
}


@pytest.mark.parametrize("name", CLOSE)
def test_maps_take_the_nearest_pixel(folders, name):
    """torchvision maps masks in float32: a point that lies within 1e-4 or so of two pixels' border may go either way."""
    assert compare(pairs(folders, CLOSE[name])) < 2e-3


def test_perspectives_take_mask_and_picture_along(folders):
    """By a picture that is its own mask: nearest pixels of both are the same."""
    names = [str(folders / f"masks/a/{i}.png") for i in range(COUNT) if i % 3]
    warps = [v2.RandomPerspective(0.6, 1, v2.InterpolationMode.NEAREST), v2.RandomAffine(40, (0.2, 0.2), (0.7, 1.3), 10)]
    crops = [v2.RandomCrop(40, padding=6, pad_if_needed=True), v2.RandomHorizontalFlip()]
    transform = v2.Compose([*warps, *crops, v2.RandomRotation(50), v2.RandomErasing(0), v2.ToImage()])
    loader = stoker.DataLoader(stoker.data.image_masks(names, names, transform=transform), batch_size=8, shuffle=True)
    assert not loader.explain().native and "PIL" in loader.explain().reason  # the erasing
    transform.transforms.pop(-2)
    assert loader.explain().native, str(loader.explain())
    for _ in range(5):
        images, masks = next(iter(loader))
        assert masks.dtype == torch.uint8 and masks.shape == (8, 40, 40) and masks.float().std() > 1
        assert torch.equal(images[:, 0], masks) and torch.equal(images[:, 2], masks)


def test_numbers_of_16_bits_are_kept(folders):
    dataset = stoker.data.image_masks(
        folders / "images", folders / "masks16", transform=v2.Compose([v2.Resize((40, 41)), v2.ToImage()]), mask_dtype="int64"
    )
    assert compare(dataset) == 0
    assert next(iter(stoker.DataLoader(dataset)))[1].max() > 255
    narrow = stoker.data.image_masks(folders / "images", folders / "masks16", transform=dataset.transform)
    with pytest.raises(ImageError, match="does not fit uint8") as caught:
        next(iter(stoker.DataLoader(narrow)))
    assert caught.value.path.endswith("masks16/a/0.png")


@pytest.mark.parametrize("workers", [1])
def test_workers_make_the_same(folders, workers):
    dataset = pairs(folders, [v2.RandomResizedCrop(40), v2.RandomHorizontalFlip()])
    made = []
    for n in (0, workers):
        torch.manual_seed(5)
        loader = stoker.DataLoader(dataset, batch_size=6, shuffle=True, num_workers=n)
        assert loader.explain().native
        made.append([(images.clone(), masks.clone()) for images, masks in loader])
        loader.close()
    for (x, y), (images, masks) in zip(*made, strict=True):
        assert torch.equal(x, images) and torch.equal(y, masks)


def test_what_is_not_exact_is_python(folders):
    def why(*transforms):
        return stoker.DataLoader(stoker.data.image_masks(folders / "images", folders / "masks", v2.Compose([*transforms, v2.ToImage()]))).explain().reason

    assert "refuses masks" in why(v2.RandAugment(), v2.CenterCrop(8))
    assert "v1 takes no masks" in why(v1.CenterCrop(8))
    assert "no class number" in why(v2.CenterCrop(8), v2.Pad(1, fill=(1, 2, 3)))
    assert "nothing for Image" in why(v2.CenterCrop(8), v2.Pad(1, fill={tv_tensors.Mask: 1}))


def test_pairs_by_name_list_or_csv(folders, tmp_path):
    stored = stoker.data.image_masks(folders / "images", folders / "masks")
    assert len(stored) == COUNT and set(stored[0]) == {"image", "mask"}
    assert stored[0]["mask"].startswith(b"\x89PNG") and pickle.loads(pickle.dumps(stored))[3] == stored[3]
    assert stored.with_transform(v2.ToImage())[2][1].dtype == torch.uint8
    (folders / "pairs.csv").write_text("x,mask,image\n" + "".join(f"0,masks/a/{i}.png,images/a/{i}.png\n" for i in (1, 3)))
    listed = stoker.data.image_masks(folders / "pairs.csv", image_column="image", mask_column="mask")
    assert len(listed) == 2 and listed[0]["mask"] == (folders / "masks/a/1.png").read_bytes()
    (tmp_path / "images").mkdir()
    (tmp_path / "masks").mkdir()
    (tmp_path / "images/lonely.png").write_bytes(b"")
    with pytest.raises(ValueError, match="lonely has no partner"):
        stoker.data.image_masks(tmp_path / "images", tmp_path / "masks")


def test_masks_that_are_none_are_named(folders, tmp_path):
    def first(mask):
        transform = v2.Compose([v2.CenterCrop(8), v2.ToImage()])
        return next(iter(stoker.DataLoader(stoker.data.image_masks([folders / "images/a/1.png"], [mask], transform))))

    with pytest.raises(ImageError, match="not colours"):
        first(folders / "images/a/1.png")
    with pytest.raises(ImageError, match="JPEG does not keep"):
        first(_jpeg(folders, tmp_path))
    with pytest.raises(ImageError, match="the mask is"):
        first(folders / "masks/a/2.png")


def _jpeg(folders, tmp_path):
    Image.open(folders / "images/a/1.png").convert("L").save(tmp_path / "m.jpg")
    return tmp_path / "m.jpg"


@pytest.mark.parametrize("mode, bits", [("1", 1), ("L", 8), ("L", 2), ("L", 4), ("P", 1), ("P", 4), ("P", 8), ("I;16", 16)])
def test_numbers_are_those_of_pillow(tmp_path, mode, bits):
    random = numpy.random.default_rng(4)
    numbers = random.integers(0, 2 ** min(bits, 16), (13, 17))
    if mode == "I;16":
        Image.fromarray(numbers.astype(numpy.uint16)).save(tmp_path / "m.png")
    elif mode == "1":
        Image.fromarray(numbers.astype(bool)).save(tmp_path / "m.png")
    elif mode == "L" and bits < 8:
        _gray_png(numbers, bits, tmp_path / "m.png")
    else:
        mask = Image.fromarray(numbers.astype(numpy.uint8))
        if mode == "P":
            mask.putpalette([int(x) for x in random.integers(0, 256, 3 * 2**bits)])
        mask.save(tmp_path / "m.png", **({"bits": bits} if mode == "P" else {}))
    wanted = numpy.asarray(Image.open(tmp_path / "m.png")).astype(numpy.uint16)
    assert numpy.array_equal(_native.image.decode_numbers((tmp_path / "m.png").read_bytes()), wanted)


def _gray_png(numbers, bits, path):
    import struct
    import zlib

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    lines = b""
    for row in numbers:
        text = "".join(f"{x:0{bits}b}" for x in row)
        text += "0" * (-len(text) % 8)
        lines += b"\0" + int(text, 2).to_bytes(len(text) // 8, "big")
    header = struct.pack(">IIBBBBB", numbers.shape[1], numbers.shape[0], bits, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
