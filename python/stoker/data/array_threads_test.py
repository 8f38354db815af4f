# SPDX-License-Identifier: Apache-2.0
"""Arrays in memory with num_workers > 0: threads of this process make the batches, and nothing else is different."""

import gc
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap

import numpy
import pytest

torch = pytest.importorskip("torch")
import stoker  # noqa: E402
from stoker.data.recipe import Recipe  # noqa: E402

ROWS = 1000
X = numpy.random.default_rng(3).integers(0, 256, (ROWS, 300), dtype=numpy.uint8)
Y = numpy.arange(ROWS) * 3


def loader_of(workers, seed=7, **arguments):
    arguments.setdefault("shuffle", True)
    generator = torch.Generator().manual_seed(seed)
    return stoker.DataLoader(stoker.data.arrays(X, Y), 16, num_workers=workers, generator=generator, **arguments)


def bytes_of(batches):
    return [(x.numpy().tobytes(), y.tolist()) for x, y in batches]


def row_threads():
    names = [(task / "comm").read_text().strip() for task in pathlib.Path("/proc/self/task").iterdir()]
    return names.count("stoker-rows")


def children():
    tasks = pathlib.Path("/proc/self/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def epoch_and_digest(loader):
    iterator = iter(loader)
    batches = bytes_of(iterator)
    return batches, iterator.digest()


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_bytes_and_digest_are_those_of_worker_processes_and_of_this_thread(workers, monkeypatch):
    threads = epoch_and_digest(loader_of(workers))
    assert children() == [] and row_threads() == 0
    with monkeypatch.context() as patch:
        patch.setenv("STOKER_AUDIT", "1")
        assert epoch_and_digest(loader_of(0)) == threads
    monkeypatch.setattr(Recipe, "_on_threads", lambda self: False)
    assert epoch_and_digest(loader_of(workers)) == threads


def test_pictures_in_arrays_too(monkeypatch):
    v2 = pytest.importorskip("torchvision.transforms.v2")
    transform = v2.Compose([v2.RandomCrop(8, padding=2), v2.RandomHorizontalFlip(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    rows = numpy.random.default_rng(0).integers(0, 256, (64, 8, 8, 3), dtype=numpy.uint8)

    def epoch(workers):
        source = stoker.data.arrays(rows, numpy.arange(64), transform=transform)
        return epoch_and_digest(stoker.DataLoader(source, 8, num_workers=workers, generator=torch.Generator().manual_seed(1)))

    threads = epoch(2)
    monkeypatch.setattr(Recipe, "_on_threads", lambda self: False)
    assert epoch(1) == threads
    monkeypatch.setenv("STOKER_AUDIT", "1")
    assert epoch(0) == threads


def test_it_says_so(tmp_path):
    loader = loader_of(2)
    assert "made by 2 threads of this process" in str(loader.explain())
    list(loader)
    stats = loader.stats()
    assert [op["name"] for op in stats.ops] == ["read", "hash", "hand-over"]
    assert "threads (2)" in stats.limits and stats.predicted_per_s > 0 and stats.samples == ROWS
    assert stats.ops[0]["bytes"] == 308 and str(loader.stats())
    assert "made by 1 thread of this process" in str(loader_of(1).explain())
    numpy.save(tmp_path / "x.npy", X)
    mapped = numpy.load(tmp_path / "x.npy", mmap_mode="r")
    for held in (tmp_path / "x.npy", mapped, mapped[10:]):  # a read that fails must not end the trainer
        assert "2 worker processes" in str(stoker.DataLoader(stoker.data.arrays(held), 4, num_workers=2).explain())
    assert "2 threads" in str(stoker.DataLoader(stoker.data.arrays(numpy.array(mapped)), 4, num_workers=2).explain())


def test_a_job_counts_their_cpu_as_the_data_s(tmp_path):
    script = """
    import numpy, stoker, time
    loader = stoker.DataLoader(stoker.data.arrays(numpy.zeros((20_000, 4096), numpy.uint8)), 256, num_workers=1)
    for _ in range(5):
        list(loader)
    loader.close()
    print(time.process_time())
    """
    environment = {**os.environ, "STOKER_TELEMETRY_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("loader-*.jsonl")
    last = json.loads(path.read_text().splitlines()[-1])
    assert last["samples"] == 100_000 and last["data_cpu_s"] > 0 and last["trainer_cpu_s"] > 0
    assert last["data_cpu_s"] + last["trainer_cpu_s"] <= float(done.stdout)  # each second counts once


@pytest.mark.parametrize("first, second", [(2, 0), (1, 3), (0, 2)])
def test_a_state_of_any_place_goes_on_with_any_number_of_threads(first, second, monkeypatch):
    monkeypatch.setenv("STOKER_AUDIT", "1")
    whole, digest = epoch_and_digest(loader_of(first))
    for k in (0, 1, 31, len(whole) - 1, len(whole)):
        loader = loader_of(first)
        iterator = iter(loader)
        seen = bytes_of(next(iterator) for _ in range(k))
        state = loader.state_dict()
        other = loader_of(second, seed=99)
        other.load_state_dict(json.loads(json.dumps(state)))
        resumed = iter(other)
        assert seen + bytes_of(resumed) == whole and resumed.digest() == digest


def test_an_item_that_is_not_there_is_an_error_of_its_batch(monkeypatch):
    def told(workers):
        sampler = [[1, 2], [3, ROWS + 5], [4, 5]]
        seed = torch.Generator().manual_seed(2)
        loader = stoker.DataLoader(stoker.data.arrays(X, Y), batch_sampler=sampler, num_workers=workers, generator=seed)
        iterator = iter(loader)
        first = next(iterator)[1].tolist()
        with pytest.raises(ValueError) as failed:
            next(iterator)
        return first, str(failed.value), failed.value.position, failed.value.item, next(iterator)[1].tolist(), loader.state_dict()

    threads = told(2)
    assert threads[0] == [3, 6] and threads[4] == [12, 15] and threads[2:4] == (3, ROWS + 5)
    assert f"item {ROWS + 5} asked for at position 3" in threads[1]
    monkeypatch.setattr(Recipe, "_on_threads", lambda self: False)
    processes = told(1)
    assert processes == threads


def test_batches_that_are_kept_stay_and_dropped_ones_are_used_again():
    loader = loader_of(2)
    expected = bytes_of(loader)
    loader = loader_of(2)
    kept = list(loader)
    loader.close()
    assert bytes_of(kept) == expected
    part = kept[0][1][3:]
    del kept
    assert part.tolist() == expected[0][1][3:]
    at = set()
    for x, _ in loader_of(1, persistent_workers=True):
        at.add(x.data_ptr())
    assert len(at) <= 6


def test_threads_end_with_what_uses_them():
    gc.collect()
    assert row_threads() == 0
    gc.disable()
    try:
        loader = loader_of(3)
        iterator = iter(loader)
        next(iterator)
        assert row_threads() == 3
        list(iterator)
        assert row_threads() == 0
        next(iter(loader))  # dropped in the middle
        assert row_threads() == 0
        loader = loader_of(2, persistent_workers=True)
        two = iter(loader), iter(loader)
        assert next(two[0])[1].tolist() != next(two[1])[1].tolist()
        assert row_threads() == 4
        del two
        assert row_threads() == 2
        assert len(bytes_of(loader)) == len(loader) and row_threads() == 2
        iterator = iter(loader)
        next(iterator)
        loader.close()
        assert row_threads() == 0
        del iterator, loader
        loader = loader_of(2, persistent_workers=True)
        list(loader)
        assert row_threads() == 2
        del loader
        assert row_threads() == 0
    finally:
        gc.enable()


def test_an_iterator_that_is_given_up_costs_the_next_nothing():
    loader = loader_of(2, persistent_workers=True)
    other = loader_of(0)
    for k in (1, 5, 0, 9):
        one, same = iter(loader), iter(other)
        for _ in range(k):
            assert bytes_of([next(one)]) == bytes_of([next(same)])
        del one, same
    assert bytes_of(loader) == bytes_of(other)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one may come in a callback, which swallows it
@pytest.mark.parametrize("workers, processes", [(0, False), (2, False), (1, True)])
def test_interruptions_at_any_moment_lose_no_batch_and_repeat_none(workers, processes, monkeypatch):
    if processes:
        monkeypatch.setattr(Recipe, "_on_threads", lambda self: False)

    class Interrupted(BaseException):
        pass

    def interrupt(*_):
        raise Interrupted

    draw, interrupted = random.Random(workers), 0
    expected = bytes_of(loader_of(workers, shuffle=False))
    loader = loader_of(workers, shuffle=False, persistent_workers=workers > 0)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(30):
            seen, iterator, ended = [], iter(loader), False
            while not ended:
                try:
                    signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, 4e-3))
                    seen.extend(iterator)  # compiled: no signal is looked at between a batch and the list
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    ended = True
                except Interrupted:
                    interrupted += 1
            assert bytes_of(seen) == expected
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted


def test_a_fork_is_harmless():
    loader = loader_of(2, persistent_workers=True)
    iterator = iter(loader)
    batches = [next(iterator) for _ in range(3)]
    expected = bytes_of(batches)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with pytest.raises(RuntimeError, match="fork"):
                next(iterator)
            with pytest.raises(RuntimeError, match="fork"):
                iter(loader)
            assert bytes_of(batches) == expected
            own = loader_of(1)
            assert bytes_of(own)
            del batches, iterator, loader, own
            gc.collect()
            status = 0
        finally:
            os._exit(status)
    del batches
    rest = bytes_of(iterator)
    assert os.waitpid(child, 0)[1] == 0
    assert expected + rest == bytes_of(loader_of(0))
