# SPDX-License-Identifier: Apache-2.0
"""Iterable datasets as virtual shards."""

import json
import os
import random
import signal
import warnings

import pytest

torch = pytest.importorskip("torch")

import stoker  # noqa: E402
from stoker.data import iterable  # noqa: E402


class Uneven(torch.utils.data.IterableDataset):
    """Divides itself by worker info: shard v of V has 5 + 4 v numbers 1000 v + i, and what was drawn for each."""

    def __init__(self, fail_at=None):
        self.fail_at = fail_at

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        assert info.dataset is self
        for i in range(5 + 4 * info.id):
            if (info.id, i) == self.fail_at:
                raise KeyError(f"no {i}")
            yield info.id * 1000 + i, random.random()


class Slow(Uneven):
    def __iter__(self):
        for sample in super().__iter__():
            yield (*sample, os.getpid())


def loader_of(workers, dataset=None, **arguments):
    torch.manual_seed(7)
    arguments = {"batch_size": 2, "virtual_shards": 3, **arguments}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return stoker.DataLoader(dataset or Uneven(), num_workers=workers, **arguments)


def numbers(batches):
    return [batch[0].tolist() for batch in batches]


def drawn(batches):
    return [(batch[0].tolist(), batch[1].tolist()) for batch in batches]


def test_shards_take_turns_until_each_has_ended():
    expected = []
    shards = [[v * 1000 + i for i in range(5 + 4 * v)] for v in range(3)]
    for k in range(7):
        expected += [shard[2 * k : 2 * k + 2] for shard in shards if shard[2 * k : 2 * k + 2]]
    assert numbers(loader_of(0)) == expected
    assert numbers(loader_of(0, drop_last=True)) == [batch for batch in expected if len(batch) == 2]


@pytest.mark.parametrize("workers", [1, 2])
def test_batches_do_not_depend_on_the_number_of_workers(workers):
    here = loader_of(0)
    expected = [drawn(here), drawn(here)]  # two epochs
    there = loader_of(workers)
    assert [drawn(there), drawn(there)] == expected
    there.close()


def test_epochs_and_shards_draw_apart():
    loader = loader_of(0)
    first, second = drawn(loader), drawn(loader)
    assert [n for n, _ in first] == [n for n, _ in second]
    values = [value for epoch in (first, second) for _, row in epoch for value in row]
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("workers", [0, 2])
def test_resume_at_every_batch_with_another_number_of_workers(workers):
    whole = drawn(loader_of(0))
    for at in (5, len(whole)) if workers else range(len(whole) + 1):
        loader = loader_of(0)
        batches = iter(loader)
        for _ in range(at):
            next(batches)
        state = json.loads(json.dumps(loader.state_dict()))
        assert len(json.dumps(state)) < 1024
        again = loader_of(workers)
        again.load_state_dict(state)
        assert drawn(again) == whole[at:], at
        again.close()
        loader.close()


def test_one_shard_is_the_dataset_as_it_is():
    class Plain(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(7))

        def __len__(self):
            return 7

    loader = stoker.DataLoader(Plain(), batch_size=3)
    assert [batch.tolist() for batch in loader] == [[0, 1, 2], [3, 4, 5], [6]] and len(loader) == 3
    assert [int(sample) for sample in stoker.DataLoader(Plain(), batch_size=None)] == list(range(7))
    with pytest.warns(UserWarning, match="nothing to do"):
        stoker.DataLoader(Plain(), num_workers=2)
    assert "virtual shard" in str(loader.explain())


def test_a_feed_group_that_does_not_serve_it_is_named_once(monkeypatch):
    monkeypatch.setenv("STOKER_FEED", "127.0.0.1:9")
    with pytest.warns(UserWarning, match="feed group") as caught:
        loader = stoker.DataLoader(Uneven(), batch_size=2)
        assert len(list(loader)) == len(list(loader)) > 0
    assert len(caught) == 1 and caught[0].filename == __file__
    assert "not by the feed group" in str(loader.explain())


def test_a_killed_worker_is_replaced_and_its_shards_replayed():
    loader = loader_of(1, Slow(), prefetch_factor=1)
    batches = iter(loader)
    got = [next(batches)]
    os.kill(int(got[0][2][0]), signal.SIGKILL)
    got += list(batches)
    assert drawn(got) == drawn(loader_of(0, Slow()))
    loader.close()


@pytest.mark.parametrize("workers", [0, 1])
def test_an_exception_comes_with_its_place(workers):
    loader = loader_of(workers, Uneven(fail_at=(1, 4)))
    batches = iter(loader)
    for _ in range(7):  # the third batch of shard 1 is the eighth
        next(batches)
    with pytest.raises(KeyError, match="no 4") as caught:
        next(batches)
    if workers == 0:
        assert caught.value.__notes__ == ["stoker: virtual shard 1, sample 4"]
    assert workers == 0 or "in worker process 0 at virtual shard 1, sample 4, epoch 0 while iterating the dataset. KeyError" in str(caught.value)
    loader.close()


class Interrupted(torch.utils.data.IterableDataset):
    """As if Ctrl-C were pressed at its fourth sample, the first time."""

    pressed = False

    def __iter__(self):
        for i in range(8):
            if i == 3 and not Interrupted.pressed:
                Interrupted.pressed = True
                raise KeyboardInterrupt
            yield i


def test_after_ctrl_c_the_batch_is_still_to_come():
    batches = iter(stoker.DataLoader(Interrupted(), batch_size=2))
    assert next(batches).tolist() == [0, 1]
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    assert [batch.tolist() for batch in batches] == [[2, 3], [4, 5], [6, 7]]


class Opens(Uneven):
    """Shard 1 fails before it gives anything."""

    def __iter__(self):
        if torch.utils.data.get_worker_info().id == 1:
            raise KeyError("no 4")
        return super().__iter__()


def all_and_errors(loader):
    batches, got = iter(loader), []
    while len(got) < 40:
        try:
            got.append(next(batches)[0].tolist())
        except StopIteration:
            return got
        except KeyError as error:
            assert "no " in str(error)
            got.append("no 4")
    raise AssertionError(f"no end: {got}")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("dataset, at", [(Uneven((1, 4)), 2), (Uneven((1, 3)), 1), (Opens(), 0)], ids=["first of a batch", "second", "iter"])
def test_a_shard_that_raises_says_so_once_and_has_ended_there(workers, dataset, at):
    whole = numbers(loader_of(0))
    failing = [batch for batch in whole if batch[0] // 1000 == 1][at:]
    expected = ["no 4" if batch == failing[0] else batch for batch in whole if batch not in failing[1:]]
    loader = loader_of(workers, dataset, persistent_workers=workers > 0)
    assert [all_and_errors(loader) for _ in range(2)] == [expected] * 2
    loader.close()
    loader = loader_of(0, dataset)
    batches = iter(loader)
    for _ in expected[: expected.index("no 4")]:
        next(batches)
    state = loader.state_dict()
    with pytest.raises(KeyError):
        next(batches)
    for after in (state, loader.state_dict()):  # nothing was handed over since
        loader.load_state_dict(after)
        assert all_and_errors(loader) == expected[expected.index("no 4") :]


@pytest.mark.parametrize("workers", [0, 1])
def test_what_cannot_be_collated_costs_its_batch_alone(workers):
    def collate(rows):
        if rows[0][0] == 1002:
            raise KeyError("no 4")
        return torch.utils.data.default_collate(rows)

    whole = numbers(loader_of(0))
    loader = loader_of(workers, collate_fn=collate)
    assert all_and_errors(loader) == ["no 4" if batch[0] == 1002 else batch for batch in whole]
    loader.close()


def test_what_torch_refuses():
    for arguments in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]], "batch_size": 1}):
        with pytest.raises(ValueError, match="IterableDataset"):
            loader_of(0, **arguments)
    with pytest.raises(ValueError, match="virtual_shards"):
        loader_of(0, virtual_shards=0)
    assert loader_of(0).state_dict()["batches"] == 0
    loader = loader_of(0)
    next(iter(loader))
    with pytest.raises(ValueError, match="virtual_shards is 2, was 3"):
        loader_of(0, virtual_shards=2).load_state_dict(loader.state_dict())


def test_positions_stay_apart():
    assert iterable.position_of(3, 4095, (1 << 36) - 1) < iterable.position_of(4, 0, 0) < 1 << 63


def test_workers_persist_on_wish_and_are_measured(monkeypatch, tmp_path):
    monkeypatch.setenv("STOKER_TELEMETRY_DIR", str(tmp_path))

    def workers_of(loader):
        return {pid for batch in loader for pid in batch[2].tolist()}

    loader = loader_of(2, Slow(), persistent_workers=True)
    first, second = workers_of(loader), workers_of(loader)
    assert len(first) == 2 and first == second
    stats = loader.stats()
    loader.close()
    (line,) = [json.loads(text) for path in tmp_path.iterdir() for text in path.read_text().splitlines()[-1:]]
    assert stats.samples == line["samples"] == 2 * 27 and line["epochs"] == 2 and line["data_cpu_s"] > 0
    with pytest.raises(ProcessLookupError):
        os.kill(first.pop(), 0)

    changing = loader_of(2, Slow())
    assert workers_of(changing).isdisjoint(workers_of(changing))
    changing.close()
