# SPDX-License-Identifier: Apache-2.0
"""What makes batches: this thread, threads of this process, or processes reached through the feed client. One set of verbs
for iterators:

`submit` says what will be wanted, in order, again where a Ctrl-C came as it ended; `take` gives the next, in order, and
counts it in `taken`, also when it failed for good, as the last that it does (`what()` says in words what is taken); `window`
says how far ahead to submit; `digest` is the stream digest of what was taken since the iterator began; `over` says that it
gives no more, after an error that is of no batch; `give_up(use)`, from any thread, ends a `take` that waits by StopIteration, if
`use` still says the same; `release` ends the iterator's use. Confined, each to one iterator at a time, apart from `digest`, `cpu_s` and
`give_up`.
"""

import json
import time
import weakref

import numpy

from stoker import _native
from stoker.data import seeding, units
from stoker.data.errors import WorkerError
from stoker.data.indices import numbers
from stoker.data.samples import BATCH, LIST, SINGLE, UnitMaker
from stoker.data.stages import StageTimes, Work


class _Inline:
    """Batches made on this thread, at the moment they are wanted, as torch does with num_workers=0."""

    eager = False
    over = False
    use = 0

    def __init__(self, plan, meter, convert, hashed: bool):
        self.meter = meter
        self._plan = plan
        self._convert = convert
        self._hashed = hashed
        self.digest = self.taken = 0

    def window(self) -> int:
        return 1

    def submit(self, first: int, items, whole: bool) -> None:
        pass

    def give_up(self, use: int) -> None:
        pass  # it never waits for others

    def release(self) -> None:
        pass

    def close(self) -> None:
        pass

    def cpu_s(self) -> float:
        return 0.0

    def _taken(self, batch, term: str):
        """The last of taking one: until here a Ctrl-C leaves it to be made again."""
        if term:
            self.digest = (self.digest + int(term, 16)) % (1 << 128)
        self.taken += 1
        return batch


class InlinePython(_Inline):
    """The user's code."""

    def __init__(self, loader, plan, seed: int, meter, convert, hashed: bool):
        super().__init__(plan, meter, convert, hashed)
        self._loader_of = weakref.ref(loader)  # which owns us
        self._seed = seed
        self._makers = {}
        self._times = StageTimes()

    def take(self, first: int, items, whole: bool, what):
        loader = self._loader_of()
        mode = mode_of(loader, whole)
        if mode not in self._makers:
            self._makers[mode] = UnitMaker(loader.dataset, loader.collate_fn, mode, self._seed)
            self._makers[mode].on_fetched = self._times.fetched
        self._times.begin()
        started = time.thread_time()
        try:
            with seeding.kept_generators():
                batch = self._makers[mode].make(range(first, first + len(items)), numbers(items))
        except StopIteration as error:
            # Passed on by __next__ it would end the epoch there, as if there were no more samples.
            self.taken += 1
            maker = self._makers[mode]
            raise WorkerError(
                f"the dataset raised StopIteration at position {maker.position}, item {maker.item}; an epoch ends after "
                "len(dataset) samples, not by it",
                type_name="builtins.StopIteration",
                position=maker.position,
                item=maker.item,
            ) from error
        except Exception as error:
            self.taken += 1
            maker = self._makers[mode]
            if maker.position is not None:  # the traceback leads to the user's code, but not to the sample
                error.add_note(f"stoker: position {maker.position}, item {maker.item} of the dataset")
            raise
        self._times.reached("collate")
        term = ""
        if self._hashed:
            term = self._term(batch, first, items)
            self._times.reached("hash")
        self._times.end(len(items), 0)
        self.meter.inline_cpu_s += time.thread_time() - started
        return self._taken(self._convert(batch), term)

    def work(self) -> Work:
        return Work.of(1, True, [self._times.to_dict()])

    def _term(self, batch, first: int, items) -> str:
        unit = units.encode(batch)
        whole = bytearray(unit.size)
        unit.write_to(memoryview(whole))
        return _native.feed.unit_term(first, numbers(items), self._plan.hash, _native.feed.block_hash(whole))


class InlineNative(_Inline):
    """A native plan. No other thread is used, as with torch."""

    def __init__(self, loader, plan, seed: int, meter, convert, hashed: bool):
        super().__init__(plan, meter, convert, hashed)
        self._assemble = loader._recipe.assemble
        self._maker = _native.feed.RowMaker(loader._recipe.open_producer(plan), plan.hash if hashed else None)

    def take(self, first: int, items, whole: bool, what):
        started = time.thread_time()
        try:
            leaves, term = self._maker.make(first, numpy.asarray(items, dtype=numpy.int64))
        except Exception:  # failed for good; after a Ctrl-C it is still to come
            self.taken += 1
            raise
        self.meter.inline_cpu_s += time.thread_time() - started
        return self._taken(self._convert(self._assemble(leaves)), term)

    def work(self) -> Work:
        return Work.of(1, True, [json.loads(self._maker.times())])


def mode_of(loader, whole: bool) -> str:
    if loader._auto_collation:
        return BATCH
    return LIST if whole else SINGLE
