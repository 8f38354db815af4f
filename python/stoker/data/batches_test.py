# SPDX-License-Identifier: Apache-2.0
"""MixUp and CutMix behind native and Python plans."""

import pytest

torch = pytest.importorskip("torch")
datasets = pytest.importorskip("torchvision.datasets")
from PIL import Image
from torchvision.transforms import v2

import stoker


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    for number in range(12):
        (root / f"{number % 3}").mkdir(exist_ok=True)
        Image.effect_noise((40, 40), 90).convert("RGB").save(root / f"{number % 3}" / f"{number}.png")
    return str(root)


PLAIN = v2.Compose([v2.CenterCrop(32), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
MIXES = [v2.MixUp(num_classes=3), v2.CutMix(num_classes=3), v2.RandomChoice([v2.MixUp(num_classes=3), v2.CutMix(num_classes=3)])]


def batches(dataset, mix, **more):
    torch.manual_seed(4)
    collate = stoker.data.batch_transform(mix) if mix else None
    return list(stoker.DataLoader(dataset, batch_size=5, shuffle=True, collate_fn=collate, **more))


@pytest.mark.parametrize("mix", MIXES, ids=lambda mix: type(mix).__name__)
def test_rows_mix_with_their_neighbours_and_samples_stay_native(photos, mix):
    dataset = datasets.ImageFolder(photos, transform=PLAIN)
    loader = stoker.DataLoader(dataset, batch_size=5, collate_fn=stoker.data.batch_transform(mix))
    assert loader.explain().native and "batch_transform" in str(loader.explain())
    state = torch.random.get_rng_state()
    plain, mixed = batches(dataset, None), batches(dataset, mix)
    torch.random.set_rng_state(state)
    shares = []
    for (x, y), (images, labels) in zip(plain, mixed, strict=True):
        one_hot = torch.nn.functional.one_hot(y, 3).float()
        assert labels.shape == one_hot.shape
        torch.testing.assert_close(labels.sum(1), torch.ones(len(y)))
        lies = (images - x).abs().sum((1, 2, 3)) > 0
        partner = x.roll(1, 0)
        low, high = torch.minimum(x, partner) - 1e-6, torch.maximum(x, partner) + 1e-6
        assert ((images >= low) & (images <= high)).all()
        shares.append(float(lies.float().mean()))
    assert max(shares) > 0
    again = batches(dataset, mix)
    for (x, y), (images, labels) in zip(mixed, again, strict=True):
        assert torch.equal(x, images) and torch.equal(y, labels)


def test_a_resume_mixes_alike(photos):
    dataset = datasets.ImageFolder(photos, transform=PLAIN)
    make = lambda: stoker.DataLoader(dataset, batch_size=5, collate_fn=stoker.data.batch_transform(v2.MixUp(num_classes=3)))
    torch.manual_seed(9)
    loader = make()
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    wanted = next(iterator)
    resumed = make()
    resumed.load_state_dict(state)
    images, labels = next(iter(resumed))
    assert torch.equal(images, wanted[0]) and torch.equal(labels, wanted[1])


class Own(datasets.ImageFolder):
    def __getitem__(self, i):
        return super().__getitem__(i)


def test_python_plans_mix_with_the_same_numbers(photos):
    mix = v2.MixUp(num_classes=3)
    native = batches(datasets.ImageFolder(photos, transform=PLAIN), mix)
    python = batches(Own(photos, transform=PLAIN), mix)
    for (x, y), (images, labels) in zip(native, python, strict=True):
        assert torch.equal(x, images) and torch.equal(y, labels)


def test_what_cannot_be_called_or_has_no_batches_is_refused(photos):
    with pytest.raises(TypeError, match="cannot be called"):
        stoker.data.batch_transform(3)
    with pytest.raises(ValueError, match="batch_size=None"):
        stoker.DataLoader(datasets.ImageFolder(photos), batch_size=None, collate_fn=stoker.data.batch_transform(MIXES[0]))


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return ((torch.rand(3, 8, 8), i % 3) for i in range(10))


def test_behind_an_iterable_dataset_it_collates():
    loader = stoker.DataLoader(Stream(), batch_size=5, collate_fn=stoker.data.batch_transform(v2.MixUp(num_classes=3)))
    images, labels = next(iter(loader))
    assert images.shape == (5, 3, 8, 8) and labels.shape == (5, 3)
