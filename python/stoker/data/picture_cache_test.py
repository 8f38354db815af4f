# SPDX-License-Identifier: Apache-2.0
"""Picture caches through loaders: the bytes are those without one, whatever happens to the store or the pictures."""

import glob
import io
import os
import random
import signal
import tarfile

import numpy
import pytest

import stoker
from stoker.data import kept_plans, lowering, picture_cache
from stoker.data.containers_test import field, framed, write_mds
from stoker.data.fluent_test import same
from stoker.data.image import ImageError

Image = pytest.importorskip("PIL.Image")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
KINDS = [pytest.param(kind, id=kind) for kind in picture_cache.KINDS]
LONG_AGO = 1_000_000_000  # a picture written just now is not kept: its next change might not show


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept_plans._kept.clear()


def picture(number: int, **how) -> bytes:
    noise = numpy.random.default_rng(number)
    rough = noise.integers(0, 256, (9, 11, 3), dtype=numpy.uint8)
    size = (180 + 13 * number, 120 + 7 * number)
    image = Image.fromarray(rough).resize(size, Image.Resampling.BICUBIC)
    out = io.BytesIO()
    image.save(out, how.pop("format", "JPEG"), **how)
    return out.getvalue()


# Ours to decode, then some that are not.
OURS = [{"subsampling": s, "quality": q, "optimize": q == 60} for s in (0, 1, 2) for q in (60, 95)]
OTHERS = [{"progressive": True}, {"restart_marker_blocks": 3}, {"format": "PNG"}]
HOWS = [*OURS, *OTHERS]


def write(path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (LONG_AGO, LONG_AGO))


@pytest.fixture
def photos(tmp_path):
    for number, how in enumerate(HOWS):
        write(tmp_path / "photos" / f"c{number % 2}" / f"{number}.img.jpg", picture(number, **how))
    return tmp_path / "photos"


def augmented(source, kind=None, **options):
    pipe = source.shuffle(seed=4).decode()
    pipe = pipe if kind is None else pipe.cache(kind, **options)
    return pipe.random_resized_crop(48).horizontal_flip().normalize(MEAN, STD).batch(4)


def epochs(pipe, count: int, workers: int = 0) -> list:
    loader = pipe.numpy(workers=workers)
    try:
        return [list(loader) for _ in range(count)]
    finally:
        loader.close()


def kept(pipe) -> int:
    """How many pictures the store holds, as explain() tells it."""
    [told] = [step.why for step in pipe.explain().steps if step.what == "picture cache"]
    return int(told.partition(" pictures")[0].rpartition(" ")[2])


def stores(tmp_path) -> list:
    return glob.glob(str(tmp_path / "cache/stoker/pictures/*"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [0, 2])
def test_no_byte_depends_on_it(photos, kind, workers):
    source = stoker.data.image_folder(str(photos))
    plain, cached = augmented(source), augmented(source, kind)
    assert kept(cached) == 0
    assert same(epochs(cached, 4, workers), epochs(plain, 4))
    assert kept(cached) == len(OURS)
    assert same(epochs(cached, 2, 2 - workers), epochs(plain, 2))
    one, other = plain.numpy(workers=0), cached.numpy(workers=0)
    iter(one), iter(other)
    assert one.state_dict() == other.state_dict()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("isa", ["scalar", "avx2"])
def test_other_instruction_sets_read_the_same_store(photos, kind, isa, monkeypatch):
    source = stoker.data.image_folder(str(photos))
    expected = epochs(augmented(source), 2)
    assert same(epochs(augmented(source, kind), 2), expected)
    monkeypatch.setenv("STOKER_ISA", isa)  # of the worker
    assert same(epochs(augmented(source, kind), 2, workers=1), expected)
    assert kept(augmented(source, kind)) == len(OURS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_loader_takes_it_as_arguments(photos, kind, tmp_path):
    ops = [op.fields for op in stoker.data.image_folder(str(photos)).decode().center_crop(64)._ops()]
    dataset = stoker.data.image_folder(str(photos)).with_transform(lowering.NativeOps(ops))
    plain = stoker.DataLoader(dataset, batch_size=3)
    cached = stoker.DataLoader(
        dataset, batch_size=3, num_workers=1, picture_cache=kind, cache_dir=tmp_path / "own" / "place", cache_budget=1 << 24
    )
    got = [[numpy.asarray(images).tobytes() for images, _ in loader] for loader in (plain, cached, cached)]
    assert len(got[0]) == 3 and got[1] == got[2] == got[0]
    assert len(os.listdir(tmp_path / "own" / "place")) == 1
    assert f"{kind} of {len(OURS)} pictures" in str(cached.explain())
    cached.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_picture_is_seen(photos, kind):
    source = stoker.data.image_folder(str(photos))
    epochs(augmented(source, kind), 2)
    for number in range(len(OURS)):
        path = photos / f"c{number % 2}" / f"{number}.img.jpg"
        other = picture(number + 40, **OURS[number])
        old = path.stat().st_size
        # As many bytes as before and as old: cut, or with zeros behind, which decoders pass over.
        other = other[:old] if len(other) >= old else other + bytes(old - len(other))
        path.write_bytes(other)
        os.utime(path, (LONG_AGO, LONG_AGO))
        assert path.stat().st_size == old
    expected = stoker.data.image_folder(str(photos)).decode().resize((9, 9)).batch(1)
    cached = stoker.data.image_folder(str(photos)).decode().cache(kind).resize((9, 9)).batch(1)
    assert outcomes(cached) == outcomes(expected)


def outcomes(pipe) -> list:
    """Each batch's bytes, or its error."""
    loader, found = pipe.numpy(workers=0), []
    batches = iter(loader)
    while True:
        try:
            found.append(next(batches)[0].tobytes())
        except StopIteration:
            return found
        except ImageError as error:
            found.append(str(error))


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_store_changes_nothing(photos, kind, tmp_path):
    source, noise = stoker.data.image_folder(str(photos)), random.Random(7)
    expected = epochs(augmented(source), 2)
    epochs(augmented(source, kind), 2)
    [path] = stores(tmp_path)
    sound = open(path, "rb").read()
    for _ in range(60):
        bad = bytearray(sound)
        for _ in range(noise.choice([1, 1, 40])):
            bad[noise.randrange(len(bad))] = noise.randrange(256)
        if noise.random() < 0.3:
            del bad[noise.randrange(len(bad)) :]
        with open(path, "wb") as file:
            file.write(bad)
        assert same(epochs(augmented(source, kind), 2), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_writers_and_two_at_once(photos, kind, tmp_path):
    for number in range(60):
        write(photos / "more" / f"{number}.jpg", picture(number % 20, **OURS[number % len(OURS)]))
    source = stoker.data.image_folder(str(photos))
    expected, noise = epochs(augmented(source), 3), random.Random(1)
    for _ in range(4):
        for store in stores(tmp_path):
            os.unlink(store)
        loaders = [augmented(source, kind).numpy(workers=2), augmented(source, kind).numpy(workers=1)]
        got = [[], []]
        for _ in range(3):
            rounds = [iter(loader) for loader in loaders]
            for into in got:
                into.append([])
            for step in range(len(expected[0])):
                for into, batches in zip(got, rounds, strict=True):
                    into[-1].append(next(batches))
                if step == 3:
                    os.kill(noise.choice(children()), signal.SIGKILL)
        for loader in loaders:
            loader.close()
        assert same(got[0], expected) and same(got[1], expected)
    assert kept(augmented(source, kind)) == len(OURS) + 60


def children() -> list:
    return [int(pid) for path in glob.glob("/proc/self/task/*/children") for pid in open(path).read().split()]


@pytest.mark.parametrize("kind", KINDS)
def test_budget_and_places_that_cannot_be_written(photos, kind, tmp_path, capfd):
    source = stoker.data.image_folder(str(photos))
    expected = epochs(augmented(source), 2)
    small = augmented(source, kind, budget_bytes=2 << 20, folder=tmp_path / "small")
    assert same(epochs(small, 2, workers=2), expected)
    tiny = augmented(source, kind, budget_bytes=100, folder=tmp_path / "tiny")
    assert same(epochs(tiny, 2, workers=0), expected) and kept(tiny) == 0
    assert same(epochs(tiny, 2, workers=0), expected)
    assert capfd.readouterr().err.count("keeps what it has and no more") == 1
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(OSError):
        augmented(source, kind, folder=tmp_path / "file" / "below")
    blocked = augmented(source, kind, folder=tmp_path / "blocked")
    epochs(blocked, 1)
    [store] = (tmp_path / "blocked").iterdir()
    store.unlink()
    store.mkdir()
    assert same(epochs(blocked, 2), expected)
    assert "no picture cache" in capfd.readouterr().err


@pytest.fixture
def two_sources(photos, tmp_path):
    """Two of about as many bytes, and what each one's store takes."""
    for number, how in enumerate(HOWS):
        write(tmp_path / "others" / f"c{number % 2}" / f"{number}.img.jpg", picture(number, **how))
    sources = [stoker.data.image_folder(str(root)) for root in (photos, tmp_path / "others")]
    return sources, [epochs_and_room(source, tmp_path / f"alone{n}") for n, source in enumerate(sources)]


def epochs_and_room(source, folder):
    expected = epochs(augmented(source, "coefficients", folder=folder), 2)
    return expected, room_in(folder)


def room_in(folder) -> int:
    stats = [path.stat() for path in folder.iterdir()]
    return sum(min(stat.st_size, 512 * stat.st_blocks) for stat in stats)


@pytest.mark.parametrize("workers", [0, 2])
def test_sources_that_nobody_uses_go_for_the_room_of_another(two_sources, tmp_path, workers):
    (first, second), ((of_first, room), (of_second, _)) = two_sources
    shared = {"folder": tmp_path / "shared", "total_bytes": room * 5 // 4}
    cached = [augmented(source, "coefficients", **shared) for source in (first, second)]
    assert same(epochs(cached[0], 2, workers), of_first) and kept(cached[0]) == len(OURS)
    [before] = shared["folder"].iterdir()
    assert same(epochs(cached[1], 2, workers), of_second) and kept(cached[1]) == len(OURS)
    [after] = shared["folder"].iterdir()
    assert after.name != before.name and room_in(shared["folder"]) <= shared["total_bytes"]
    assert same(epochs(cached[0], 2, workers), of_first)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_source_in_use_stays_and_the_other_keeps_what_fits(two_sources, tmp_path, workers, capfd):
    (first, second), ((of_first, room), (of_second, _)) = two_sources
    shared = {"folder": tmp_path / "shared", "total_bytes": room * 5 // 4}
    cached = [augmented(source, "coefficients", **shared) for source in (first, second)]
    loader = cached[0].numpy(workers=workers)
    got = [list(loader)]
    iterator = iter(loader)
    got.append([next(iterator)])
    assert same(epochs(cached[1], 2, workers), of_second)
    assert kept(cached[0]) == len(OURS) > kept(cached[1])
    assert "the others are in use" in capfd.readouterr().err
    got[1].extend(iterator)
    loader.close()
    assert same(got, of_first) and room_in(shared["folder"]) <= shared["total_bytes"]
    del loader, iterator
    assert same(epochs(cached[1], 2, workers), of_second) and kept(cached[1]) == len(OURS)


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_in_containers(kind, tmp_path):
    pictures = [picture(number, **how) for number, how in enumerate(OURS)]
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        for number, data in enumerate(pictures):
            for name, member in ((f"{number}.jpg", data), (f"{number}.cls", b"%d" % number)):
                info = tarfile.TarInfo(name)
                info.size = len(member)
                tar.addfile(info, io.BytesIO(member))
    (tmp_path / "0.tfrecord").write_bytes(b"".join(record(data, n) for n, data in enumerate(pictures)))
    write_mds(tmp_path / "mds", [(pictures[n % len(OURS)], n) for n in range(10)])
    for path in [tmp_path / "0.tar", tmp_path / "0.tfrecord", *(tmp_path / "mds").iterdir()]:
        os.utime(path, (LONG_AGO, LONG_AGO))
    for source in (
        stoker.data.webdataset(str(tmp_path / "0.tar")),
        stoker.data.tfrecord(str(tmp_path / "0.tfrecord"), image="img", label="lab"),
        stoker.data.mds(tmp_path / "mds"),
    ):
        expected = epochs(augmented(source), 2)
        assert same(epochs(augmented(source, kind), 2, workers=1), expected)
        assert kept(augmented(source, kind)) == len(source)
        assert same(epochs(augmented(source, kind), 2), expected)


def record(data: bytes, label: int) -> bytes:
    """Of a TFRecord file, a tf.train.Example in it."""
    image = field(1, field(1, b"img") + field(2, field(1, field(1, data))))
    number = field(1, field(1, b"lab") + field(2, field(3, field(1, bytes([label])))))
    return framed(field(1, image + number))


@pytest.mark.parametrize("kind", KINDS)
def test_pipes_with_python_behind_native_ops_use_it(photos, kind, tmp_path):
    source = stoker.data.image_folder(str(photos))

    def pipe(*cache):
        decoded = source.decode()
        decoded = decoded.cache(*cache) if cache else decoded
        return decoded.random_resized_crop(24).map(lambda sample: (sample[0] // 2, sample[1])).batch(3)

    assert same(epochs(pipe(kind), 2, workers=1), epochs(pipe(), 2))
    assert len(stores(tmp_path)) == 1 and f"picture cache: {kind}" in str(pipe(kind).explain())


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_pictures_are_told_of_as_without_it(photos, kind):
    for number in (0, 3):
        path = photos / f"c{number % 2}" / f"{number}.img.jpg"
        data = path.read_bytes()
        write(path, data[: len(data) // 2 + 300])

    def pipe(*cache):
        decoded = stoker.data.image_folder(str(photos)).decode()
        return (decoded.cache(*cache) if cache else decoded).center_crop(48).batch(1)

    expected = outcomes(pipe())
    assert sum(isinstance(one, str) for one in expected) == 2
    assert outcomes(pipe(kind)) == outcomes(pipe(kind)) == expected
    assert kept(pipe(kind)) == len(OURS) - 2
    ops = [op.fields for op in stoker.data.image_folder(str(photos)).decode().center_crop(48)._ops()]
    dataset = stoker.data.image_folder(str(photos)).with_transform(lowering.NativeOps(ops))
    plain = stoker.DataLoader(dataset, batch_size=3, on_error="skip")
    cached = stoker.DataLoader(dataset, batch_size=3, on_error="skip", picture_cache=kind)
    first, second, third = ([[numpy.asarray(leaf) for leaf in batch] for batch in loader] for loader in (plain, cached, cached))
    assert same(first, second) and same(first, third)


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_with_masks(kind, tmp_path):
    for number, how in enumerate(OURS):
        write(tmp_path / "images" / f"{number}.jpg", picture(number, **how))
        size = Image.open(tmp_path / "images" / f"{number}.jpg").size
        mask = io.BytesIO()
        Image.fromarray(numpy.random.default_rng(number).integers(0, 9, size[::-1], dtype=numpy.uint8)).save(mask, "PNG")
        write(tmp_path / "masks" / f"{number}.png", mask.getvalue())
    source = stoker.data.image_masks(tmp_path / "images", tmp_path / "masks")
    plain, cached = (pipe.random_resized_crop(40).horizontal_flip().batch(2) for pipe in (source.decode(), source.decode().cache(kind)))
    assert same(epochs(cached, 3), epochs(plain, 3))
    assert kept(cached) == len(OURS)


def test_refusals(photos):
    dataset = stoker.data.image_folder(str(photos)).with_transform(lambda image: image)
    with pytest.raises(ValueError, match="'index'"):
        stoker.DataLoader(dataset, picture_cache="pixels")
    with pytest.raises(ValueError, match="none was asked for"):
        stoker.DataLoader(dataset, cache_dir="somewhere")
    for nothing in ("", b"", 5, "a\0b"):
        with pytest.raises(ValueError, match="cache_dir should be the path of a folder, but got"):
            stoker.DataLoader(dataset, picture_cache="index", cache_dir=nothing)
    for place, why in (("/proc/foo", FileNotFoundError), (photos / "file", FileExistsError), (photos / "file/x", NotADirectoryError)):
        (photos / "file").touch()
        with pytest.raises(why, match=f"cache_dir: the folder cannot be made: .*{place}"):
            stoker.DataLoader(dataset, picture_cache="index", cache_dir=place)
    with pytest.raises(ValueError, match="number of bytes"):
        stoker.DataLoader(dataset, picture_cache="index", cache_budget=1.5)
    with pytest.raises(ValueError, match="cache_total should be a number of bytes"):
        stoker.DataLoader(dataset, picture_cache="index", cache_total=0)
    with pytest.raises(ValueError, match="none was asked for"):
        stoker.DataLoader(dataset, cache_total=1 << 30)
    with pytest.raises(ValueError, match="for caches of pictures"):
        stoker.data.image_folder(str(photos)).decode().cache("disk", total_bytes=1 << 30)
    with pytest.raises(NotImplementedError, match="native plans, and this is none"):
        next(iter(stoker.DataLoader(dataset, picture_cache="index")))
    source = stoker.data.image_folder(str(photos))
    with pytest.raises(ValueError, match="one of 'memory', 'disk', 'index'"):
        source.cache("tape")
    with pytest.raises(ValueError, match="decoded natively"):
        source.decode().cache("index").map(str).numpy()
