# SPDX-License-Identifier: Apache-2.0
"""Small pictures in arrays: transforms lowered to plans of arrays give torchvision's pixels."""

import json
import pickle

import pytest

torch = pytest.importorskip("torch")
datasets = pytest.importorskip("torchvision.datasets")
import numpy
from PIL import Image
from torch.utils.data import DataLoader as TorchLoader
from torchvision import transforms as v1
from torchvision.transforms import v2

import stoker
from stoker import _native

STATISTICS = ([0.4914, 0.4822, 0.4465], [0.247, 0.2435, 0.2616])
FLOATS = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(*STATISTICS)]


@pytest.fixture(scope="module")
def pictures():
    return numpy.random.default_rng(0).integers(0, 256, (40, 32, 24, 3), dtype=numpy.uint8)


PICTURES = {
    "floats": v2.Compose(FLOATS),
    "bytes": v1.PILToTensor(),
    "flip": v1.Compose([v1.RandomHorizontalFlip(1), v1.RandomVerticalFlip(1), v1.ToTensor(), v1.Normalize(*STATISTICS)]),
    "pad": v2.Compose([v2.Pad(3, padding_mode="reflect"), v2.CenterCrop(30), *FLOATS]),
    "resize": v2.Compose([v2.Resize((50, 40)), v2.RandomHorizontalFlip(1), *FLOATS]),
    "colour": v2.Compose([v2.RandomInvert(1), v2.RandomGrayscale(1), *FLOATS]),
    "gray": v1.Compose([v1.Grayscale(1), v1.ToTensor()]),
}
TENSORS = {
    "floats": v2.Compose(FLOATS[1:]),
    "bytes": v2.Identity(),
    "flip": v2.Compose([v2.RandomHorizontalFlip(1), v2.RandomVerticalFlip(1), *FLOATS[1:]]),
    "pad": v2.Compose([v2.Pad(3), v2.CenterCrop(30), *FLOATS[1:]]),
    "resize": v2.Compose([v2.Resize((50, 40)), *FLOATS[1:]]),
}
CASES = [("hwc", name) for name in PICTURES] + [("chw", name) for name in TENSORS]


def source(pictures, layout, transform):
    rows = pictures if layout == "hwc" else numpy.ascontiguousarray(pictures.transpose(0, 3, 1, 2))
    return stoker.data.arrays(rows, numpy.arange(len(rows)) % 7, transform=transform)


@pytest.mark.parametrize("layout, name", CASES)
def test_batches_equal_those_of_the_same_dataset_in_torch(pictures, layout, name):
    transform = (PICTURES if layout == "hwc" else TENSORS)[name]
    dataset = source(pictures, layout, transform)
    ours = stoker.DataLoader(dataset, batch_size=16)
    assert ours.explain().native, str(ours.explain())
    for (x, y), (images, labels) in zip(TorchLoader(dataset, batch_size=16), ours, strict=True):
        assert images.dtype == x.dtype and torch.equal(images, x)
        assert labels.dtype == y.dtype and torch.equal(labels, y)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_usual_augmentation_of_cifar_is_native(pictures, workers):
    dataset = source(pictures, "hwc", v2.Compose([v2.RandomCrop(32, padding=4, pad_if_needed=True), v2.RandomHorizontalFlip(), *FLOATS]))
    torch.manual_seed(2)
    loader = stoker.DataLoader(dataset, batch_size=8, shuffle=True, num_workers=workers)
    assert loader.explain().native and loader.explain().plan["kind"] == "arrays"
    batches = [(images.clone(), labels) for images, labels in loader]
    loader.close()
    torch.manual_seed(2)
    again = stoker.DataLoader(dataset, batch_size=8, shuffle=True)
    for (x, y), (images, labels) in zip(batches, again, strict=True):
        assert x.shape == (8, 3, 32, 32) and torch.equal(x, images) and torch.equal(y, labels)


def test_crops_and_flips_are_those_that_the_plan_draws(pictures):
    crop = v2.Compose([v2.RandomCrop((32, 24), padding=4), v2.RandomHorizontalFlip(), v2.ToImage()])
    loader = stoker.DataLoader(source(pictures, "hwc", crop), batch_size=len(pictures))
    images, _ = next(iter(loader))
    seed = loader._recipe  # the plan of the first epoch has the seed of the loader's order
    plan = _native.pipeline.Plan.parse(json.dumps(loader.explain().plan))
    producer = seed.open_producer(_Plan(plan))
    positions = numpy.arange(len(pictures))
    made, _ = producer.produce(positions, positions)
    flips = 0
    for i, picture in enumerate(pictures):
        (box,), mirror = (one["did"] for one in json.loads(plan.parameters(i, i, 24, 32)))
        flips += bool(mirror)
        wanted = v2.functional.crop(Image.fromarray(picture), box["top"], box["left"], box["height"], box["width"])
        wanted = v2.functional.horizontal_flip(wanted) if mirror else wanted
        assert numpy.array_equal(made[i].transpose(1, 2, 0), numpy.asarray(wanted))
    assert 8 < flips < 32 and images.shape == (40, 3, 32, 24)


class _Plan:
    def __init__(self, plan):
        self.text = plan.json


@pytest.fixture
def cifar(monkeypatch, pictures):
    """CIFAR10 as torchvision holds it, without the download."""
    dataset = datasets.CIFAR10.__new__(datasets.CIFAR10)
    dataset.data = numpy.ascontiguousarray(numpy.tile(pictures, (1, 1, 2, 1))[:, :, :32])
    dataset.targets = [int(i) % 10 for i in range(len(pictures))]
    dataset.transform, dataset.target_transform, dataset.root, dataset.train = PICTURES["flip"], None, "", True
    return dataset


@pytest.mark.parametrize("workers", [0, 1])
def test_cifar10_is_an_array_of_pictures(cifar, workers):
    ours = stoker.DataLoader(cifar, batch_size=10, num_workers=workers)
    assert ours.explain().native, str(ours.explain())
    for _ in range(2):
        for (x, y), (images, labels) in zip(TorchLoader(cifar, batch_size=10), ours, strict=True):
            assert torch.equal(images, x) and torch.equal(labels, y)
    cifar.targets = cifar.targets[::-1]
    assert next(iter(ours))[1].tolist() == cifar.targets[:10]
    ours.close()
    cifar.transform = None
    assert "without a transform" in stoker.DataLoader(cifar, collate_fn=list).explain().reason


def test_what_is_not_known_goes_through_python(pictures):
    dataset = source(pictures, "hwc", v1.Compose([v1.ToTensor(), v1.Lambda(lambda x: x * 2)]))
    loader = stoker.DataLoader(dataset, batch_size=4)
    assert not loader.explain().native and "Lambda" in loader.explain().reason
    assert torch.equal(next(iter(loader))[0], next(iter(TorchLoader(dataset, batch_size=4)))[0])
    dataset = source(pictures, "chw", v2.RandomInvert(1))
    assert torch.equal(dataset[3][0], 255 - torch.from_numpy(pictures[3].transpose(2, 0, 1)))
    assert torch.equal(pickle.loads(pickle.dumps(dataset))[3][0], dataset[3][0])


def test_rows_that_are_no_pictures_take_no_transform():
    with pytest.raises(ValueError, match=r"float32\[3, 4, 4\]"):
        stoker.data.arrays(numpy.zeros((5, 3, 4, 4), "f4"), transform=v1.ToTensor())
