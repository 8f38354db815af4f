# SPDX-License-Identifier: Apache-2.0
"""Pipes of pictures in arrays: native as a whole, and the same bytes as with Python steps among their ops."""

import itertools
import json

import numpy
import pytest

import stoker
from stoker.data.fluent_test import MEAN, STD, all_of, own_cache, same  # noqa: F401  (fixtures)

PICTURES = numpy.random.default_rng(0).integers(0, 256, (23, 32, 24, 3), dtype=numpy.uint8)
LABELS = numpy.arange(23) * 7
CHAINS = {
    "cifar": lambda p: p.random_crop(32, padding=4, pad_if_needed=True).horizontal_flip().normalize(MEAN, STD),
    "bytes": lambda p: p.vertical_flip().random_resized_crop(16),
    "colour": lambda p: p.color_jitter(0.4, 0.4, 0.4, 0.1).random_rotation(20).gaussian_blur(3).to_float("v1"),
    "choice": lambda p: p.random_choice([lambda q: q.adjust("invert"), lambda q: q.horizontal_flip()]).random_erasing(0.5),
    "flip alone": lambda p: p.horizontal_flip(),
}


def rows(layout: str) -> numpy.ndarray:
    return PICTURES if layout == "hwc" else numpy.ascontiguousarray(PICTURES.transpose(0, 3, 1, 2))


def pipe_of(layout="hwc", seed=5):
    return stoker.data.arrays(rows(layout), LABELS).shuffle(seed)


def as_it_is(sample):
    return sample


def planes(sample):
    return numpy.ascontiguousarray(sample[0].transpose(2, 0, 1)), sample[1]


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("layout", ["hwc", "chw"])
def test_native_samples_are_those_of_the_python_path(layout, chain):
    native = CHAINS[chain](pipe_of(layout)).batch(4)
    explained = native.explain()
    assert explained.native and explained.plan["kind"] == "arrays", str(explained)
    expected = all_of(native)
    assert [type(leaf) for leaf in expected[0]] == [numpy.ndarray] * 2 and expected[0][0].shape[:2] == (4, 3)
    before = pipe_of(layout).map(planes if layout == "hwc" else as_it_is)
    for python in (CHAINS[chain](pipe_of(layout)).map(as_it_is), CHAINS[chain](before)):
        assert not python.batch(4).explain().native
        assert same(all_of(python.batch(4)), expected)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("python", [False, True])
def test_workers_change_no_byte(workers, python):
    pipe = CHAINS["cifar"](pipe_of())
    pipe = (pipe.map(as_it_is) if python else pipe).batch(5)
    assert same(all_of(pipe, workers=workers), all_of(pipe))


def test_the_ops_are_those_of_torchvisions_transforms_on_the_same_arrays(torchvision):
    v2 = pytest.importorskip("torchvision.transforms.v2")
    torch = pytest.importorskip("torch")
    floats = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    transform = v2.Compose([v2.RandomCrop(32, padding=4, pad_if_needed=True), v2.RandomHorizontalFlip(), *floats])
    lowered = stoker.DataLoader(stoker.data.arrays(PICTURES, LABELS, transform=transform), 4).explain()
    ours = CHAINS["cifar"](pipe_of()).batch(4).explain()
    assert lowered.native and ours.native
    assert ours.plan["pictures"] == lowered.plan["pictures"] and ours.plan["columns"] == lowered.plan["columns"]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_state_at_every_batch_brings_back_the_rest(workers):
    pipe = CHAINS["cifar"](pipe_of()).batch(6)
    loader, plain = pipe.numpy(workers=workers), pipe.numpy(workers=0)
    expected = [batch for _ in range(2) for batch in plain]
    at = 0
    for batch in itertools.chain(loader, loader):
        assert same(batch, expected[at])
        at += 1
        if at % (1 if workers == 0 else 3) == 0:
            again = pipe.numpy(workers=workers)
            again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
            rest = list(again)
            again.close()
            assert same(rest or [None], expected[at : at + len(rest)] or [None]), at
    loader.close()
    assert at == len(expected)
    other = CHAINS["cifar"](stoker.data.arrays(PICTURES[::-1].copy(), LABELS).shuffle(5)).batch(6).numpy(workers=0)
    with pytest.raises(ValueError, match="plan|content"):
        other.load_state_dict(plain.state_dict())


def test_samples_have_the_form_of_the_arrays():
    named = stoker.data.arrays(image=PICTURES, label=LABELS).horizontal_flip()
    single = stoker.data.arrays(PICTURES).horizontal_flip()
    tuples = stoker.data.arrays(PICTURES, LABELS).horizontal_flip()
    for pipe in (named, single, tuples):
        for final in (pipe.batch(4), pipe):
            python = pipe.map(as_it_is).batch(4) if final is not pipe else pipe.map(as_it_is)
            assert final.explain().native
            ours, theirs = all_of(final), all_of(python)
            assert same(ours, theirs) and type(ours[0]) is type(theirs[0])
    assert set(all_of(named.batch(4))[0]) == {"image", "label"}


def test_the_last_ops_can_be_on_the_device():
    pipe = CHAINS["cifar"](pipe_of())
    left = pipe.on_device().batch(4)
    assert left.explain().native and [op["op"] for op in left.explain().plan["pictures"]["ops"]] == ["random_crop"]
    assert same(all_of(left), all_of(pipe.batch(4)))


def test_caches_filters_and_mixtures_take_the_same_rows():
    pipe = pipe_of().resize((8, 8))
    expected = all_of(pipe.horizontal_flip().batch(4))
    assert same(all_of(pipe.cache().horizontal_flip().batch(4)), expected)
    masked = pipe.horizontal_flip().filter(lambda sample: sample[1] % 2 == 0, how="mask").batch(4)
    assert same([batch[:2] for batch in all_of(masked)], expected)
    mixed = stoker.data.arrays(PICTURES, LABELS).center_crop(8).mix(stoker.data.arrays(PICTURES, -LABELS).center_crop(8))
    batch = all_of(mixed.batch(23))[0]
    by_label = {label: picture for picture, label in zip(PICTURES[:, 12:20, 8:16].transpose(0, 3, 1, 2), LABELS, strict=True)}
    assert all(same(picture, by_label[abs(label)]) for picture, label in zip(*batch, strict=True))


def test_pictures_of_many_sizes_behind_python_draw_alike():
    def cut(sample):
        return sample[0][:, : 16 + sample[1] % 13], sample[1]

    pipe = pipe_of("chw").map(cut).random_resized_crop(8).batch(4)
    assert same(all_of(pipe, workers=1), all_of(pipe))


def test_memory_is_shared_by_all_pipes_of_the_arrays():
    source = stoker.data.arrays(PICTURES, LABELS)
    one, other = (source.with_transform(transform) for transform in (None, str))
    assert source.transform is None and one.places() == other.places() == source.places()


@pytest.mark.parametrize(
    "source, why",
    [
        (lambda: stoker.data.arrays(PICTURES.transpose(0, 3, 1, 2).astype(numpy.float32), LABELS), "uint8, of three channels"),
        (lambda: stoker.data.arrays(PICTURES[:, :, :, 0][:, None].copy(), LABELS), "uint8, of three channels"),
        (lambda: stoker.data.arrays(label=LABELS, image=rows("chw")), "the first array or `image`"),
    ],
    ids=["floats", "one channel", "image is not the first"],
)
def test_what_stays_python_says_why(source, why):
    pipe = source().horizontal_flip().batch(4)
    explained = pipe.explain()
    assert not explained.native and why in explained.reason, explained.reason
    assert len(all_of(pipe)) == 6


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="random_rotation.*different sizes"):
        pipe_of().random_rotation(20, expand=True).batch(4).numpy()
    with pytest.raises(ValueError, match="may not stand here"):
        pipe_of().to_float().resize((8, 8)).batch(4).numpy()
    with pytest.raises((NotImplementedError, ValueError), match="rows of arrays are not decoded|decoded natively"):
        list(pipe_of().horizontal_flip().cache("index").batch(4).numpy(workers=0))
