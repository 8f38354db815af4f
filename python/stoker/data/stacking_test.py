# SPDX-License-Identifier: Apache-2.0
"""Batches that are stacked where they travel have the bytes of those that are not, and hold nobody else's memory."""

import collections
import collections.abc
import os
import sys
import threading
import typing

import numpy
import pytest

from stoker._native import block_hash
from stoker.data import stacking, units
from stoker.data import worker as wire
from stoker.data.collate import numpy_collate
from stoker.data.worker_test import parents  # noqa: F401  (a fixture)

torch = pytest.importorskip("torch")

COUNT = 4
SAMPLES = {
    "planes": lambda i: (torch.full((3, 90, 90), float(i)), i),
    "one plane": lambda i: torch.full((1, 200, 200), i, dtype=torch.uint8),
    "one line": lambda i: torch.full((3, 1, 30000), i, dtype=torch.int16),
    "one pixel": lambda i: torch.full((70000, 1, 1), float(i)),
    "a vector": lambda i: torch.full((70001,), i, dtype=torch.bfloat16),
    "numbers": lambda i: (i, float(i), torch.tensor(i)),
    "channels last": lambda i: torch.full((90, 90, 3), float(i)).permute(2, 0, 1),
    "a view with steps": lambda i: torch.full((90, 90, 6), float(i))[:, :, ::2],
    "big and small": lambda i: {"a": torch.full((200, 200), i % 2 == 0), "b": i, "c": torch.full((300, 300), float(i)), "d": torch.zeros(3)},
    "arrays": lambda i: (numpy.full((3, 100, 100), i, numpy.uint16), numpy.full(30000, i)),
    "arrays of columns": lambda i: numpy.asfortranarray(numpy.full((200, 300), float(i))),
    "gradients": lambda i: torch.full((200, 200), float(i), requires_grad=True),
    "complex": lambda i: torch.full((100, 100), complex(i, 1)).conj(),
    "nothing": lambda i: torch.zeros(0, 7),
    "big-endian": lambda i: numpy.full((100, 100), i, ">f4"),
    "label first": lambda i: (i, torch.full((3, 90, 90), float(i)), torch.full((70000,), i)),
    "views between": lambda i: (numpy.full((200, 200), i)[::2], numpy.full(20000, i), numpy.full((300, 100), i)),
    "one twice": lambda i: [torch.full((200, 200), float(i))] * 2,
}


class Made:
    def __len__(self):
        return 1000

    def __getitem__(self, item):
        kind, i = divmod(item, 10)
        return list(SAMPLES.values())[kind](i)


# torch's default_collate takes no arrays of another byte order, numpy_collate no tensors.
OURS = ("big-endian", "arrays", "arrays of columns", "views between")


def written(unit, size: int = 0) -> bytes:
    memory = bytearray(b"\xff" * (size or unit.size))
    unit.write_to(memoryview(memory))
    return bytes(memory[: unit.size])


@pytest.mark.parametrize("collate", [torch.utils.data.default_collate, numpy_collate])
def test_the_same_bytes_whatever_slot_there_is(collate, parents):  # noqa: F811
    dataset = Made()
    parent = parents(dataset, collate)
    parent.read()
    for number, kind in enumerate(SAMPLES):
        if kind not in OURS if collate is numpy_collate else kind == "big-endian":
            continue
        items = [10 * number + i for i in range(COUNT)]
        whole = written(units.encode(collate([dataset[item] for item in items])))
        for slot, size in enumerate((len(whole), 4 * len(whole), max(64, len(whole) - 100), max(64, len(whole) // 2), 64), 100 * number):
            parent.slot(slot, size)
            parent.slots[slot][:] = b"\xff" * size
            parent.ask(slot, items, slot)
            frame, last = parent.read(), slot
            if size < len(whole):
                assert frame.type == wire.NEED and frame.a == len(whole), kind
                parent.slots[slot][:] = b"\xff" * size  # it belongs to others now
                parent.send(wire.SLOT_DROP, a=slot)
                last = slot + 50
                parent.slot(last, len(whole) + 7)
                parent.send(wire.GRANT, 1, slot, b=last)
                frame = parent.read()
            assert frame.type == wire.DONE, (kind, frame.payload)
            assert (frame.a, frame.c) == (len(whole), block_hash(whole)), kind
            assert parent.slots[last][: len(whole)] == whole, kind


def address(array) -> int:
    return array.__array_interface__["data"][0] if isinstance(array, numpy.ndarray) else array.data_ptr()


def test_what_is_stacked_lies_in_the_slot_and_stays_there():
    slot = memoryview(bytearray(1 << 20))
    begin = address(numpy.frombuffer(slot, numpy.uint8))
    stacking.offer(slot)
    with stacking.placed([]):
        batch = [stacking.tensors(torch, [torch.full((20000,), float(i)) for i in range(2)]), numpy_collate([numpy.arange(9000)] * 2)]
        small = numpy_collate([numpy.arange(3)] * 2)
    assert [address(one) - begin for one in batch] == [64, 160064]
    assert not 0 <= address(small) - begin < 1 << 20
    unit = units.encode([*batch, small])
    unit.write_to(slot)
    assert address(batch[0]) - begin == 64 and batch[0][1, 0] == 1
    again = units.decode(slot)
    assert torch.equal(again[0], batch[0]) and numpy.array_equal(again[1], batch[1]) and numpy.array_equal(again[2], small)
    assert bytes(slot[: unit.size]) == written(units.encode([batch[0].clone(), batch[1].copy(), small]))
    stacking.offer(None)


@pytest.mark.parametrize("order", [(1, 0), (0,), (1,), (0, 0, 1)])
def test_what_lies_in_another_place_is_moved(order):
    slot = memoryview(bytearray(1 << 20))
    stacking.offer(slot)
    with stacking.placed([]):
        batch = [numpy_collate([numpy.full(9000 + n, n)] * 2) for n in range(2)]
    copies = [one.copy() for one in batch]
    unit = units.encode([batch[n] for n in order])
    unit.write_to(slot)
    assert bytes(slot[: unit.size]) == written(units.encode([copies[n] for n in order]))
    stacking.offer(None)


def test_only_the_thread_that_collates_gets_memory_of_the_slot():
    slot = memoryview(bytearray(1 << 20))
    begin, found = address(numpy.frombuffer(slot, numpy.uint8)), []
    stacking.offer(slot)
    rows = [numpy.zeros(30000)] * 2

    def look():
        found.append(0 <= address(stacking.arrays(rows)) - begin < 1 << 20)

    look()
    with stacking.placed([]):
        other = threading.Thread(target=look)
        other.start()
        other.join()
        look()
    look()
    assert found == [False, False, True, False]
    stacking.offer(None)


def test_small_ones_before_and_others_between_move_nothing():
    slot = memoryview(bytearray(1 << 20))
    begin = address(numpy.frombuffer(slot, numpy.uint8))
    stacking.offer(slot)
    with stacking.placed([]):
        batch = numpy_collate([(i, numpy.full((200, 200), i)[::2], numpy.full(20000, i, numpy.int8)) for i in range(4)])
    small, steps, last = batch
    unit = units.encode(batch)
    copies = written(units.encode([one.copy() for one in batch]))
    unit.write_to(slot)
    assert bytes(slot[: unit.size]) == copies
    assert address(last) - begin == 64 + steps.nbytes and numpy.array_equal(units.decode(slot)[2], last)
    stacking.offer(None)


def test_a_slot_that_is_closed_lives_as_long_as_what_was_stacked_there():
    descriptor = os.memfd_create("slot")
    os.ftruncate(descriptor, 1 << 20)
    slot = wire.SlotMemory(descriptor, 1 << 20)

    def mapped():
        with open("/proc/self/maps", encoding="ascii") as maps:
            return sum("memfd:slot " in line for line in maps)

    stacking.offer(slot.view)
    with stacking.placed([]):
        array = numpy_collate([numpy.arange(9000)] * 2)
    stacking.offer(None)
    slot.close()
    os.close(descriptor)
    assert mapped() == 1 and array[1, 8999] == 8999
    del array
    assert mapped() == 0


class Keeps:
    """Stacks by itself, and keeps what it stacked."""

    kept = []

    def __len__(self):
        return 100

    def __getitem__(self, i):
        self.kept.append(torch.utils.data.default_collate([torch.full((200, 200), float(i))] * 2))
        return torch.stack([one.sum() for one in self.kept]), torch.full((200, 200), float(i))


def test_what_a_dataset_stacks_is_its_own(parents):  # noqa: F811
    parent = parents(Keeps())
    parent.read()
    parent.slot(1, 1 << 20)
    for number in range(3):
        parent.ask(number, [5 + number], 1)
        sums, pictures = parent.batch_of(parent.read(), 1)
        assert sums.tolist() == [[80000.0 * (5 + k) for k in range(number + 1)]] and pictures[0, 0, 0] == 5 + number


class LooksUp:
    """Has a table that it takes from a loader of its own, in this process."""

    table = None

    def __len__(self):
        return 100

    def __getitem__(self, i):
        import stoker

        if self.table is None:
            rows = stoker.data.arrays(numpy.arange(4 * 9000).reshape(4, 9000))
            self.table = [next(iter(rows.map(abs).batch(4).numpy(workers=0))), next(iter(stoker.DataLoader(rows, batch_size=4)))]
        return numpy.full(20000, 9), numpy.array([int(one[row, 0]) for one in self.table for row in range(4)])


def test_batches_of_loaders_within_a_dataset_are_its_own(parents):  # noqa: F811
    parent = parents(LooksUp())
    parent.read()
    parent.slot(1, 1 << 20)
    for number in range(3):
        parent.ask(number, [number, number + 1], 1)
        _, found = parent.batch_of(parent.read(), 1)
        assert found.tolist() == [[0, 9000, 18000, 27000] * 2] * 2


KEPT = []  # in a worker: what its code was shown, or stacked itself, while a batch was collated


def keep(value):
    if isinstance(value, collections.abc.Mapping):
        keep(value["x"])
    elif isinstance(value, torch.Tensor) and value.ndim == 3:  # no sample's own
        KEPT.append(value)
    return value


class Updates(dict):
    def update(self, other):
        keep(other)
        super().update(other)


class UpdatesUserDict(collections.UserDict):
    def __setitem__(self, key, value):
        keep(value)
        super().__setitem__(key, value)


class IsMade(collections.abc.Mapping):
    def __init__(self, members):
        self.members = members
        keep(self)

    def __getitem__(self, key):
        return self.members[key]

    def __iter__(self):
        return iter(self.members)

    def __len__(self):
        return len(self.members)


class IsCopied(dict):
    def __copy__(self):
        return Updates(self)


class Stacks(dict):
    def __getitem__(self, key):
        KEPT.append(torch.utils.data.default_collate([dict.__getitem__(self, key)] * 2)[0])
        return dict.__getitem__(self, key)


class IsPickled(dict):
    def __reduce_ex__(self, protocol):
        keep(self)
        return IsPickled, (list(self.items()),)


class SetsItems(list):
    def __setitem__(self, place, value):
        super().__setitem__(place, keep(value))


class IsMadeSequence(collections.abc.Sequence):
    def __init__(self, values):
        self.values = [keep(value) for value in values]

    def __getitem__(self, place):
        return self.values[place]

    def __len__(self):
        return len(self.values)


class IsMadeTuple(collections.namedtuple("_Pair", "x n")):
    def __new__(cls, x, n):
        return super().__new__(cls, keep(x), n)


class Pair(typing.NamedTuple):
    x: object
    n: int

    def first(self):
        return self.x


Changed = collections.namedtuple("Changed", "x n")
Changed.__init__ = lambda self, x, n: (keep(x), None)[1]
ChangedNew = collections.namedtuple("ChangedNew", "x n")
ChangedNew.__new__ = lambda cls, x, n: tuple.__new__(cls, (keep(x), n))
ChangedArguments = collections.namedtuple("ChangedArguments", "x n")
ChangedArguments.__getnewargs__ = lambda self: (keep(self.x), self.n)


class Subclass(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        made = super().__torch_function__(func, types, args, kwargs)
        if func is torch.stack:
            KEPT.append(torch.utils.data.default_collate([args[0][0].as_subclass(torch.Tensor)] * 2)[0])
        return made


class Key(str):
    row = None

    def __hash__(self):
        if self.row is not None:
            KEPT.append(torch.utils.data.default_collate([self.row] * 2)[0])
        return super().__hash__()


def with_key(row):
    key = Key("x")
    made = {key: row}
    key.row = row
    return made


def keep_dicts(batch, *, collate_fn_map=None):
    from torch.utils.data._utils.collate import collate

    return {key: keep(collate([one[key] for one in batch], collate_fn_map=collate_fn_map)) for key in batch[0]}


def keep_tensors(batch, *, collate_fn_map=None):
    return keep(torch.stack(batch))


def registered(kind, function):
    def begin(worker):
        from torch.utils.data._utils.collate import default_collate_fn_map

        default_collate_fn_map[kind] = function

    return begin


def all_patched(worker):
    from torch.utils.data._utils import collate

    theirs = collate.collate
    collate.collate = lambda *arguments, **more: keep(theirs(*arguments, **more))


KEEPERS = {
    "update": lambda x: Updates(x=x),
    "UserDict": lambda x: UpdatesUserDict(x=x),
    "__init__": lambda x: IsMade({"x": x}),
    "__copy__": lambda x: IsCopied(x=x),
    "__getitem__": lambda x: Stacks(x=x),
    "__reduce_ex__": lambda x: IsPickled(x=x),
    "within": lambda x: [(1, {"a": Updates(x=x)})],
    "__setitem__": lambda x: SetsItems([x]),
    "sequence": lambda x: IsMadeSequence([x]),
    "__new__": lambda x: IsMadeTuple(x, 1),
    "changed": lambda x: Changed(x, 1),
    "changed __new__": lambda x: ChangedNew(x, 1),
    "changed __getnewargs__": lambda x: ChangedArguments(x, 1),
    "tensor": lambda x: x.as_subclass(Subclass),
    "key": with_key,
    "registered": lambda x: {"x": x},
    "registered for tensors": lambda x: {"x": x},
    "patched": lambda x: x,
    "a batch": lambda x: x,
}
BEGINS = {"registered": registered(dict, keep_dicts), "registered for tensors": registered(torch.Tensor, keep_tensors), "patched": all_patched}


class Batch(list):
    def __iter__(self):
        KEPT.append(torch.utils.data.default_collate([self[0]["x"]] * 2)[0])
        return super().__iter__()


class KeptByItsClasses:
    def __init__(self, kind):
        self.kind = kind

    def __len__(self):
        return 100

    def __getitem__(self, i):
        seen = torch.zeros(50)
        for one in KEPT:
            seen[int(one.flatten()[0])] = 1
        return KEEPERS[self.kind](torch.full((200, 200), float(i))), seen


class Many(KeptByItsClasses):
    def __getitems__(self, items):
        return Batch([{"x": x, "seen": seen} for x, seen in map(self.__getitem__, items)])


@pytest.mark.parametrize("kind", KEEPERS)
def test_what_classes_of_the_user_keep_of_a_batch_is_theirs(kind, parents):  # noqa: F811
    dataset = Many(kind) if kind == "a batch" else KeptByItsClasses(kind)
    parent = parents(dataset, init=BEGINS.get(kind))
    parent.read()
    parent.slot(1, 1 << 20)
    for number in range(4):
        parent.ask(number, [5 + number], 1)
        batch = parent.batch_of(parent.read(), 1)
        seen = batch["seen"] if kind == "a batch" else batch[1]
    assert set(torch.nonzero(seen[0]).flatten().tolist()) - {8} == {5, 6, 7}


def keep_all(batch):
    return [keep(torch.utils.data.default_collate([one[0] for one in batch])), batch[0][1]]


def test_what_a_collate_fn_keeps_is_its_own(parents):  # noqa: F811
    parent = parents(KeptByItsClasses("patched"), keep_all)
    parent.read()
    parent.slot(1, 1 << 20)
    for number in range(4):
        parent.ask(number, [5 + number], 1)
        _, seen = parent.batch_of(parent.read(), 1)
    assert torch.nonzero(seen).flatten().tolist() == [5, 6, 7]


def patched_collate(batch):
    return keep_all(batch)


def test_a_default_collate_that_is_patched_is_not_torchs(monkeypatch):
    from stoker.data.samples import is_default_collate

    assert is_default_collate(torch.utils.data.default_collate)
    monkeypatch.setattr(torch.utils.data, "default_collate", patched_collate)
    assert not is_default_collate(patched_collate)


@pytest.mark.parametrize("kind", ["array", "dict", "tuple", "namedtuple", "NamedTuple", "deep"])
def test_batches_of_plain_containers_are_stacked_in_their_slot(kind):
    namedtuple = collections.namedtuple("namedtuple", "x n", defaults=[0])
    make = {
        "array": lambda x: x,
        "dict": lambda x: {"x": x, "label": 1, 3: "name"},
        "tuple": lambda x: (x, numpy.float32(2), True),
        "namedtuple": lambda x: namedtuple(x),
        "NamedTuple": lambda x: Pair(x, 3),
        "deep": lambda x: [{"a": ({"b": [x]}, b"bytes")}],
    }[kind]
    slot = memoryview(bytearray(1 << 20))
    begin = address(numpy.frombuffer(slot, numpy.uint8))
    stacking.offer(slot)
    rows = [make(numpy.full(9000, n)) for n in range(2)]
    with stacking.placed(rows):
        found = numpy_collate(rows)
    while not isinstance(found, numpy.ndarray):
        found = next(iter(found.values())) if isinstance(found, dict) else found[0]
    assert address(found) - begin == 64
    stacking.offer(None)


def test_numbers_in_containers_are_not_looked_at_one_by_one():
    class Number(int):
        pass

    rows, called = [{"ids": [float(n) for n in range(1000)], "n": (numpy.float32(1), *range(1000))} for _ in range(4)], []
    sys.setprofile(lambda frame, event, what: called.append(what) if event == "call" else None)
    try:
        plain = stacking.call_nobody(rows)
    finally:
        sys.setprofile(None)
    assert plain and len(called) < 200, len(called)
    for one in (Number(1), [Number(1)], Updates(x=1)):
        assert not stacking.call_nobody([*rows, {"ids": [*range(1000), one]}])


def one_more(batch, *, collate_fn_map=None):
    return torch.stack(batch) + 1


class Registers:
    """As a module does when it is imported, in a worker before the plan is opened."""

    def __len__(self):
        return 100

    def __getitem__(self, i):
        return torch.full((200, 200), float(i))

    def __getstate__(self):
        return {"function": one_more}

    def __setstate__(self, state):
        registered(torch.Tensor, state["function"])(None)


def test_a_rule_of_the_users_for_tensors_is_obeyed(parents):  # noqa: F811
    parent = parents(Registers())
    parent.read()
    parent.slot(1, 1 << 20)
    parent.ask(0, [5], 1)
    assert parent.batch_of(parent.read(), 1)[0, 0, 0] == 6
