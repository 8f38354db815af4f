# SPDX-License-Identifier: Apache-2.0
"""Arrays, numbers and functions as datasets; mixtures."""

import collections
import concurrent.futures
import json
import os
import pathlib
import pickle
import subprocess
import sys

import numpy
import pytest

import stoker
from stoker.data.containers import ContainerError


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def columns(tmp_path):
    """Every dtype, in memory and in files: {name: array or path}, and the arrays."""
    rng = numpy.random.default_rng(0)
    plain = {}
    for name in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split():
        plain[name] = rng.integers(0, 2, (23, 3)).astype(name)
    plain["scalar"] = numpy.arange(23) * 5
    plain["picture"] = rng.integers(0, 255, (23, 2, 4, 3), dtype=numpy.uint8)
    given = dict(plain)
    numpy.save(tmp_path / "p.npy", plain["picture"])
    given["picture"] = tmp_path / "p.npy"
    numpy.save(tmp_path / "f.npy", plain["float32"])
    given["float32"] = numpy.load(tmp_path / "f.npy", mmap_mode="r")
    given["int16"] = numpy.asfortranarray(plain["int16"])
    return plain, given


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_hold_the_rows(columns, workers):
    torch = pytest.importorskip("torch")
    plain, given = columns
    torch.manual_seed(3)
    loader = stoker.DataLoader(stoker.data.arrays(given), batch_size=5, shuffle=True, num_workers=workers)
    assert loader.explain().native
    seen = []
    for batch in loader:
        at = (batch["scalar"] // 5).tolist()
        seen += at
        assert list(batch) == list(plain)
        for name, column in plain.items():
            assert batch[name].numpy().dtype == column.dtype
            assert numpy.array_equal(batch[name].numpy(), column[at]), name
    assert sorted(seen) == list(range(23)) and seen != sorted(seen)
    loader.close()


def test_forms_and_state():
    torch = pytest.importorskip("torch")
    x, y = numpy.arange(20.0).reshape(10, 2), numpy.arange(10)
    source = stoker.data.arrays(x, y)
    assert len(source) == 10 and source[3][1] == 3
    first, second = next(iter(stoker.DataLoader(source, batch_size=4)))
    assert torch.equal(first, torch.from_numpy(x[:4])) and second.tolist() == [0, 1, 2, 3]
    assert torch.equal(next(iter(stoker.DataLoader(stoker.data.arrays(x), batch_size=2))), torch.from_numpy(x[:2]))
    loader = stoker.DataLoader(source, batch_size=4)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    again = stoker.DataLoader(stoker.data.arrays(x.copy(), y), batch_size=4)
    again.load_state_dict(state)
    assert [batch[1].tolist() for batch in again] == [batch[1].tolist() for batch in batches]
    with pytest.raises(ValueError, match="another plan"):
        stoker.DataLoader(stoker.data.arrays(x + 1, y), batch_size=4).load_state_dict(state)


def test_the_same_through_python_code():
    torch = pytest.importorskip("torch")
    x = numpy.arange(12, dtype=numpy.float32).reshape(6, 2)
    source = stoker.data.arrays(x=x)
    collated = stoker.DataLoader(source, batch_size=3, collate_fn=_first, num_workers=1)
    assert not collated.explain().native
    assert [batch.tolist() for batch in collated] == [[0, 2, 4], [6, 8, 10]]
    collated.close()
    del torch


def _first(rows):
    return numpy.array([row["x"][0] for row in rows])


def test_without_torch():
    script = (
        "import numpy, sys, stoker\n"
        "loader = stoker.DataLoader(stoker.data.arrays(numpy.arange(6), numpy.arange(6.0)), batch_size=4)\n"
        "print([type(c).__name__ for c in next(iter(loader))], 'torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "['ndarray', 'ndarray'] False", done.stderr


def test_memory_is_not_multiplied_by_workers(tmp_path):
    torch = pytest.importorskip("torch")
    numpy.save(tmp_path / "x.npy", numpy.zeros((64 << 10, 1024), dtype=numpy.uint8))  # 64 MiB
    loader = stoker.DataLoader(stoker.data.arrays(tmp_path / "x.npy"), batch_size=512, num_workers=2, persistent_workers=True)
    for _ in loader:
        pass
    own = []
    for child in _children(os.getpid()):
        with open(f"/proc/{child}/smaps_rollup", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file.read().splitlines()[1:])
        own.append(int(lines["Anonymous"].split()[0]) // 1024)  # not pages of the file, of which many are not on disk yet
    assert len(own) == 2 and max(own) < 32, own
    loader.close()
    del torch


def _children(pid: int) -> list:
    tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def test_what_has_no_rows_is_refused(tmp_path):
    for bad in (numpy.float32(1), numpy.array(["a"]), numpy.array([{}]), numpy.zeros(3, ">i4"), numpy.zeros(3, complex)):
        with pytest.raises(ValueError):
            stoker.data.arrays(bad)
    with pytest.raises(ValueError, match="different lengths"):
        stoker.data.arrays(numpy.zeros(3), numpy.zeros(4))
    with pytest.raises(ValueError, match="x is a masked array, and rows have no mask: give x.filled"):
        stoker.data.arrays(x=numpy.ma.masked_array([1, 2, 3], [0, 1, 0]))
    assert stoker.data.arrays(numpy.ma.masked_array([1, 2, 3]))[1] == 2  # nothing of it is masked
    with pytest.raises(ValueError, match=r"array0 \(list\) becomes no NumPy array: "):
        stoker.data.arrays([[1], [1, 2]])
    numpy.save(tmp_path / "a.npy", numpy.zeros((100, 100)))
    data = (tmp_path / "a.npy").read_bytes()
    for name, bad, kind in (
        ("cut", data[:-1], "truncated"),
        ("empty", b"", "empty"),
        ("text", b"path,label\n", "corrupt"),
        ("objects", data.replace(b"'<f8'", b"'|O' "), "unsupported"),
        ("fortran", data.replace(b"False", b"True "), "unsupported"),
    ):
        (tmp_path / f"{name}.npy").write_bytes(bad)
        with pytest.raises(ContainerError) as caught:
            stoker.data.arrays(tmp_path / f"{name}.npy")
        assert caught.value.kind == kind and f"{name}.npy" in str(caught.value)


def test_a_feed_group_gets_no_memory(monkeypatch):
    source = stoker.data.arrays(x=numpy.zeros((4, 2)))
    assert source.in_memory() == ["x"]
    monkeypatch.setenv("STOKER_FEED", "127.0.0.1:1")
    with pytest.raises(TypeError, match="input channel"):
        pickle.dumps(source)


def test_numbers_and_functions():
    pytest.importorskip("torch")
    assert [int(x) for batch in stoker.DataLoader(stoker.data.range(5), batch_size=2) for x in batch] == [0, 1, 2, 3, 4]
    squares = stoker.data.from_function(4, lambda i: i * i)
    loader = stoker.DataLoader(squares, batch_size=2, num_workers=1)
    assert [batch.tolist() for batch in loader] == [[0, 1], [4, 9]]
    loader.close()
    assert len(squares) == 4 and squares[-1] == 9
    with pytest.raises(IndexError):
        squares[4]
    with pytest.raises(ValueError):
        stoker.data.range(-1)


# ---- mixtures


def test_a_mixture_keeps_its_weights_everywhere():
    sources = [stoker.data.from_function(n, lambda i, s=s: (s, i)) for s, n in enumerate((700, 300, 90))]
    mixture = stoker.data.mix(sources, [0.6, 0.3, 0.1], seed=4)
    drawn = [mixture.at(p) for p in range(len(mixture))]
    assert [mixture[p] for p in (0, 5, len(mixture) - 1)] == [drawn[p] for p in (0, 5, -1)]
    for start in range(0, len(mixture) - 10, 10):
        assert collections.Counter(s for s, _ in drawn[start : start + 10]) == {0: 6, 1: 3, 2: 1}
    assert len(set(drawn)) == len(drawn), "nothing twice under 'stop'"
    assert 890 <= len(mixture) <= 910, "the third source ends first, after 90 of its samples"
    assert drawn == [stoker.data.mix(sources, [6, 3, 1], seed=4).at(p) for p in range(len(mixture))]
    assert drawn != [stoker.data.mix(sources, [6, 3, 1], seed=5).at(p) for p in range(len(mixture))]


def test_a_state_of_another_mixture_is_refused():
    """Of other weights, seed or sources, though there are as many samples."""
    ones, twos = stoker.data.arrays(numpy.ones(600)), stoker.data.arrays(numpy.full(600, 2.0))

    def loader(*arguments):
        return stoker.DataLoader(stoker.data.mix(*arguments), batch_size=10)

    state = loader([ones, ones, twos], [1, 1, 2]).state_dict()
    loader([ones, ones, twos], [2, 2, 4]).load_state_dict(state)
    for other in (([ones, twos, ones], [1, 1, 2]), ([ones, ones, twos], [1, 1, 2], 7), ([ones, ones, twos], [1, 1, 2], 0, "stop", False)):
        with pytest.raises(ValueError, match="another plan"):
            loader(*other).load_state_dict(state)
    unknown = [list(range(600))] * 3
    assert len({stoker.data.mix(unknown, weights, seed).identity() for weights in ([1, 1, 2], [2, 1, 1]) for seed in (0, 7)}) == 4


def test_a_disk_cache_behind_a_mixture_needs_sources_that_are_known(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    known, unknown = stoker.data.range(30), stoker.data.from_function(30, float)
    for first in (known, unknown):
        for mixed in (first.mix(known), stoker.data.mix([first, known])):
            pipe = mixed.cache("disk", 1 << 20).batch(4)
            if first is known:
                assert len(list(pipe.numpy(workers=0))) > 1
                continue
            with pytest.raises(ValueError, match="identity"):
                pipe.numpy(workers=0)


def test_a_mixture_of_pipes_is_a_pipe(tmp_path):
    rows = numpy.arange(12 * 3 * 4 * 4, dtype=numpy.uint8).reshape(12, 3, 4, 4)
    cropped = stoker.data.arrays(rows).center_crop(2)
    by_method = cropped.mix(stoker.data.range(30).map(lambda n: numpy.full((3, 2, 2), n, numpy.uint8)), weights=[2, 1])
    by_function = stoker.data.mix([cropped, stoker.data.range(30).map(lambda n: numpy.full((3, 2, 2), n, numpy.uint8))], [2, 1])
    one, other = (list(pipe.batch(4).numpy(workers=0)) for pipe in (by_method, by_function))
    assert len(one) == len(other) > 2 and all(map(numpy.array_equal, one, other))
    with pytest.raises(ValueError, match="order, batches and filters go behind mix"):
        stoker.data.mix([cropped, cropped.batch(4)])


def test_a_mixture_stops_before_the_first_repetition_or_after_the_longest():
    a, b = stoker.data.range(10), stoker.data.range(25)
    for seed in range(5):
        stops = stoker.data.mix([a, b], seed=seed)
        counts = collections.Counter(stops.at(p) for p in range(len(stops)))
        assert max(counts.values()) == 1 and len(counts) >= 19
        assert sum(s == 0 for s, _ in counts) == 10
        repeats = stoker.data.mix([a, b], seed=seed, end="repeat")
        counts = collections.Counter(repeats.at(p) for p in range(len(repeats)))
        assert sorted(i for s, i in counts if s == 1) == list(range(25)) and 49 <= len(repeats) <= 50
        assert all(2 <= counts[0, i] <= 3 for i in range(10))
        last = repeats.at(len(repeats) - 1)
        assert last[0] == 1, "it ends with the last of the longest"
    plain = stoker.data.mix([a, b], [2, 1], end="repeat", shuffle=False)
    assert [i for s, i in (plain.at(p) for p in range(30)) if s == 0] == [i % 10 for i in range(20)]


def mixtures():
    weights = {
        2: ([1, 1], [1, 3], [0.55, 0.45], [0.501, 0.499], [0.1234, 0.8766], [0.01, 1], [1e-9, 1], [0, 1]),
        3: ([0.6, 0.3, 0.1], [0.501, 0.299, 0.2], [1, 0, 2], [3.14, 2.72, 1.41]),
    }
    sizes = ((1, 1), (5, 7), (10, 30), (100, 100), (3, 500), (1000, 1000), (1, 1, 1), (7, 40, 5), (300, 300, 300))
    for lengths in sizes:
        for ratio in weights[len(lengths)]:
            for seed in (0, 2):
                yield lengths, ratio, seed


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_mixture_stops_before_the_first_sample_that_would_repeat(shuffle):
    for lengths, weights, seed in mixtures():
        mixture = stoker.data.mix(list(map(stoker.data.range, lengths)), weights, seed=seed, shuffle=shuffle)
        drawn, of = [mixture.at(p) for p in range(len(mixture))], (lengths, weights, seed)
        assert drawn and len(set(drawn)) == len(drawn), of
        source, item = mixture.at(len(mixture))
        assert (source, item) in drawn, of
        assert sum(one == source for one, _ in drawn) == lengths[source], of


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_mixture_that_repeats_gives_every_source_whole(shuffle):
    for lengths, weights, seed in mixtures():
        shortest = min(weight / length for weight, length in zip(weights, lengths, strict=True) if weight)
        if sum(weights) / shortest > 20_000:
            continue  # a long mixture, not another case
        mixture = stoker.data.mix(list(map(stoker.data.range, lengths)), weights, seed=seed, end="repeat", shuffle=shuffle)
        drawn, of = [mixture.at(p) for p in range(len(mixture))], (lengths, weights, seed)
        counts = collections.Counter(drawn)
        assert set(counts) == {(s, i) for s, length in enumerate(lengths) if weights[s] for i in range(length)}, of
        last = drawn[-1][0]
        assert counts[drawn[-1]] == 1 and all(n == 1 for (s, _), n in counts.items() if s == last), "it ends with the last of the longest"
        for source, length in enumerate(lengths):
            items = [i for s, i in drawn if s == source]
            for first in range(0, len(items) - length + 1, length):
                passed = items[first : first + length]
                assert sorted(passed) == list(range(length)) and (shuffle or passed == sorted(passed)), of
        for first in range(0, len(drawn) - sum(mixture.shares) + 1, sum(mixture.shares)):
            block = collections.Counter(s for s, _ in drawn[first : first + sum(mixture.shares)])
            assert [block[s] for s in range(len(lengths))] == mixture.shares, of


@pytest.mark.parametrize("shuffle", [True, False])
def test_any_position_of_a_mixture_is_the_same_in_any_order_and_thread(shuffle):
    def made():
        return stoker.data.mix(list(map(stoker.data.range, (40, 700, 9))), [0.501, 0.298, 0.201], seed=3, end="repeat", shuffle=shuffle)

    forth = made()
    drawn = [forth.at(p) for p in range(len(forth))]
    places = numpy.random.default_rng(0).permutation(len(drawn)).tolist()
    back, shared = made(), made()
    assert [back.at(p) for p in places] == [drawn[p] for p in places]
    assert pickle.loads(pickle.dumps(back)).at(places[0]) == drawn[places[0]]
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert list(threads.map(shared.at, places)) == [drawn[p] for p in places]


def test_a_mixture_says_by_which_rule_it_is_ordered():
    """A state from before passes ended in order is of another plan."""
    assert json.loads(stoker.data.mix([stoker.data.range(5)] * 2).identity())[:3] == ["mix", 2, [1, 1]]


def test_mixtures_refuse_what_they_cannot_mean():
    a = stoker.data.range(3)
    for arguments in (([],), ([a], [1, 2]), ([a, a], [0, 0]), ([a, a], [1, -1]), ([a, stoker.data.range(0)],)):
        with pytest.raises(ValueError):
            stoker.data.mix(*arguments)
    for bad in (float("nan"), float("inf"), "a", "1/0", None, -1, 1j):
        with pytest.raises(ValueError, match=r"weights\[1\] is .*; weights are finite numbers of at least 0"):
            stoker.data.mix([a, a], [1, bad])
    with pytest.raises(ValueError, match="'stop' or 'repeat'"):
        stoker.data.mix([a], end="never")
    from stoker.data.mixture import _shares

    assert _shares([0.5, 0.25, 0.25]) == [2, 1, 1] and _shares([1, 0]) == [1, 0]
    assert _shares([1e-12, 1]) == _shares([1, 5000]) == [1, 4095], "a weight above 0 has a share"
    assert _shares(numpy.array([0.5, 1.5], numpy.float32)) == [1, 3]
    odd = _shares([0.123456, 3.14159, 2.71828])
    assert sum(odd) == 4096 and abs(odd[1] / 4096 - 3.14159 / 5.983326) < 1e-3
