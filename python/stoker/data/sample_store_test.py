# SPDX-License-Identifier: Apache-2.0
"""Samples kept in a file that processes share."""

import os
import pickle
import warnings

import numpy
import pytest

import stoker
from stoker.data import kept_plans
from stoker.data.sample_store import MemoryStore, Store


def rows(item: int) -> dict:
    return {"x": numpy.full((3, item + 1), item, dtype=numpy.float32), "name": f"item {item}"}


@pytest.mark.parametrize("make", [lambda path: Store(path, 10, 1 << 20), lambda path: MemoryStore(10, 1 << 20)])
def test_what_was_put_is_got_by_all_who_open_it(tmp_path, make):
    store = make(str(tmp_path / "kept"))
    assert store.get(3) is None
    store.put(3, rows(3))
    other = pickle.loads(pickle.dumps(store))
    found = other.get(3)[0]
    assert found["name"] == "item 3" and found["x"].tobytes() == rows(3)["x"].tobytes() and found["x"].flags.writeable
    other.put(4, rows(4))
    assert store.get(4)[0]["x"].shape == (3, 5) and store.stats()["kept"] == 2


def test_a_full_store_keeps_what_it_has(tmp_path):
    store = Store(str(tmp_path / "kept"), 10, 1000)
    for item in range(10):
        store.put(item, rows(item))
    kept = store.stats()
    assert 1 <= kept["kept"] < 10 and kept["bytes"] <= 1000 and store.get(0)[0]["name"] == "item 0" and store.get(9) is None


def test_torn_and_foreign_bytes_are_nothing(tmp_path):
    path = str(tmp_path / "kept")
    store = Store(path, 10, 1 << 20)
    store.put(0, rows(0))
    store.put(1, rows(1))
    with open(path, "r+b") as file:
        size = os.path.getsize(path)
        file.seek(size - 1)
        byte = file.read(1)
        file.seek(size - 1)
        file.write(bytes([byte[0] ^ 1]))
        file.seek(32 + 2 * 24)
        file.write(b"\xff" * 24)
    again = Store(path, 10, 1 << 20)
    assert again.get(0)[0]["name"] == "item 0" and again.get(1) is None and again.get(2) is None
    assert Store(path, 11, 1 << 20).get(0) is None  # another number of items: another store
    with open(path, "wb") as file:
        file.write(b"what is this?")
    assert Store(path, 10, 1 << 20).get(0) is None


def test_a_store_that_was_a_files_of_another_process_is_ones_own():
    store = MemoryStore(10, 1 << 20)
    store.put(0, rows(0))
    state = pickle.dumps(store)
    name = store.path
    del store
    assert not os.path.exists(name)
    other = pickle.loads(state)
    assert other.get(0) is None
    other.put(0, rows(0))
    assert other.get(0) is not None


class Rows:
    def __len__(self):
        return 40

    def __getitem__(self, item):
        return numpy.full(10_000, item, dtype=numpy.uint8)

    def identity(self):
        return "rows"


@pytest.mark.parametrize("left", [0, 100_000])
@pytest.mark.parametrize("workers", [0, 2])
def test_on_a_full_disk_the_run_goes_on_and_one_warning_tells(small_cache, capfd, left, workers):
    (small_cache.cache / "manifests").mkdir(parents=True)
    (small_cache.cache / "folders").mkdir()
    small_cache.fill(left)
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        loader = stoker.data.pipe(Rows()).cache("disk").batch(4).numpy(workers=workers)
        for _ in range(2):
            assert [batch[:, 0].tolist() for batch in loader] == [list(range(at, at + 4)) for at in range(0, 40, 4)]
        kept = loader.cache_stats()[0]
        loader.close()
    told = [str(one.message) for one in noted] + [line for line in capfd.readouterr().err.splitlines() if "Warning:" in line]
    assert len(told) == 1 and "cache/stoker/samples/" in told[0], told
    assert "No space left on device" in told[0] and "XDG_CACHE_HOME" in told[0] and "Free space" in told[0]
    assert kept["kept"] == 0 if left == 0 else 0 < kept["kept"] < 12, kept
    small_cache.fill(None)  # there is room again: the next run keeps what it can
    loader = stoker.data.pipe(Rows()).cache("disk").batch(4).numpy(workers=workers)
    list(loader)
    assert loader.cache_stats()[0]["kept"] == 40
    loader.close()


def test_on_a_full_disk_no_half_plans_are_left(small_cache):
    (small_cache.cache / "plans").mkdir(parents=True)
    for folder in ("manifests", "folders"):
        (small_cache.cache / folder).mkdir()
    small_cache.fill(0)
    kept_plans.keep("0" * 64, "a plan of this test")
    assert os.listdir(small_cache.cache / "plans") == [] and kept_plans.find("0" * 64) is None
