# SPDX-License-Identifier: Apache-2.0
"""What is lowered and what is not, and that lowered plans give the reference's pixels."""

import pytest

torch = pytest.importorskip("torch")

from stoker.data import loader_data_test  # noqa: F401  (lets torchvision load beside a CPU torch)

datasets = pytest.importorskip("torchvision.datasets")
import numpy
from PIL import Image
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Subset
from torchvision import transforms as v1
from torchvision.transforms import v2

import stoker
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


@pytest.mark.parametrize("name", EXACT)
def test_native_batches_equal_torchs_bit_for_bit(photos, name):
    dataset = datasets.ImageFolder(photos, transform=EXACT[name])
    ours = stoker.DataLoader(dataset, batch_size=4)
    assert ours.explain().native, str(ours.explain())
    for (x, y), (images, labels) in zip(TorchLoader(dataset, batch_size=4), ours, strict=True):
        assert images.dtype == x.dtype and torch.equal(images, x)
        assert labels.dtype == y.dtype and torch.equal(labels, y)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_transform_changed_between_epochs_counts(photos, workers):
    dataset = datasets.ImageFolder(photos, transform=EXACT["v1"])
    ours = stoker.DataLoader(dataset, batch_size=15, num_workers=workers)
    assert next(iter(ours))[0].shape == (15, 3, 56, 56)
    dataset.transform = EXACT["both sides"]
    (x, _), (images, _) = next(iter(TorchLoader(dataset, batch_size=15))), next(iter(ours))
    assert torch.equal(images, x)
    if workers:  # the CPU build of torch does not let workers load torchvision
        return
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
        (v1.Compose([v1.CenterCrop(32), v1.GaussianBlur(3), v1.ToTensor()]), "GaussianBlur"),
        (v1.Compose([v1.Resize((8, 8), v1.InterpolationMode.BICUBIC), v1.ToTensor()]), "bicubic"),
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


def test_explain_names_every_step_and_the_reference(photos):
    dataset = datasets.ImageFolder(photos, transform=v1.Compose([v1.CenterCrop(8), v1.GaussianBlur(3), v1.ToTensor()]))
    text = str(stoker.DataLoader(dataset).explain())
    assert "Python GaussianBlur" in text and "native CenterCrop" in text and "because GaussianBlur" in text
    native = stoker.DataLoader(datasets.ImageFolder(photos, transform=EXACT["v1"])).explain()
    assert set(native.reference) == {"torchvision", "pillow"} and "reference" in str(native)
