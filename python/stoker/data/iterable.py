# SPDX-License-Identifier: Apache-2.0
"""torch's iterable datasets as a fixed number V of virtual shards, whatever the number of worker processes.

Batch k of shard v comes before batch k of shard v + 1 and before batch k + 1 of any; a shard that has ended, or has raised, is
passed over.
Shard v lives in worker v mod W. A worker holds each shard's iterator where it stands; asked for a batch elsewhere (after a
resume, or in the place of one that died) it iterates from the start and drops what comes before. docs/guide/sources.md is
what users may rely on. Confined, each class to one thread.
"""

import copy
import os
import sys
import time
import warnings
from collections import deque
from dataclasses import dataclass, field

import numpy

from stoker import _native
from stoker.data import plan as plans
from stoker.data import samples, seeding, units
from stoker.data.cursor import check_fields
from stoker.data.errors import exception_from
from stoker.data.explain import Explanation, counted
from stoker.data.kept_engine import SLICE_S, WINDOW_BYTES
from stoker.data.stages import Work

FORMAT = "stoker-iterable/1"
MOST_SHARDS = 4096
_SHARD_BITS, _SAMPLE_BITS = 12, 36  # a position: epoch, shard, number of the sample in it
_TOLD = 32  # ended shards that a state names


class End:
    """In the place of a batch: the shard has no more."""

    def __eq__(self, other):
        return type(other) is End


def position_of(epoch: int, shard: int, sample: int) -> int:
    return (epoch << (_SHARD_BITS + _SAMPLE_BITS)) | (shard << _SAMPLE_BITS) | sample


def _parts_of(position: int) -> tuple:
    shard_and_sample = position & ((1 << (_SHARD_BITS + _SAMPLE_BITS)) - 1)
    return position >> (_SHARD_BITS + _SAMPLE_BITS), shard_and_sample >> _SAMPLE_BITS, shard_and_sample & ((1 << _SAMPLE_BITS) - 1)


def is_iterable(dataset) -> bool:
    data = sys.modules.get("torch.utils.data")
    return data is not None and isinstance(dataset, data.IterableDataset)


class ShardMaker:
    """Makes batches of virtual shards from a dataset; the `UnitMaker` of iterables. `settings`: "iterable:V:B:drop_last", B 0
    for samples alone."""

    def __init__(self, dataset, collate, settings: str, seed: int):
        shards, size, drop_last = (int(part) for part in settings.split(":")[1:])
        self._dataset, self._collate, self._seed = dataset, collate, seed
        self._shards, self._size, self._drop_last = shards, size, bool(drop_last)
        self._open = {}  # shard → [epoch, samples given, iterator or None at its end]
        self._copies = {}
        self.position = self.item = self.doing = None
        self.on_fetched = None  # as of UnitMaker

    def make(self, positions, items):
        """The batch that begins at items[0], a position; End() where the shard has none there."""
        first = self.position = self.item = items[0]
        epoch, shard, sample = _parts_of(first)
        self.doing = "iterating the dataset"
        try:
            fetched = self._fetched(epoch, shard, sample)
        except BaseException:
            # A generator that raised is over, and so is its shard: only who asks for this batch again begins anew.
            self._open[shard] = [epoch, sample + 1, None]
            raise
        if not fetched or (self._drop_last and len(fetched) < self._size):
            return End()
        if self.on_fetched is not None:
            self.on_fetched()
        self.position = self.item = first
        self.doing = "collating the batch that begins there"
        return self._collate(fetched if self._size else fetched[0])

    def _fetched(self, epoch: int, shard: int, sample: int) -> list:
        stream = self._at(epoch, shard, sample)
        fetched = []
        while len(fetched) < max(self._size, 1):
            value = self._next(stream, shard)
            if value is _NOTHING:
                break
            fetched.append(value)
        return fetched

    def _at(self, epoch: int, shard: int, sample: int) -> list:
        stream = self._open.get(shard)
        if stream is None or stream[0] != epoch or stream[1] > sample:
            with self._worker_info(shard) as dataset:
                seeding.seed_generators(self._seed, position_of(epoch, shard, 0))
                stream = self._open[shard] = [epoch, 0, iter(dataset)]
        while stream[1] < sample and self._next(stream, shard) is not _NOTHING:
            pass
        return stream

    def _next(self, stream: list, shard: int):
        if stream[2] is None:
            return _NOTHING
        self.position = self.item = position_of(stream[0], shard, stream[1])
        with self._worker_info(shard):
            seeding.seed_generators(self._seed, self.position)
            try:
                value = next(stream[2])
            except StopIteration:
                stream[2] = None
                return _NOTHING
        stream[1] += 1
        return value

    def _worker_info(self, shard: int):
        if shard not in self._copies:
            self._copies[shard] = self._dataset if self._shards == 1 else copy.deepcopy(self._dataset)
        return _WorkerInfo(shard, self._shards, self._seed, self._copies[shard])


_NOTHING = object()


class _WorkerInfo:
    """What get_worker_info() gives while the shard's code runs."""

    def __init__(self, shard, shards, seed, dataset):
        self._arguments = {"id": shard, "num_workers": shards, "seed": seed + shard, "dataset": dataset}

    def __enter__(self):
        import torch.utils.data._utils.worker as torch_worker

        self._before = torch_worker._worker_info
        torch_worker._worker_info = torch_worker.WorkerInfo(**self._arguments)
        return self._arguments["dataset"]

    def __exit__(self, *_):
        sys.modules["torch.utils.data._utils.worker"]._worker_info = self._before


@dataclass
class IterableCursor:
    """The next batch to hand over: of `shard` in `round`. `ended`: batches that the ended shards had. JSON-able."""

    seed: int
    epoch: int = 0
    round: int = 0
    shard: int = 0
    ended: dict = field(default_factory=dict)
    finished: bool = False
    batches: int = 0

    def to_state(self, shape: dict) -> dict:
        # Left out when they are many: a state stays small, and a shard that has ended is found to have ended again.
        ended = [[shard, count] for shard, count in sorted(self.ended.items())] if len(self.ended) <= _TOLD else []
        return {"format": FORMAT, **shape, **{**self.__dict__, "ended": ended}}


def cursor_from(state: dict, shape: dict) -> IterableCursor:
    if state.get("format") != FORMAT:
        raise ValueError("not the state of a loader of an iterable dataset")
    different = [f"{key} is {value!r}, was {state.get(key)!r}" for key, value in shape.items() if state.get(key) != value]
    if different:
        raise ValueError("this state is of another loader: " + "; ".join(different))
    limits = {"seed": 1 << 64, "epoch": 1 << 32, "round": 1 << 48, "shard": shape["virtual_shards"], "batches": 1 << 64, "finished": None}
    check_fields(state, **limits)
    ended = state.get("ended")
    pairs = isinstance(ended, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in ended)
    if not pairs or not all(isinstance(number, int) for pair in ended for number in pair):
        raise ValueError("this state is damaged: ended is no list of shards and numbers")
    return IterableCursor(**{name: state[name] for name in limits}, ended=dict(map(tuple, ended)))


class IterableIterator:
    """One pass, from the cursor on. `lanes`: what makes batches, each its own shards in the order they are asked."""

    def __init__(self, loader, cursor: IterableCursor):
        self._loader, self._cursor = loader, cursor
        self._pid = os.getpid()
        self._shards = loader.virtual_shards
        self._settings = f"iterable:{self._shards}:{loader.batch_size or 0}:{int(loader.drop_last)}"
        self._meter = loader._recipe.meter()
        self._lanes = self._open_lanes()
        self._asked = deque()  # (round, shard) not yet taken
        self._next = (cursor.round, cursor.shard)  # to be asked
        self._window = max(len(self._lanes) * (loader.prefetch_factor or 1), 1) if loader.num_workers else 1
        self._closed = False
        self._meter.begin_epoch(_no_digest)
        if loader.num_workers:
            self._ask()

    def __iter__(self):
        return self

    def __next__(self):
        if os.getpid() != self._pid:
            raise RuntimeError("this iterator was made in another process: call iter() on a loader made after the fork")
        entered = time.monotonic()
        self._meter.enter(entered)
        try:
            return self._take_next(entered)
        finally:
            self._meter.entered = None

    def _take_next(self, entered: float):
        cursor = self._cursor
        while not self._closed:
            self._ask()
            if not self._asked:
                cursor.finished = True
                self._meter.epochs += 1
                self.close()
                break
            number, shard = self._asked[0]
            try:
                batch = self._lanes.of(shard).take(self._pop, self._what(number, shard))
            except BaseException:
                if self._lanes.of(shard).over:
                    self._meter.delivered_once = False
                    self.close()
                elif not self._asked or self._asked[0] != (number, shard):  # it failed for good
                    self._meter.delivered_once = False
                raise
            if isinstance(batch, End):
                cursor.ended.setdefault(shard, number)
                self._move_past(number, shard)
                continue
            self._move_past(number, shard)
            cursor.batches += 1
            self._ask()
            self._meter.handed_over(_rows(batch, self._loader.batch_size), entered, time.monotonic())
            return self._loader._recipe._convert()(batch)
        raise StopIteration

    def state_dict(self) -> dict:
        return self._cursor.to_state(self._loader._shape())

    def close(self) -> None:
        if getattr(self, "_closed", True):
            return
        self._closed = True
        if os.getpid() == self._pid:
            self._meter.end_epoch(_no_digest, _no_digest())
            self._lanes.release(keep=self._loader.persistent_workers and not self._asked)

    def __del__(self):
        self.close()

    def __len__(self):
        return len(self._loader)

    def _pop(self) -> None:
        """The batch at the front has come, or failed for good."""
        self._asked.popleft()

    def _move_past(self, number: int, shard: int) -> None:
        self._cursor.round, self._cursor.shard = self._after(number, shard)

    def _after(self, number: int, shard: int):
        return (number, shard + 1) if shard + 1 < self._shards else (number + 1, 0)

    def _ask(self) -> None:
        ended = self._cursor.ended
        while len(self._asked) < self._window and len(ended) < self._shards:
            number, shard = self._next
            self._next = self._after(number, shard)
            if shard in ended:
                continue
            size = self._loader.batch_size or 1
            self._lanes.of(shard).submit(position_of(self._cursor.epoch, shard, number * size), size)
            self._asked.append((number, shard))

    def _what(self, number: int, shard: int) -> str:
        return f"batch {number} of virtual shard {shard}, epoch {self._cursor.epoch}"

    def _open_lanes(self) -> "_Lanes":
        loader, seed = self._loader, self._cursor.seed
        key = (seed, self._settings)
        for engine in loader._recipe._engines:
            if isinstance(engine, _Lanes) and not engine.busy and engine.key == key:
                engine.busy = True
                return engine
        return _Lanes(loader._recipe, key, self._new_lanes(seed))

    def _new_lanes(self, seed: int) -> list:
        loader = self._loader
        if loader.num_workers == 0:
            return [_Here(ShardMaker(loader.dataset, loader.collate_fn, self._settings, seed), self._meter)]
        version = f"{'' if loader.version is None else loader.version}|{self._settings}"
        value = plans.python_plan(loader.dataset, loader.collate_fn, 1 << 62, version, seed, plans.libraries())
        attachment = samples.bundle(loader.dataset, loader.collate_fn, loader.worker_init_fn, self._settings)
        return [
            _Worker(value, attachment, worker, loader) for worker in range(min(loader.num_workers, self._shards))
        ]


def _no_digest() -> str:
    return "0" * 32  # batches of iterables have no positions that it could be made of


def _rows(batch, size) -> int:
    """How many samples a batch holds, as far as its leaves say so; `size` is what one holds at most, None: it is a sample."""
    if size is None:
        return 1
    while isinstance(batch, (dict, list, tuple)) and batch:
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    shape = getattr(batch, "shape", ())
    return min(int(shape[0]), size) if len(shape) else size


class _Lanes:
    """Who makes the batches of one loader's shards; kept from one pass to the next by persistent_workers. An engine to the recipe."""

    def __init__(self, recipe, key, lanes: list):
        self.key, self.busy = key, True
        self._recipe, self._lanes = recipe, lanes
        recipe._engines.add(self)

    def __len__(self) -> int:
        return len(self._lanes)

    def of(self, shard: int):
        return self._lanes[shard % len(self._lanes)]

    def release(self, keep: bool) -> None:
        self.busy = False
        if not keep or self._recipe.has_idle(self):
            self.close()

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()
        self._recipe.forget(self)

    def cpu_s(self) -> float:
        return sum(lane.cpu_s() for lane in self._lanes)

    def threads_cpu_s(self) -> float:
        return 0.0

    def work(self) -> Work:
        return Work()


class _Here:
    """A lane in this process, at the moment a batch is wanted."""

    over = False

    def __init__(self, maker: ShardMaker, meter):
        self._maker, self._meter = maker, meter
        self._asked = deque()

    def submit(self, first: int, count: int) -> None:
        self._asked.append((first, count))

    def take(self, pop, what: str):
        first, count = self._asked[0]
        started = time.thread_time()
        try:
            with seeding.kept_generators():
                batch = self._maker.make(range(first, first + count), range(first, first + count))
        except Exception as error:  # Ctrl-C is no error of the batch, which is still to come
            self._given(pop)
            _, shard, sample = _parts_of(self._maker.position)
            error.add_note(f"stoker: virtual shard {shard}, sample {sample}")
            raise
        self._given(pop)
        self._meter.inline_cpu_s += time.thread_time() - started
        return batch

    def _given(self, pop) -> None:
        self._asked.popleft()
        pop()

    def close(self) -> None:
        pass

    def cpu_s(self) -> float:
        return 0.0  # the meter counts it


class _Worker:
    """A lane of one child process."""

    def __init__(self, plan: dict, attachment: bytes, worker: int, loader):
        from stoker.data.feed_engine import _children
        from stoker.data.recipe import _frozen

        commands, environment = _children(False, loader.num_workers, None)
        self._client = _native.feed.FeedClient.open(
            _frozen(plan).text, children=[commands[worker]], environment=environment, attachment=attachment, units=True,
            window_bytes=WINDOW_BYTES, audit=False,
        )  # fmt: skip
        self._timeout = loader.timeout
        self._pushed = 0
        self._cpu_s = None  # of one that is closed
        self.over = False  # its worker cannot be kept alive

    def submit(self, first: int, count: int) -> None:
        numbers = numpy.arange(first, first + count, dtype=numpy.int64)
        self._client.push(self._pushed, numbers, numbers)
        self._pushed += 1

    def take(self, pop, what: str):
        import json

        deadline = time.monotonic() + self._timeout if self._timeout > 0 else None
        arrived = []
        while not arrived:
            try:
                self._client.next(SLICE_S, arrived)
            except _native.feed.FeedError as failure:
                described, self.over = failure.args
                if not self.over:
                    pop()
                described = json.loads(described)
                epoch = _say_shard(described)
                raise exception_from(described, epoch=epoch, over=self.over) from None
            if not arrived and deadline is not None and time.monotonic() >= deadline:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds: {what} has not come")
        pop()
        return units.decode(arrived[0].unit)

    def close(self) -> None:
        self._cpu_s = self.cpu_s()
        self._client.close()

    def cpu_s(self) -> float:
        return self._client.stats()["children_cpu_s"] if self._cpu_s is None else self._cpu_s


def _say_shard(described: dict):
    """Has an error JSON say shard and sample in the place of the position that holds them; its epoch, where it has one."""
    position = described.pop("position", None)
    for key in ("item", "position_count"):
        described.pop(key, None)
    if position is None:
        return None
    epoch, described["virtual shard"], described["sample"] = _parts_of(position)
    return epoch


def check_arguments(dataset, shuffle, sampler, batch_sampler, virtual_shards, num_workers) -> int:
    """What torch refuses for iterables, and the number of virtual shards."""
    if shuffle:
        raise ValueError(f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}")
    if sampler is not None or batch_sampler is not None:
        raise ValueError("DataLoader with IterableDataset: expected unspecified sampler and batch_sampler options")
    shards = 1 if virtual_shards is None else virtual_shards
    if not isinstance(shards, int) or isinstance(shards, bool) or not 1 <= shards <= MOST_SHARDS:
        raise ValueError(f"virtual_shards should be a number in [1, {MOST_SHARDS}], but got {virtual_shards!r}")
    if os.environ.get("STOKER_FEED"):
        warnings.warn(
            "the feed group does not serve this loader, and is paid for all the same: an iterable dataset gives its samples one after "
            "the other, so that other machines cannot be asked for some of them. It runs on the trainer's machine. Use a dataset with "
            "__getitem__ or one of stoker.data's sources, or leave the feed group out",
            stacklevel=3,
        )
    if num_workers > shards:
        warnings.warn(
            f"{num_workers} workers for {counted(shards, 'virtual shard')}: {num_workers - shards} of them "
            f"{'have' if num_workers - shards > 1 else 'has'} nothing to do. Give virtual_shards=, if the dataset divides itself by get_worker_info()",
            stacklevel=3,
        )
    return shards


def explanation(loader):
    from stoker.data.lowering import Step

    workers = min(loader.num_workers, loader.virtual_shards)
    runs = f"made by {workers} worker process{'es' if workers > 1 else ''}" if workers else "made in this process"
    if os.environ.get("STOKER_FEED"):
        runs += ", not by the feed group"
    why = "an iterable dataset: its samples come from its own Python code, one after the other"
    steps = [Step(plans.full_name(type(loader.dataset)), False, why), Step(f"collate: {plans.full_name(loader.collate_fn)}", False)]
    return Explanation(
        native=False, reason=why, steps=steps, reference={}, runs=f"{runs}, as {counted(loader.virtual_shards, 'virtual shard')}", plan={}
    )
