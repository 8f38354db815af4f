# SPDX-License-Identifier: Apache-2.0
"""Pipes: the same plan as lowering makes, the same bytes wherever a step runs, and what is refused with its remedy."""

import dataclasses
import json
import pathlib
import random
import re

import numpy
import pytest

import stoker
from stoker.data import fluent, kept_plans

Image = pytest.importorskip("PIL.Image")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept_plans._kept.clear()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root, noise = tmp_path_factory.mktemp("photos"), numpy.random.default_rng(0)
    for number in range(13):
        (root / f"c{number % 3}").mkdir(exist_ok=True)
        pixels = noise.integers(0, 256, (40 + number, 50, 3), dtype=numpy.uint8)
        Image.fromarray(pixels).save(root / f"c{number % 3}" / f"{number}.png")
    return str(root)


def augmented(pipe):
    return pipe.random_resized_crop(16).horizontal_flip().normalize(MEAN, STD)


def same(one, other) -> bool:
    """Every leaf of two batches, or lists of them."""
    if isinstance(one, numpy.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def all_of(pipe, workers: int = 0) -> list:
    loader = pipe.numpy(workers=workers)
    try:
        return list(loader)
    finally:
        loader.close()


def test_pipes_are_values(photos):
    pipe = stoker.data.image_folder(photos).shuffle(seed=3)
    longer = pipe.decode()
    assert len(pipe.stages) == 1 and len(longer.stages) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        pipe.stages = ()
    assert "shuffle(3)" in repr(longer)


def test_ops_are_those_that_lowering_makes(photos):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    from torchvision.transforms import v2

    to_float = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    source = stoker.data.image_folder(photos)
    pairs = [
        ([v2.RandomResizedCrop(16), v2.RandomHorizontalFlip(), *to_float, v2.Normalize(MEAN, STD)], augmented),
        ([v2.Resize(20, max_size=30), v2.CenterCrop((8, 9)), v2.ToImage()], lambda p: p.resize(20, max_size=30).center_crop((8, 9))),
        ([v2.RandomCrop(32, padding=4, padding_mode="reflect"), v2.RandomVerticalFlip(0.3), v2.ToImage()],
         lambda p: p.random_crop(32, padding=4, mode="reflect").vertical_flip(0.3)),
        ([v2.Pad((1, 2), fill=7), v2.ColorJitter(0.4, 0.3, 0.2, 0.1), v2.CenterCrop(9), v2.ToImage()],
         lambda p: p.pad((1, 2), fill=7).color_jitter(0.4, 0.3, 0.2, 0.1).center_crop(9)),
        ([v2.RandomRotation(20, expand=True, fill=3), v2.RandomAffine(10, (0.1, 0.2), (0.9, 1.1), 5), v2.CenterCrop(9), v2.ToImage()],
         lambda p: p.random_rotation(20, expand=True, fill=3).random_affine(10, (0.1, 0.2), (0.9, 1.1), 5).center_crop(9)),
        ([v2.RandomPerspective(0.4, 0.3), v2.Grayscale(3), v2.GaussianBlur(5, (0.2, 1.0)), v2.CenterCrop(9), *to_float,
          v2.RandomErasing(0.4, value=0)],
         lambda p: p.random_perspective(0.4, 0.3).grayscale(3).gaussian_blur(5, (0.2, 1.0)).center_crop(9).to_float().random_erasing(0.4)),
        ([v2.CenterCrop(9), v2.RandomApply([v2.RandomInvert(1.0)], 0.3), v2.RandomChoice([v2.RandomHorizontalFlip(), v2.GaussianBlur(3)]),
          v2.ToImage()],
         lambda p: p.center_crop(9).random_apply(lambda q: q.random_apply(lambda r: r.adjust("invert"), 1.0), 0.3)
         .random_choice([lambda q: q.horizontal_flip(), lambda q: q.gaussian_blur(3)])),
    ]  # fmt: skip
    for transforms, chain in pairs:
        lowered = stoker.DataLoader(source.with_transform(v2.Compose(transforms)), 4).explain()
        ours = chain(source.decode()).batch(4).explain()
        assert lowered.native and ours.native, str(lowered) + str(ours)
        assert ours.plan["ops"] == lowered.plan["ops"] and ours.plan["source"] == lowered.plan["source"]


def test_a_python_step_changes_no_byte_of_the_ops_around_it(photos):
    source = stoker.data.image_folder(photos).shuffle(seed=3)
    native = augmented(source.decode()).batch(4)
    behind = augmented(source.decode()).map(lambda sample: sample).batch(4)
    before = augmented(source.decode().map(lambda sample: sample)).batch(4)
    assert native.explain().native and not behind.explain().native
    expected = all_of(native)
    assert expected[0][0].shape == (4, 3, 16, 16) and expected[0][0].dtype == numpy.float32 and len(expected) == len(native) == 4
    assert same(all_of(behind), expected) and same(all_of(before), expected)
    text = str(before.explain())
    assert "because map(" in text and "behind a Python step" in text and "native decode_rgb()" in text
    assert "Python" in str(behind.explain()) and "native random_resized_crop" in str(behind.explain())


def test_workers_change_no_byte(photos):
    source = stoker.data.image_folder(photos).shuffle(seed=5)
    drawn = augmented(source.decode()).map(lambda sample: (*sample, random.random(), numpy.random.rand(2))).batch(4)
    for pipe in (augmented(source.decode()).batch(4), drawn, stoker.data.range(30).shuffle(1).filter(lambda i: i % 3 == 0).batch(4)):
        assert same(all_of(pipe, workers=2), all_of(pipe))


def test_shuffles_are_other_in_each_epoch_and_the_same_for_a_seed():
    loader, again = (stoker.data.range(50).shuffle(seed=7).batch(50).numpy(workers=0) for _ in range(2))
    epochs = [next(iter(loader)).tolist() for _ in range(3)]
    assert epochs == [next(iter(again)).tolist() for _ in range(3)]
    assert all(sorted(epoch) == list(range(50)) for epoch in epochs) and len(set(map(tuple, epochs))) == 3


def test_take_skip_and_repeat_are_arithmetic():
    numbers = stoker.data.range(10)
    assert all_of(numbers.skip(2).take(5).batch(3))[0].tolist() == [2, 3, 4] and len(numbers.skip(2).take(5)) == 5
    shuffled = numbers.shuffle(1)
    order = [int(i) for i in numpy.concatenate(all_of(shuffled.batch(4)))]
    assert numpy.concatenate(all_of(shuffled.skip(3).take(4).batch(4))).tolist() == order[3:7]
    twice = numpy.concatenate(all_of(shuffled.repeat(2).batch(4))).tolist()
    assert twice[:10] == order and twice[10:] != order and sorted(twice[10:]) == list(range(10))
    endless = shuffled.repeat().batch(4).numpy(workers=0)
    iterator = iter(endless)
    assert [next(iterator).tolist() for _ in range(2)] == [order[:4], order[4:8]]
    with pytest.raises(TypeError, match="no end"):
        len(endless)
    inside = numpy.concatenate(all_of(numbers.take(4).shuffle(1).batch(4)))
    assert sorted(inside.tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_shards_are_rows_of_the_same_global_batches(photos, world):
    whole = augmented(stoker.data.image_folder(photos).shuffle(2).decode()).batch(5, drop_last=True)
    parts = [all_of(whole.shard(rank, world)) for rank in range(world)]
    for number, (images, labels) in enumerate(all_of(whole)):
        assert same(numpy.concatenate([part[number][0] for part in parts]), images)
        assert same(numpy.concatenate([part[number][1] for part in parts]), labels)
        assert [len(part[number][1]) for part in parts] == [(r + 1) * 5 // world - r * 5 // world for r in range(world)]


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_the_digests_of_ranks_add_up_to_that_of_one_consumer(photos, world, monkeypatch):
    monkeypatch.setenv("STOKER_AUDIT", "1")  # hash what is made in this process too

    def digest(pipe):
        loader = pipe.numpy(workers=0)
        assert len(list(loader)) > 0
        return int(loader.state_dict()["digest"], 16)

    whole = augmented(stoker.data.image_folder(photos).shuffle(2).decode()).batch(9, drop_last=True)
    assert sum(digest(whole.shard(rank, world)) for rank in range(world)) % (1 << 128) == digest(whole) != 0


def test_filters_by_window_mask_and_index():
    odd = stoker.data.range(20).shuffle(1)
    order = numpy.concatenate(all_of(odd.batch(20))).tolist()
    kept = [i for i in order if i % 3 == 0]
    assert [batch.tolist() for batch in all_of(odd.filter(lambda i: i % 3 == 0).batch(3))] == [kept[:3], kept[3:6], kept[6:]]
    masked = all_of(odd.filter(lambda i: i % 3 == 0, how="mask").batch(8))
    assert numpy.concatenate([items for items, _ in masked]).tolist() == order
    assert numpy.concatenate([valid for _, valid in masked]).tolist() == [i % 3 == 0 for i in order]
    indexed = stoker.data.range(20).filter(lambda i: i % 3 == 0, how="index").shuffle(1).batch(3, drop_last=True)
    assert len(indexed) == 2 and sorted(numpy.concatenate(all_of(indexed)).tolist())[0] % 3 == 0
    halves = [numpy.concatenate(all_of(indexed.shard(rank, 2))).tolist() for rank in range(2)]
    assert len(halves[0]) == 2 and len(halves[1]) == 4 and not set(halves[0]) & set(halves[1])


def test_flat_map_dicts_ragged_and_single_samples():
    numbers = stoker.data.range(6)
    assert [b.tolist() for b in all_of(numbers.flat_map(lambda i: [i] * i).batch(4))] == [[1, 2, 2, 3], [3, 3, 4, 4], [4, 4, 5, 5], [5, 5, 5]]
    dicts = numbers.map(lambda i: {"x": i, "name": f"n{i}", "row": numpy.arange(i)})
    batch = all_of(dicts.batch(4, collate="ragged"))[0]
    assert batch["x"].tolist() == [0, 1, 2, 3] and batch["name"][3] == "n3" and [len(row) for row in batch["row"]] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="collate='ragged'"):
        all_of(dicts.batch(4))
    assert all_of(numbers.map(lambda i: (i, -i)))[2] == (2, -2) and len(numbers.map(str)) == 6
    assert all_of(numbers.batch(2, collate=sum)) == [1, 5, 9]


def test_map_batches_has_fixed_windows():
    numbers = stoker.data.range(12).map(float)
    means = numbers.batch(6).map_batches(lambda window: window - window.mean(), size=3)
    expected = numpy.tile([-1.0, 0.0, 1.0], 4)
    assert numpy.concatenate(all_of(means)).tolist() == expected.tolist()
    assert [all_of(means.shard(rank, 2))[0].tolist() for rank in range(2)] == [[-1, 0, 1]] * 2
    noise = numbers.shuffle(1).batch(6).map_batches(lambda window: window + numpy.random.rand(len(window)))
    assert same(all_of(noise, workers=1), all_of(noise))


def test_native_samples_one_by_one(photos):
    source = stoker.data.image_folder(photos).shuffle(3)
    batches, samples = all_of(augmented(source.decode()).batch(13)), all_of(augmented(source.decode()))
    assert len(samples) == 13 and all(same(image, batches[0][0][i]) and label == batches[0][1][i] for i, (image, label) in enumerate(samples))
    ragged = all_of(stoker.data.image_folder(photos).decode())
    assert ragged[0][0].shape == (3, 40, 50) and {image.shape[1] for image, _ in ragged} > {40, 41}


def test_ops_that_leave_sizes_open_run_on_arrays_with_the_same_bytes(photos):
    transforms = pytest.importorskip("torchvision.transforms")
    source = stoker.data.image_folder(photos)
    ragged = [image for images, _ in all_of(source.decode().resize(16).batch(4, collate="ragged")) for image in images]
    for number, image in enumerate(ragged):
        with Image.open(pathlib.Path(photos) / source.path(number)) as opened:
            assert same(image, numpy.asarray(transforms.Resize(16)(opened.convert("RGB"))).transpose(2, 0, 1))
    assert len(ragged) == len(source) and len({image.shape for image in ragged}) > 1
    assert same(all_of(source.decode().resize(16).take(1).batch(1)), [[ragged[0][None], numpy.zeros(1, numpy.int64)]])
    drawn = source.seed(5).decode().horizontal_flip().color_jitter(0.5)
    behind = source.seed(5).decode().map(lambda sample: sample).horizontal_flip().color_jitter(0.5)
    assert same(all_of(drawn.batch(4, collate="ragged")), all_of(behind.batch(4, collate="ragged")))
    assert "Python resize(size=16): on arrays, since the ops leave pictures of different sizes" in str(source.decode().resize(16).explain())


def test_mixtures_of_pipes(photos):
    pictures = stoker.data.image_folder(photos)
    one, other = augmented(pictures.decode()).map(lambda s: (*s, 0)), augmented(pictures.decode()).map(lambda s: (*s, 1))
    mixed = one.mix(other, weights=[2, 1], seed=4).batch(6)
    batches = all_of(mixed)
    shares = numpy.concatenate([batch[2] for batch in batches])
    assert shares[:12].sum() == 4 and same(all_of(mixed, workers=1), batches)


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_caches_keep_samples_for_all_workers(photos, place):
    source = stoker.data.image_folder(photos).shuffle(1)
    slow = lambda sample: (sample[0].astype(numpy.float32) + random.random(), sample[1])  # noqa: E731
    cached = augmented_after(source.decode().resize((20, 20)).map(slow).cache(place, 1 << 20)).batch(4)
    loader = cached.numpy(workers=2)
    first = list(loader)
    assert loader.cache_stats()[0]["kept"] == 13
    second = list(loader)
    loader.close()
    fresh = cached.numpy(workers=0)
    assert same(list(fresh), first) and same(list(fresh), second)
    small = source.decode().resize((20, 20)).cache(place, 3000).map(lambda sample: sample).batch(4).numpy(workers=0)
    assert same(list(small), all_of(source.decode().resize((20, 20)).batch(4))) and small.cache_stats()[0]["kept"] == 2


def augmented_after(pipe):
    return pipe.horizontal_flip().normalize(MEAN, STD)


def test_what_a_cache_holds_is_drawn_by_item():
    drawn = stoker.data.range(8).map(lambda i: (i, random.random())).cache()
    loader = drawn.shuffle(1).batch(8).numpy(workers=0)
    one, two = (dict(zip(*(leaf.tolist() for leaf in next(iter(loader))), strict=True)) for _ in range(2))
    assert one == two and len(set(one.values())) == 8


REFUSED = [
    (lambda p, n: n.filter(bool).batch(4).shard(0, 2).numpy(), "how='mask'.*how='index'"),
    (lambda p, n: n.flat_map(str).batch(4).shard(0, 2).numpy(), "how='mask'.*how='index'"),
    (lambda p, n: n.filter(bool).take(3).numpy(), "put it before them"),
    (lambda p, n: n.batch(4).shuffle().numpy(), "before it"),
    (lambda p, n: n.batch(4).batch(2).numpy(), "twice"),
    (lambda p, n: n.shard(0, 2).numpy(), "needs a batch"),
    (lambda p, n: n.take(9).batch(4).shard(0, 3).numpy(), "1 rows for 3 consumers"),
    (lambda p, n: n.batch(4).map_batches(sum).shard(0, 2).numpy(), "map_batches\\(size=s\\)"),
    (lambda p, n: n.batch(4).map_batches(sum, size=3).numpy(), "size that divides"),
    (lambda p, n: p.random_resized_crop(8).batch(2).numpy(), "call decode"),
    (lambda p, n: n.decode().batch(2).numpy(), "stored pictures"),
    (lambda p, n: p.decode().random_resized_crop(8).cache().batch(2).numpy(), "random ops behind it"),
    (lambda p, n: p.decode().random_rotation(9, expand=True).batch(2, collate="ragged").numpy(), "resize\\(\\(height, width\\)\\).*behind it"),
    (lambda p, n: p.decode().adjust("redness").horizontal_flip().map(str).numpy(), "what: must be one of"),
    (lambda p, n: next(iter(p.decode().resize(8).batch(6).numpy(workers=0))), "resize\\(\\(height, width\\)\\).*'ragged'"),
    (lambda p, n: p.decode().resize(8).cache("index").batch(6, collate="ragged").numpy(), "fixes the size"),
    (lambda p, n: p.decode().random_resized_crop(8).on_device("to_float").batch(2), "takes the last ops"),
    (lambda p, n: p.decode().resize((8, 8)).to_float().on_device().map(str).batch(2).numpy(), "behind on_device"),
    (lambda p, n: n.repeat().shuffle().numpy(), "no last sample"),
    (lambda p, n: n.shuffle(block=2).numpy(), "stored in shards"),
    (lambda p, n: n.filter(bool, how="never"), "'window', 'mask' or 'index'"),
    (lambda p, n: n.batch(0), "from 1 on"),
    (lambda p, n: n.batch(True), "from 1 on, but got True"),
    (lambda p, n: n.shard(2, 2), "rank should be .* to below 2, but got 2"),
    (lambda p, n: n.shard(0.5, 2), "to below 2, but got 0.5"),
    (lambda p, n: n.shuffle(seed=1.5), "to below 2\\^63, but got 1.5"),
    (lambda p, n: n.shuffle(seed=-1), "to below 2\\^63, but got -1"),
    (lambda p, n: n.seed("4"), "to below 2\\^63, but got '4'"),
    (lambda p, n: n.mix(n, seed=1 << 63), "to below 2\\^63, but got 9223372036854775808"),
    (lambda p, n: stoker.data.range(2.5), "whole number from 0 .*, but got 2.5"),
    (lambda p, n: p.decode().resize((8.5, 8)), "size should be a whole number from 1 on, but got 8.5"),
    (lambda p, n: p.decode().random_resized_crop(0), "size should be a whole number from 1 on, but got 0"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refusals_name_the_remedy(photos, case):
    make, words = REFUSED[case]
    with pytest.raises((ValueError, TypeError), match=words):
        make(stoker.data.image_folder(photos), stoker.data.range(10))


def test_errors_of_a_users_function_name_the_sample():
    loader = stoker.data.range(6).map(lambda i: 1 // (i - 4)).batch(2).numpy(workers=1)
    iterator = iter(loader)
    next(iterator), next(iterator)
    with pytest.raises(ZeroDivisionError, match="position 4"):
        next(iterator)
    loader.close()


def test_arrays_stay_native_and_datasets_of_others_are_pipes():
    rows = numpy.arange(24, dtype=numpy.float32).reshape(8, 3)
    pipe = stoker.data.arrays(rows, numpy.arange(8)).shuffle(1).batch(4)
    assert pipe.explain().native
    order = numpy.concatenate([labels for _, labels in all_of(pipe)])
    assert same(numpy.concatenate([x for x, _ in all_of(pipe)]), rows[order])
    assert all_of(fluent.pipe([5, 6, 7]).batch(3))[0].tolist() == [5, 6, 7]


def test_block_orders_keep_to_shards(tmp_path):
    import tarfile

    for shard in range(3):
        with tarfile.open(tmp_path / f"{shard}.tar", "w") as tar:
            for number in range(4):
                name = tmp_path / f"{shard}{number}.cls"
                name.write_text(str(shard))
                tar.add(name, arcname=name.name)
    source = stoker.data.webdataset(str(tmp_path / "*.tar"), image=None)
    labels = [int(sample["cls"]) for sample in all_of(source.shuffle(1, block=1))]
    assert [labels[i] == labels[i + 1] for i in range(0, 12, 4)] == [True] * 3 and sorted(labels) == [0] * 4 + [1] * 4 + [2] * 4


def test_the_examples_of_the_guide_run(photos):
    guide = pathlib.Path(__file__).resolve().parents[3] / "docs/guide/fluent.md"
    if not guide.exists():
        pytest.skip("no docs beside an installed package")
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    assert len(blocks) >= 3
    names = {"stoker": stoker, "numpy": numpy, "root": photos, "mean": MEAN, "std": STD, "json": json}
    for block in blocks:
        if "torch(" in block:
            pytest.importorskip("torch")
        exec(compile(block, str(guide), "exec"), names)  # noqa: S102  (our own guide)


def test_a_disk_cache_is_of_its_source_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def cached(source):
        return next(iter(source.map(_plus_nothing).cache("disk").batch(4).numpy()))

    assert cached(stoker.data.arrays(numpy.zeros((4, 2)))).sum() == 0
    assert cached(stoker.data.arrays(numpy.ones((4, 2)))).sum() == 8
    assert cached(stoker.data.arrays(numpy.zeros((4, 2)))).sum() == 0
    with pytest.raises(ValueError, match="identity"):
        cached(stoker.data.from_function(4, float))


def test_indexes_of_many_pipes_are_their_own():
    for number in range(200):
        kept = stoker.data.range(6).map(lambda value, number=number: value + number).filter(_is_even, how="index")
        assert len(kept) == 3
        assert [int(sample) for sample in kept.numpy(workers=0)] == [n for n in range(number, number + 6) if n % 2 == 0]


def _plus_nothing(sample):
    return sample


def _is_even(value):
    return value % 2 == 0


@pytest.mark.parametrize("iterates", [iter, list, lambda pipe: [batch for batch in pipe], stoker.DataLoader])
def test_who_forgets_the_face_is_told_of_them(photos, iterates):
    with pytest.raises(TypeError, match=r"call \.torch\(\), \.numpy\(\)"):
        iterates(stoker.data.image_folder(photos).decode().batch(2))


def test_mix_takes_datasets_and_refuses_lists_and_what_is_no_weight_by_name():
    a, b = stoker.data.range(6), [numpy.int64(100 + i) for i in range(6)]

    class Mapped:
        def __len__(self):
            return len(b)

        def __getitem__(self, item):
            return b[item]

    drawn = sorted(int(one) for one in a.mix(Mapped(), weights=[1, 1]).numpy(workers=0))
    assert drawn == [*range(6), *range(100, 106)]
    mixed = stoker.data.mix
    for make, why in [
        (lambda: a.mix([a]), r"one by one, a\.mix\(b, c\)"),
        (lambda: a.mix(3), "int is no map-style dataset"),
        (lambda: a.mix("photos"), "image_folder"),
        (lambda: a.mix(a, weights=2), "weights should be a list of numbers.* got 2"),
        (lambda: mixed(a, a), r"sources should be a list of them, mix\(\[a, b\]"),
        (lambda: mixed([a], a), r"weights should be a list of numbers.*mix\(\[a, b\]\)"),
        (lambda: mixed([a, 3]), "source 1: int is no map-style dataset"),
        (lambda: mixed(3), "sources should be a list of them.* got 3"),
    ]:
        with pytest.raises(TypeError, match=why):
            make()
    with pytest.raises(ValueError, match="2 sources and 1 weights"):
        a.mix(a, weights=[1])


@pytest.mark.parametrize("workers", ["2", 2.0, True, -1, 5000])
def test_workers_of_a_face_are_a_whole_number(workers):
    pipe = stoker.data.range(6).batch(2)
    for face in ("numpy", "torch"):
        with pytest.raises(ValueError, match=f"workers should be a whole number from 0 to below 1025, but got {workers!r}"):
            getattr(pipe, face)(workers=workers)
    if isinstance(workers, str):
        with pytest.raises(ValueError, match="batch_size='2'"):
            stoker.DataLoader(stoker.data.range(6), batch_size=workers)


def test_explain_of_a_mixture_of_pipes_prints_its_parts():
    doubled = stoker.data.range(6).map(lambda one: one * 2)
    told = str(stoker.data.mix([doubled, stoker.data.range(6).map(abs)]).explain())
    assert "object at" not in told and "1/2 <" in told and ".map(" in told, told
