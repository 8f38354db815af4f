# SPDX-License-Identifier: Apache-2.0
"""What is lowered and what is not, and that lowered plans give the reference's pixels."""

import collections
import json
import re
import sys

import pytest

torch = pytest.importorskip("torch")
datasets = pytest.importorskip("torchvision.datasets")
import numpy
from PIL import Image
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Subset
from torchvision import transforms as v1
from torchvision.transforms import v2

import stoker
from stoker import _native
from stoker.data.feed_engine import find_program
from stoker.data.lowering import lower


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    random = numpy.random.default_rng(1)
    for kind, name in enumerate(("ant", "bee", "cat")):
        (root / name).mkdir()
        for i in range(5):
            height, width = random.integers(40, 400, 2)
            rough = random.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=numpy.uint8)
            picture = Image.fromarray(rough).resize((int(width), int(height)), Image.BICUBIC)
            suffix, options = (("png", {}) if i == 3 else ("jpg", {"quality": 90, "subsampling": (kind + i) % 3}))
            picture.convert("L" if i == 4 else "RGB").save(root / name / f"{i}.{suffix}", **options)
    return str(root)


STATISTICS = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])

EXACT = {
    "v1": v1.Compose([v1.Resize(64), v1.CenterCrop(56), v1.ToTensor(), v1.Normalize(*STATISTICS)]),
    "v2": v2.Compose(
        [v2.Resize(64), v2.CenterCrop(56), v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(*STATISTICS)]
    ),
    "both sides": v2.Compose([v2.Resize((48, 80)), v2.PILToTensor()]),
    "crop first": v1.Compose([v1.CenterCrop((100, 90)), v1.Resize((40, 44)), v1.ToTensor()]),
    "certain flip": v1.Compose([v1.CenterCrop(64), v1.RandomHorizontalFlip(1.0), v1.ToTensor()]),
    "flip of a tensor": v1.Compose([v1.CenterCrop(64), v1.ToTensor(), v1.RandomHorizontalFlip(1.0)]),
    "nested": v1.Compose([v1.Compose([v1.Resize(70)]), torch.nn.Sequential(v1.CenterCrop(64)), v1.ToTensor()]),
    "padded": v1.Compose([v1.CenterCrop(420), v1.PILToTensor(), v1.ConvertImageDtype(torch.float32)]),
    "one mean": v1.Compose([v1.CenterCrop(32), v1.ToTensor(), v1.Normalize([0.5], [0.25])]),
}


BICUBIC, NEAREST = v1.InterpolationMode.BICUBIC, v1.InterpolationMode.NEAREST
TENSOR = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
EXACT |= {
    "bicubic": v1.Compose([v1.Resize((30, 40), BICUBIC), v1.ToTensor()]),
    "nearest": v2.Compose([v2.Resize((30, 40), "nearest"), *TENSOR]),
    "nearest-exact": v2.Compose([v2.Resize((30, 40), v1.InterpolationMode.NEAREST_EXACT), *TENSOR]),
    "max size": v2.Compose([v2.Resize(size=None, max_size=50), v2.CenterCrop(40), *TENSOR]),
    "tensor": v2.Compose([v2.ToImage(), v2.Resize((30, 40)), v2.ToDtype(torch.float32, scale=True)]),
    "tensor, bicubic": v2.Compose([v2.PILToTensor(), v2.Resize((30, 40), BICUBIC), v2.Resize((44, 41), NEAREST)]),
    "unscaled": v2.Compose([v2.ToImage(), v2.CenterCrop(30), v2.ToDtype(torch.float32)]),
    "pad": v1.Compose([v1.CenterCrop(40), v1.Pad((1, 2), fill=(3, 4, 5)), v1.Pad(4, padding_mode="reflect"), v1.ToTensor()]),
    "pad, v2": v2.Compose([v2.CenterCrop(40), *TENSOR, v2.Pad([1, 2, 3, 4]), v2.RandomVerticalFlip(1)]),
    "gray": v1.Compose([v1.Grayscale(1), v1.CenterCrop(40), v1.ToTensor(), v1.Normalize([0.4], [0.2])]),
    "gray, v2": v2.Compose([v2.Grayscale(3), v2.CenterCrop(40), v2.RandomAutocontrast(1), *TENSOR]),
    "jitter": v1.Compose([v1.CenterCrop(40), v1.ColorJitter((1.5, 1.5)), v1.ColorJitter(hue=(0.2, 0.2)), v1.PILToTensor()]),
    "posters": v2.Compose(
        [v2.RandomPosterize(3, 1), v2.RandomInvert(1), v2.CenterCrop(32), v2.ToImage(), v2.RandomSolarize(100, 1), v2.RandomInvert(0)]
    ),
    "sharp": v1.Compose([v1.RandomAdjustSharpness(1.7, 1), v1.RandomEqualize(1), v1.Resize((33, 33)), v1.ToTensor()]),
    "apply": v1.Compose([v1.RandomApply([v1.ColorJitter(contrast=(2, 2)), v1.RandomVerticalFlip(1)], 1), v1.CenterCrop(40), v1.ToTensor()]),
    "choice": v2.Compose([v2.CenterCrop(40), v2.RandomChoice([v2.RandomHorizontalFlip(1), v2.RandomInvert(1)], p=[0, 1]), *TENSOR]),
    "order": v2.Compose([v2.CenterCrop(40), v2.RandomOrder([v2.RandomHorizontalFlip(1), v2.RandomInvert(1)]), *TENSOR]),
    "rotation": v1.Compose([v1.RandomRotation((30, 30), expand=True, fill=7), v1.Resize((40, 40)), v1.ToTensor()]),
    "rotation, v2": v2.Compose([v2.CenterCrop(40), v2.RandomRotation((90, 90), v1.InterpolationMode.BILINEAR), *TENSOR]),
    "affine": v1.Compose([v1.CenterCrop(50), v1.RandomAffine((12, 12), scale=(1.5, 1.5), shear=(8, 8), fill=(1, 2, 3)), v1.ToTensor()]),
    "affine, v2": v2.Compose([v2.CenterCrop(50), v2.RandomAffine((0, 0), shear=(8, 8, 5, 5), interpolation="bilinear"), *TENSOR]),
    "crop of its size": v1.Compose([v1.Resize((50, 50)), v1.RandomCrop(50), v1.ToTensor()]),
}


@pytest.mark.parametrize("name", EXACT)
def test_native_batches_equal_torchs_bit_for_bit(photos, name):
    dataset = datasets.ImageFolder(photos, transform=EXACT[name])
    ours = stoker.DataLoader(dataset, batch_size=4)
    assert ours.explain().native, str(ours.explain())
    for (x, y), (images, labels) in zip(TorchLoader(dataset, batch_size=4), ours, strict=True):
        assert images.dtype == x.dtype and torch.equal(images, x)
        assert labels.dtype == y.dtype and torch.equal(labels, y)


CLOSE = {
    "blur": (v1.Compose([v1.CenterCrop(60), v1.GaussianBlur(5, (1.5, 1.5)), v1.ToTensor()]), 1.001 / 255),
    "blur of floats": (v2.Compose([v2.CenterCrop(60), *TENSOR, v2.GaussianBlur((5, 11), (1.5, 1.5)), v2.Normalize(*STATISTICS)]), 1e-5),
}


@pytest.mark.parametrize("name", CLOSE)
def test_blurs_are_as_close_as_parity_says(photos, name):
    transform, tolerance = CLOSE[name]
    dataset = datasets.ImageFolder(photos, transform=transform)
    ours = stoker.DataLoader(dataset, batch_size=4)
    assert ours.explain().native, str(ours.explain())
    for (x, _), (images, _) in zip(TorchLoader(dataset, batch_size=4), ours, strict=True):
        torch.testing.assert_close(images, x, rtol=0, atol=tolerance)


def test_random_transforms_are_native_and_differ_from_sample_to_sample(photos):
    jitter = v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.4, 0.1), v2.GaussianBlur(5)], p=0.8)
    simclr = [v2.RandomResizedCrop(40), v2.RandomHorizontalFlip(), jitter, v2.RandomGrayscale(0.2), *TENSOR]
    dataset = datasets.ImageFolder(photos, transform=v2.Compose([*simclr, v2.Normalize(*STATISTICS), v2.RandomErasing(1)]))
    loader = stoker.DataLoader(dataset, batch_size=15, shuffle=True)
    assert loader.explain().native, str(loader.explain())
    first, second = (next(iter(loader))[0] for _ in range(2))
    assert first.shape == (15, 3, 40, 40) and not torch.equal(first, second)
    cifar = [v1.RandomCrop(32, padding=4, pad_if_needed=True, padding_mode="reflect"), v1.RandomHorizontalFlip(), v1.ToTensor()]
    dataset.transform = v1.Compose([*cifar, v1.RandomErasing(value="random")])
    assert next(iter(loader))[0].shape == (15, 3, 32, 32) and loader.explain().native


AUGMENTS = [
    v1.RandAugment(), v1.TrivialAugmentWide(), v1.AutoAugment(v1.AutoAugmentPolicy.CIFAR10), v2.RandAugment(3, 17, fill=[1, 2, 3]),
    v2.TrivialAugmentWide(interpolation=v1.InterpolationMode.BILINEAR), v2.AutoAugment(v1.AutoAugmentPolicy.SVHN), v2.AutoAugment(),
]


@pytest.mark.parametrize("augment", AUGMENTS, ids=lambda t: f"{type(t).__module__.split('.')[2]}.{type(t).__name__}")
def test_augmentations_choose_as_torchvision_does(photos, augment, monkeypatch):
    """The same share of pictures is changed in the same way: what torchvision calls, beside our actions."""
    module = sys.modules[type(augment).__module__]
    calls = []
    names = {"adjust_brightness": "brightness", "adjust_saturation": "saturation", "adjust_contrast": "contrast",
             "adjust_sharpness": "sharpness", "affine": "affine", "rotate": "affine"}

    class Recorder:
        get_dimensions = staticmethod(v1.functional.get_dimensions)

        def __getattr__(self, name):
            return lambda img, *args, **kwargs: (calls.append((names.get(name, name), (*args, *kwargs.values()))), img)[1]

    picture, count = Image.new("RGB", (331, 200)), 4000
    torch.manual_seed(1)
    with monkeypatch.context() as patched:
        patched.setattr(module, "F", Recorder())
        for _ in range(count):
            augment(picture)
    theirs = collections.Counter(name for name, _ in calls)
    dataset = datasets.ImageFolder(photos, transform=v2.Compose([augment, v2.CenterCrop(40), v2.PILToTensor()]))
    loader = stoker.DataLoader(dataset)
    assert loader.explain().native, str(loader.explain())
    plan = _native.pipeline.Plan.parse(json.dumps(loader.explain().plan))
    actions = [a for p in range(count) for a in json.loads(plan.parameters(p, 0, 331, 200))[1:-1] for a in a["did"] if a["do"] != "crop"]
    ours = collections.Counter(action["do"] for action in actions)
    assert set(ours) == set(theirs)
    for name in theirs:
        assert abs(ours[name] - theirs[name]) < 5 * (ours[name] + theirs[name]) ** 0.5, name
    for name in ("brightness", "solarize", "posterize"):
        values = {round(float(args[0]), 4) for called, args in calls if called == name}
        drawn = {round(action["value"], 4) for action in actions if action["do"] == name}
        assert len(values ^ drawn) <= 4, name  # one of 62 values may not have come up
    assert next(iter(loader))[0].shape == (1, 3, 40, 40)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_transform_changed_between_epochs_counts(photos, workers):
    dataset = datasets.ImageFolder(photos, transform=EXACT["v1"])
    ours = stoker.DataLoader(dataset, batch_size=15, num_workers=workers)
    assert next(iter(ours))[0].shape == (15, 3, 56, 56)
    dataset.transform = EXACT["both sides"]
    (x, _), (images, _) = next(iter(TorchLoader(dataset, batch_size=15))), next(iter(ours))
    assert torch.equal(images, x)
    dataset.transform = v1.Compose([OwnTransform(20), v1.ToTensor()])
    (x, _), (images, _) = next(iter(TorchLoader(dataset, batch_size=15))), next(iter(ours))
    assert torch.equal(images, x)


def test_a_subset_is_its_files(photos):
    dataset = Subset(datasets.ImageFolder(photos, transform=EXACT["v1"]), [7, 0, 7, 3])
    ours = stoker.DataLoader(dataset, batch_size=3)
    assert ours.explain().native
    for (x, y), (images, labels) in zip(TorchLoader(dataset, batch_size=3), ours, strict=True):
        assert torch.equal(images, x) and torch.equal(labels, y)


def test_workers_and_shuffle_change_no_pixel(photos):
    dataset = datasets.ImageFolder(
        photos, transform=v2.Compose([v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), v2.ToImage()])
    )
    try:
        find_program()
    except stoker.WorkerError:
        pytest.skip("no stoker program was built")
    got = []
    for workers in (0, 1, 2):
        torch.manual_seed(4)
        loader = stoker.DataLoader(dataset, batch_size=4, shuffle=True, num_workers=workers)
        assert loader.explain().native
        got.append([batch for _ in range(2) for batch in loader])
        loader.close()
    for others in got[1:]:
        for (x, y), (images, labels) in zip(got[0], others, strict=True):
            assert torch.equal(images, x) and torch.equal(labels, y)
    assert not torch.equal(got[0][0][0], got[0][4][0])


class OwnTransform(v1.CenterCrop):
    pass


class OwnFolder(datasets.ImageFolder):
    def __getitem__(self, i):
        return super().__getitem__(i)


@pytest.mark.parametrize(
    "transform, words",
    [
        (None, "end in a picture"),
        (v1.CenterCrop(8), "end in a picture"),
        (v1.Compose([v1.Resize(32), v1.ToTensor()]), "different sizes"),
        (v1.Compose([v1.CenterCrop(32), v1.FiveCrop(3), v1.ToTensor()]), "FiveCrop"),
        (v1.Compose([v1.Resize((8, 8), v1.InterpolationMode.LANCZOS), v1.ToTensor()]), "lanczos"),
        (v1.Compose([v1.PILToTensor(), v1.Resize((8, 8))]), "v1 resizes tensors as floats"),
        (v2.Compose([v2.ToImage(), v2.CenterCrop(8), v2.ColorJitter(0.1)]), "acts on a tensor"),
        (v2.Compose([v2.CenterCrop(9), *TENSOR, v2.GaussianBlur(3), v2.CenterCrop(8)]), "behind a blur"),
        (v2.Compose([v2.CenterCrop(9), v2.RandomApply([v2.ToImage()]), *TENSOR]), "may or may not"),
        (v2.Compose([v2.CenterCrop(9), *TENSOR, v2.Pad(1, fill=3)]), "fill"),
        (v2.Compose([v2.RandomChoice([v2.CenterCrop(9), v2.CenterCrop(8)]), *TENSOR]), "different sizes"),
        (v1.Compose([OwnTransform(8), v1.ToTensor()]), "not a transform of torchvision"),
        (v1.Compose([lambda picture: picture, v1.CenterCrop(8), v1.ToTensor()]), "not a transform of torchvision"),
        (v1.Compose([v1.ToTensor(), v1.Resize((8, 8))]), "tensor"),
        (v1.Compose([v1.CenterCrop(8), v1.ToTensor(), v1.Normalize([0.5] * 3, [0.0] * 3)]), "zero"),
    ],
)
def test_what_is_not_exact_runs_as_python_and_says_why(photos, transform, words):
    found = lower(datasets.ImageFolder(photos, transform=transform))
    assert found.ops is None and words in found.why


def test_datasets_of_ones_own_run_as_python(photos):
    exact = EXACT["v1"]
    assert "own" in lower(OwnFolder(photos, transform=exact)).why
    assert "target_transform" in lower(datasets.ImageFolder(photos, transform=exact, target_transform=str)).why
    assert "loader" in lower(datasets.ImageFolder(photos, transform=exact, loader=open)).why
    kept = stoker.DataLoader(datasets.ImageFolder(photos, transform=exact), collate_fn=list)
    assert not kept.explain().native and "collate_fn" in kept.explain().reason


def test_explain_spells_steps_out(photos):
    crop = v2.RandomResizedCrop(32, scale=(0.35, 0.95), ratio=(0.75, 1.3333333333333333), interpolation=v2.InterpolationMode.BICUBIC)
    loader = stoker.DataLoader(datasets.ImageFolder(photos, transform=v2.Compose([crop, *TENSOR])))
    assert len(repr(crop)) > 100 and " ".join(repr(crop).split()) in str(loader.explain())


def test_explain_names_every_step_and_the_reference(photos):
    dataset = datasets.ImageFolder(photos, transform=v1.Compose([v1.CenterCrop(8), v1.FiveCrop(3), v1.ToTensor()]))
    text = str(stoker.DataLoader(dataset).explain())
    assert "Python FiveCrop" in text and "because FiveCrop" in text
    assert re.search(r"Python CenterCrop\(.*: known, and native where all others are", text), text
    assert "  native" not in text, text  # nothing of it runs natively: the dataset is called as it is
    native = stoker.DataLoader(datasets.ImageFolder(photos, transform=EXACT["v1"])).explain()
    assert set(native.reference) == {"torchvision", "pillow"} and "reference" in str(native)
