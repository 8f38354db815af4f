# SPDX-License-Identifier: Apache-2.0
"""stoker.DataLoader beside torch's: same batches, and the promises that torch does not make."""

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")

import numpy
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import DistributedSampler, RandomSampler, WeightedRandomSampler

import stoker
from stoker.data import loader_data_test as data

WORKERS = [0, 1]


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def children(of="self"):
    """Processes that are ours, or another's."""
    found = []
    for task in os.listdir(f"/proc/{of}/task"):
        with open(f"/proc/{of}/task/{task}/children") as file:
            found += file.read().split()
    return [int(pid) for pid in found]


def items_of(batches):
    return [i for batch in batches for i in batch[1].tolist()]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(
    "arguments",
    [
        {"batch_size": 5},
        {"batch_size": 5, "drop_last": True},
        {"batch_size": 30},
        {"batch_size": 4, "sampler": range(22, 3, -2)},
        {"batch_size": 4, "sampler": [22, 3, 3, 3, 0], "drop_last": True},
        {"batch_sampler": [[0, 1], [5], [22, 3, 4]]},
        {"batch_size": None},
        {"batch_size": None, "sampler": [4, 2]},
        {"batch_size": 3, "collate_fn": data.reversed_collate, "dataset": data.Numbers(23)},
        {"batch_size": 3, "dataset": data.Many(7)},
    ],
    ids=lambda arguments: ",".join(map(str, arguments)),
)
def test_batches_are_torchs(arguments, workers):
    arguments = dict(arguments)
    dataset = arguments.pop("dataset", data.Mixed(23))
    expected = list(TorchLoader(dataset, **arguments))
    ours = stoker.DataLoader(dataset, num_workers=workers, **arguments)
    got = list(ours)
    assert len(ours) == len(expected) == len(got)
    assert all(map(same, expected, got))


@pytest.mark.parametrize("workers", WORKERS)
def test_shuffle_is_a_new_permutation_each_epoch_whatever_the_workers(workers):
    torch.manual_seed(11)
    loader = stoker.DataLoader(data.Numbers(50), batch_size=8, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    orders = [items_of(loader) for _ in range(3)]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert len(set(map(tuple, orders))) == 3
    torch.manual_seed(11)
    again = stoker.DataLoader(data.Numbers(50), batch_size=8, shuffle=True)
    assert [items_of(again) for _ in range(3)][0] == orders[0]


def test_generators_end_where_torch_leaves_them():
    for generator in (None, torch.Generator()):
        states = []
        for kind in (TorchLoader, stoker.DataLoader):
            (torch if generator is None else generator).manual_seed(5)
            loader = kind(data.Numbers(20), batch_size=3, shuffle=True, generator=generator)
            for _ in range(2):
                list(loader)
            states.append(torch.get_rng_state() if generator is None else generator.get_state())
        assert torch.equal(*states)


def test_seeding_again_gives_the_same_epoch_again():
    loader = stoker.DataLoader(data.Draws(20), batch_size=4, shuffle=True)
    torch.manual_seed(1)
    first = list(loader)
    second = list(loader)
    torch.manual_seed(1)
    assert all(map(same, first, list(loader)))
    torch.manual_seed(2)
    assert not all(map(same, first, list(loader)))
    assert not all(map(same, first, second))


def test_draws_depend_on_the_position_alone_and_never_repeat():  # R03
    drawn = []
    for workers in (0, 1, 2):
        torch.manual_seed(3)
        loader = stoker.DataLoader(data.Draws(24), batch_size=4, num_workers=workers, persistent_workers=workers > 0)
        drawn.append([[torch.stack(batch).tolist() for batch in loader] for _ in range(2)])
        loader.close()
    assert drawn[0] == drawn[1] == drawn[2]
    every = [number for epoch in drawn[0] for batch in epoch for kind in batch[1:] for number in kind]
    assert len(set(every)) == len(every)


def test_samples_made_here_leave_the_trainers_generators_alone():
    torch.manual_seed(1)
    loader = iter(stoker.DataLoader(data.Draws(8), batch_size=4))
    before = torch.get_rng_state()
    next(loader)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("workers", WORKERS)
def test_a_distributed_sampler_is_taken_literally(workers):  # R15: as torch pads
    for rank in range(2):
        sampler = DistributedSampler(data.Numbers(11), num_replicas=2, rank=rank, shuffle=True, seed=4)
        ours = stoker.DataLoader(data.Numbers(11), batch_size=2, sampler=sampler, num_workers=workers)
        theirs = TorchLoader(data.Numbers(11), batch_size=2, sampler=sampler)
        for epoch in range(2):
            sampler.set_epoch(epoch)
            assert items_of(ours) == items_of(theirs)


def test_break_begins_a_new_epoch_and_two_iterators_are_two_cursors():
    loader = stoker.DataLoader(data.Numbers(10), batch_size=2)
    for _ in loader:
        break
    assert items_of(loader) == list(range(10))
    a, b = iter(loader), iter(loader)
    assert [next(a)[1][0].item(), next(a)[1][0].item(), next(b)[1][0].item(), next(a)[1][0].item()] == [0, 2, 0, 4]


def test_samplers_are_pulled_no_further_than_the_window():
    pulled = []

    def endless():
        i = 0
        while True:
            pulled.append(i)
            yield i % 10
            i += 1

    loader = stoker.DataLoader(data.Numbers(10), batch_size=2, sampler=endless())
    iterator = iter(loader)
    next(iterator)
    assert len(pulled) <= 4
    with pytest.raises(TypeError):
        len(loader)


def test_numbers_that_are_none_are_refused():
    """NaN compares with nothing: a look-ahead of NaN batches was an epoch without any."""
    for arguments, kind, words in [
        ({"num_workers": 2.5}, TypeError, "number of processes, not 2.5"),
        ({"num_workers": True}, TypeError, "number of processes, not True"),
        ({"num_workers": 1, "prefetch_factor": float("nan")}, TypeError, "number of batches, not nan"),
        ({"num_workers": 1, "prefetch_factor": "2"}, TypeError, "number of batches, not '2'"),
        ({"num_workers": 1, "timeout": float("nan")}, ValueError, "non-negative"),
        ({"num_workers": 1, "timeout": float("inf")}, ValueError, "finite"),
        ({"num_workers": 1, "timeout": True}, TypeError, "number of seconds"),
    ]:
        with pytest.raises(kind, match=words):
            stoker.DataLoader([1, 2], **arguments)


def test_refusals_say_why():
    numbers = data.Numbers(4)
    for arguments, kind, words in [
        ({"dataset": iter(range(3))}, TypeError, "no __getitem__"),
        ({"virtual_shards": 2}, ValueError, "iterable datasets"),
        ({"num_workers": 1, "multiprocessing_context": "fork"}, ValueError, "new processes"),
        ({"on_error": "ignore"}, ValueError, "skip"),
        ({"batch_size": 0}, ValueError, "positive"),
        ({"batch_size": None, "drop_last": True}, ValueError, "auto-batching"),
        ({"shuffle": True, "sampler": [1]}, ValueError, "mutually exclusive"),
        ({"batch_sampler": [[1]], "batch_size": 2}, ValueError, "mutually exclusive"),
        ({"prefetch_factor": 2}, ValueError, "multiprocessing"),
        ({"persistent_workers": True}, ValueError, "num_workers > 0"),
        ({"num_workers": -1}, ValueError, "non-negative"),
        ({"timeout": -1}, ValueError, "non-negative"),
        ({"generator": 5}, TypeError, "torch.Generator"),
    ]:
        with pytest.raises(kind, match=words):
            stoker.DataLoader(**{"dataset": numbers, **arguments})
    with pytest.raises(ValueError, match="num_workers > 0"):
        stoker.DataLoader(numbers, timeout=3)
    with pytest.raises(NotImplementedError, match="native plans"):
        stoker.DataLoader(numbers, on_error="skip")
    loader = stoker.DataLoader(numbers)
    with pytest.raises(ValueError, match="should not be set"):
        loader.batch_size = 3


def test_pinning_without_an_accelerator_warns_and_goes_on():
    if torch.accelerator.is_available():
        pytest.skip("there is one")
    with pytest.warns(UserWarning, match="no accelerator"):
        assert len(list(stoker.DataLoader(data.Numbers(4), pin_memory=True))) == 4


# ---- state


def loaders(order, workers=0):
    def make():
        torch.manual_seed(9)
        arguments = {"batch_size": 3, "num_workers": workers}
        if order == "shuffle":
            arguments["shuffle"] = True
        elif order == "sampler":
            arguments["sampler"] = RandomSampler(data.Draws(20), generator=torch.Generator().manual_seed(2))
        return stoker.DataLoader(data.Draws(20), **arguments)

    return make


@pytest.mark.parametrize("order", ["sequential", "shuffle", "sampler"])
def test_resume_at_every_batch(order):  # R51, R58
    make = loaders(order)
    unbroken = list(make())
    for stop in range(len(unbroken) + 1):
        loader = make()
        iterator = iter(loader)
        got = [next(iterator) for _ in range(stop)]
        state = json.loads(json.dumps(loader.state_dict()))
        assert len(json.dumps(state)) < 1024
        torch.manual_seed(1234)  # nothing of the process's own randomness matters
        resumed = make()
        resumed.load_state_dict(state)
        assert all(map(same, unbroken, got + list(resumed)))


@pytest.mark.parametrize("order", ["sequential", "shuffle", "sampler"])
def test_a_state_before_the_first_pass_is_where_it_begins(order):
    make = loaders(order)
    unbroken = list(make())
    loader = make()
    state = json.loads(json.dumps(loader.state_dict()))
    assert state == loader.state_dict() and state["batch"] == state["samples"] == 0
    assert all(map(same, unbroken, list(loader)))
    resumed = make()
    torch.manual_seed(1234)  # nothing of the process's own randomness matters
    resumed.load_state_dict(state)
    assert all(map(same, unbroken, list(resumed)))


def test_a_state_before_the_first_pass_costs_no_draw_and_a_new_seed_counts():
    torch.manual_seed(5)
    expected = torch.cat([batch[1] for batch in stoker.DataLoader(data.Numbers(20), batch_size=3, shuffle=True)])
    after = torch.rand(())
    torch.manual_seed(5)
    loader = stoker.DataLoader(data.Numbers(20), batch_size=3, shuffle=True)
    loader.state_dict()
    assert torch.equal(torch.cat([batch[1] for batch in loader]), expected) and torch.equal(torch.rand(()), after)
    torch.manual_seed(6)
    loader = stoker.DataLoader(data.Numbers(20), batch_size=3, shuffle=True)
    loader.state_dict()
    torch.manual_seed(5)
    assert torch.equal(torch.cat([batch[1] for batch in loader]), expected)


@pytest.mark.parametrize("kind", ["map", "iterable", "pipe"])
def test_a_missing_state_does_not_start_over_in_silence(kind):
    made = {
        "map": lambda: stoker.DataLoader(data.Numbers(6)),
        "iterable": lambda: stoker.DataLoader(data.Stream(6)),
        "pipe": lambda: stoker.data.range(6).batch(2).numpy(workers=0),
    }[kind]
    loader = made()
    for state, words in [
        (None, "None is no loader's state: is it missing in the checkpoint"),
        ({}, "missing in the checkpoint"),
        (json.dumps(loader.state_dict()), r"a text is no loader's state: json.loads\(\) it first"),
        ([1], "a loader's state is a dict, not list"),
    ]:
        with pytest.raises(ValueError, match=words):
            loader.load_state_dict(state)
    made().load_state_dict(loader.state_dict())


def test_resuming_again_and_again():  # R58
    make = loaders("shuffle")
    unbroken, got = list(make()), []
    state = make().state_dict()
    while len(got) < len(unbroken):
        loader = make()
        loader.load_state_dict(state)
        iterator = iter(loader)
        got.append(next(iterator))
        state = loader.state_dict()
    assert all(map(same, unbroken, got))


@pytest.mark.parametrize("workers", WORKERS)
def test_resume_between_epochs(workers):  # R56
    make = loaders("shuffle")
    unbroken_loader = make()
    unbroken = [list(unbroken_loader) for _ in range(4)]
    loader = make()
    got = [list(loader) for _ in range(2)]
    other = loaders("shuffle", workers)()
    torch.manual_seed(77)
    other.load_state_dict(loader.state_dict())
    got += [list(other) for _ in range(2)]
    for a, b in zip(unbroken, got, strict=True):
        assert all(map(same, a, b))


def test_a_state_of_another_loader_is_refused():
    state = {}
    loader = stoker.DataLoader(data.Numbers(20), batch_size=3)
    next(iter(loader))
    state = loader.state_dict()
    for other, words in [
        (stoker.DataLoader(data.Numbers(21), batch_size=3), "items is 21, was 20"),
        (stoker.DataLoader(data.Numbers(20), batch_size=4), "batch_size is 4, was 3"),
        (stoker.DataLoader(data.Numbers(20), batch_size=3, shuffle=True), "order"),
        (stoker.DataLoader(data.Draws(20), batch_size=3), "another plan.*their names and labels"),
        (stoker.DataLoader(data.Numbers(20), batch_size=3, version="2"), "another plan"),
    ]:
        with pytest.raises(ValueError, match=words):
            other.load_state_dict(state)


def test_a_sampler_that_gives_another_order_is_found_out():
    def make(seed):
        sampler = RandomSampler(data.Numbers(20), generator=torch.Generator().manual_seed(seed))
        return stoker.DataLoader(data.Numbers(20), batch_size=3, sampler=sampler)

    loader = make(1)
    iterator = iter(loader)
    next(iterator), next(iterator)
    other = make(2)
    other.load_state_dict(loader.state_dict())
    with pytest.raises(RuntimeError, match="another order"):
        iter(other)


# ---- errors


@pytest.mark.parametrize("workers", [1])
@pytest.mark.parametrize(
    "kind, raised, words",
    [
        ("value", ValueError, "five is bad"),
        ("key", KeyError, "five is bad"),
        ("os", OSError, "five is bad"),
        ("two", stoker.WorkerError, "TwoArguments: bad number 5"),
        ("http", stoker.WorkerError, "HTTP Error 404"),
        ("process", stoker.WorkerError, "exit status 3"),
        ("stop", stoker.WorkerError, "too early"),
        ("interrupt", stoker.WorkerError, "KeyboardInterrupt: five is bad"),
        ("leave", stoker.WorkerError, "SystemExit: five is bad"),
    ],
)
def test_errors_keep_class_and_text(kind, raised, words, workers):  # R04
    loader = stoker.DataLoader(data.Failing(9, kind), batch_size=3, num_workers=workers)
    iterator = iter(loader)
    assert next(iterator).tolist() == [0, 1, 2]
    with pytest.raises(raised) as caught:
        next(iterator)
    text = str(caught.value)
    assert words in text and "item 5" in text and "position 5" in text and "worker process 0" in text
    assert "Traceback" in text and "__getitem__" in text
    assert type(caught.value) is raised
    assert next(iterator).tolist() == [6, 7, 8]  # as with torch, the iterator lives on
    loader.close()


def test_an_error_may_hold_any_text():
    textless = [(f"textless{how}", f"its text cannot be had: {what}") for how, what in (("", "Attribute"), (" interrupt", "KeyboardI"), (" leave", "SystemE"))]
    for kind, words in (("surrogate", "caf\\udce9.jpg"), ("long", "x" * 1000), *textless):
        iterator = iter(stoker.DataLoader(data.Failing(6, kind), batch_size=6, num_workers=1))
        with pytest.raises((ValueError, stoker.WorkerError)) as caught:
            next(iterator)
        assert words in str(caught.value) and len(str(caught.value)) < 200_000


class Leaves(Exception):
    def __init__(self, *_):
        raise SystemExit("of its constructor")


def test_an_error_whose_class_cannot_be_made_again_is_a_worker_error():
    from stoker.data.errors import describe, exception_from

    error = exception_from(describe(Leaves.__new__(Leaves, "why"), position=5))
    assert type(error) is stoker.WorkerError and "Leaves: why" in str(error) and error.position == 5


@pytest.mark.parametrize("workers", WORKERS)
def test_a_sampler_that_breaks_costs_no_batch(workers):
    class Breaking:
        def __iter__(self):
            yield from range(6)
            raise KeyError("the sampler broke")

    iterator = iter(stoker.DataLoader(data.Numbers(9), batch_size=1, sampler=Breaking(), num_workers=workers))
    got = [next(iterator)[1].item() for _ in range(6)]
    for _ in range(2):
        with pytest.raises(KeyError, match="the sampler broke"):
            next(iterator)
    assert got == list(range(6))
    state = iterator.state_dict()
    assert (state["batch"], state["samples"], state["finished"]) == (6, 6, False)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(
    "sampler, kind, words",
    [
        ([[0, 1], [], [2]], ValueError, "a batch of no samples"),
        ([[0, 1], [2, 1 << 63]], IndexError, "gave 9223372036854775808: no such item among 9"),
        ([[0, 1], [2, "a"]], TypeError, "gave 'a'"),
        ([[0, 1], 2], TypeError, r"the batch sampler gave 2 \(int\), where a list of items is a batch"),
        ([[0, 1], None], TypeError, "the batch sampler gave None"),
    ],
)
def test_a_batch_that_cannot_be_made_costs_no_other(sampler, kind, words, workers):
    iterator = iter(stoker.DataLoader(data.Numbers(9), batch_sampler=sampler, num_workers=workers))
    assert next(iterator)[1].tolist() == [0, 1]
    with pytest.raises(kind, match=words):
        next(iterator)


@pytest.mark.parametrize("workers", WORKERS)
def test_a_tensor_of_one_item_is_a_batch(workers):
    batches = [torch.tensor([2, 3]), torch.tensor([1])]  # the last one is an index too
    got = stoker.DataLoader(data.Numbers(9), batch_sampler=batches, num_workers=workers)
    assert [batch[1].tolist() for batch in got] == [[2, 3], [1]]


def test_a_batch_that_cannot_be_read_here_is_passed_over():
    iterator = iter(stoker.DataLoader(data.Homeless(6), batch_size=2, num_workers=1, collate_fn=list))
    next(iterator)
    with pytest.raises(AttributeError, match="NoSuchPlace"):
        next(iterator)
    assert next(iterator) == [4, 5]


def test_a_dataset_whose_length_changes_is_refused():
    dataset = data.Numbers(4)
    loader = stoker.DataLoader(dataset)
    list(loader)
    dataset.count = 5
    with pytest.raises(RuntimeError, match="4 samples when this loader was made and has 5 now"):
        iter(loader)


@pytest.mark.parametrize("workers", WORKERS)
def test_threads_may_share_an_iterator(workers):
    iterator = iter(stoker.DataLoader(data.Numbers(200), batch_size=2, num_workers=workers))
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        shares = list(threads.map(lambda _: [batch[1].tolist() for batch in iterator], range(4)))
    assert sorted(i for share in shares for pair in share for i in pair) == list(range(200))


def test_stop_iteration_from_the_dataset_is_not_the_end_of_the_epoch():
    iterator = iter(stoker.DataLoader(data.Failing(9, "stop"), batch_size=3))
    next(iterator)
    with pytest.raises(stoker.WorkerError, match="StopIteration at position 5, item 5"):
        next(iterator)
    assert next(iterator).tolist() == [6, 7, 8]


def test_an_error_in_this_process_names_its_sample():
    iterator = iter(stoker.DataLoader(data.Failing(9, "key"), batch_size=3))
    next(iterator)
    with pytest.raises(KeyError) as caught:
        next(iterator)
    assert caught.value.__notes__ == ["stoker: position 5, item 5 of the dataset"]


def test_data_that_ends_every_worker_is_named():
    iterator = iter(stoker.DataLoader(data.Failing(9, "exit"), batch_size=3, num_workers=1))
    next(iterator)
    told = r"exit status 3, the 4th time in a row \(position 3, item 3.*first of the 3 samples \(positions 3–5\).*num_workers=0 shows which"
    with pytest.raises(stoker.WorkerError, match=told):
        next(iterator)
    iterator = iter(stoker.DataLoader(data.Failing(9, "exit"), batch_size=1, num_workers=1))
    with pytest.raises(stoker.WorkerError, match=r"position 5, item 5.*if that sample ends it, num_workers=0 shows where"):
        list(iterator)


def test_a_dataset_that_cannot_be_sent_is_refused_with_the_remedy():
    dataset = data.Numbers(3)
    dataset.lock = __import__("threading").Lock()
    with pytest.raises(TypeError, match="num_workers=0"):
        next(iter(stoker.DataLoader(dataset, num_workers=1)))
    assert children() == []


class _InterruptedOnce:
    """In the place of a method or an iterator: Ctrl-C comes at the first call."""

    def __init__(self, call):
        self._call, self._came = call, False

    def __call__(self, *arguments):
        if not self._came:
            self._came = True
            raise KeyboardInterrupt
        return self._call(*arguments)

    def __iter__(self):
        return self

    __next__ = __call__


@pytest.mark.parametrize("where", ["making", "order", "order behind a batch"])
def test_ctrl_c_costs_no_batch(where):
    loader = stoker.DataLoader(stoker.data.arrays(torch.arange(20).numpy()), batch_size=4, shuffle=True)
    torch.manual_seed(1)
    whole = [batch.tolist() for batch in loader]
    torch.manual_seed(1)
    got, interrupts = [], 0
    iterator = iter(loader)
    got.append(next(iterator).tolist())
    if where == "making":
        iterator._engine._assemble = _InterruptedOnce(iterator._engine._assemble)
    elif where == "order":
        iterator._asked.clear()
        iterator._batches = loader._batches(iterator._cursor)
        iterator._batches = _InterruptedOnce(iterator._batches.__next__)
    else:
        iterator._batches = _InterruptedOnce(iterator._batches.__next__)
    while True:
        try:
            got.append(next(iterator).tolist())
        except KeyboardInterrupt:
            interrupts += 1
        except StopIteration:
            break
    assert got == whole and interrupts == 1


def test_what_no_machine_has_is_refused():
    with pytest.raises(ValueError, match="at most 1024"):
        stoker.DataLoader(data.Numbers(3), num_workers=2**31)
    with pytest.raises(TypeError, match="seconds"):
        stoker.DataLoader(data.Numbers(3), timeout="a")
    loader = stoker.DataLoader(data.Numbers(3))
    for state in ([], "x", {"format": "stoker-cursor/1"}, {**loader.state_dict(), "batch": 4}, {**loader.state_dict(), "plan": 3}):
        with pytest.raises(ValueError, match="state"):
            loader.load_state_dict(state)
