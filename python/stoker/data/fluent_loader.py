# SPDX-License-Identifier: Apache-2.0
"""A pipe as a running loader: stoker.DataLoader with the pipe's order and seeds in the place of torch's.

Engines, plans, cursors and errors are the DataLoader's. Confined: one thread per loader and its iterators.
"""

import itertools
import json
from collections import deque

from stoker import _native
from stoker.data import cursor as cursors
from stoker.data import fluent_samples
from stoker.data.epochs import EpochSeeds
from stoker.data.explain import Explanation
from stoker.data.fluent_build import Built, build
from stoker.data.fluent_samples import Samples
from stoker.data.fluent_stages import Cache, Op
from stoker.data.identity import identity_of, is_known, places_of
from stoker.data.loader import DataLoader
from stoker.data.loader_arguments import MOST_WORKERS
from stoker.data.lowering import Step
from stoker.data.sample_store import open_store
from stoker.data.whole import whole

_MOST_WORKERS = 8


class FluentLoader(DataLoader):
    """iter() is the next epoch. `hand`: what a face does to each batch of NumPy arrays; see Face."""

    def __init__(self, pipe, hand, workers: int | None = None):
        workers = _cores() if workers is None else whole("workers", workers, end=MOST_WORKERS + 1)
        built = build(pipe)
        ahead = -(-(built.prefetch or 2) // workers) if workers else None
        _open_stores(built.dataset)
        super().__init__(
            built.dataset, built.size, num_workers=workers, drop_last=built.drop_last, prefetch_factor=ahead,
            persistent_workers=workers > 0, version=built.version or None,
            collate_fn=None if built.native else fluent_samples.finished,
        )  # fmt: skip
        self.picture_cache = built.picture_cache if built.native else None
        self.pipe = pipe
        self._built: Built = built
        self._hand = hand
        self._seeds = FixedSeeds(built.seed, built.order.seed())
        self._place = Place()
        if not built.packs:
            self._batch_transform = Hand(hand, built)

    @staticmethod
    def _find_torch():
        return None

    def __iter__(self):
        iterator = super().__iter__()
        if not self._built.packs:
            return iterator
        place, self._place = self._place, Place()
        if place.restored:
            self._place.skip = place.skip
        return Packed(iterator, self._built, self._hand, self._place)

    def __len__(self):
        from stoker.data.fluent_build import length

        return length(self.pipe)

    def state_dict(self) -> dict:
        """As DataLoader's; behind filter() or flat_map() with `rows`, those of the window `batch` that were handed over."""
        state = super().state_dict()
        return self._place.in_state(state) if self._built.packs else state

    def load_state_dict(self, state: dict) -> None:
        cursors.check_is_state(state)
        if "rows" in state:
            cursors.check_fields(state, rows=1 << 63)
        super().load_state_dict(state)
        if (state["seed"], state["order_seed"]) != (self._built.seed, self._built.order.seed()):
            self._restored = None
            self._seeds = FixedSeeds(self._built.seed, self._built.order.seed())
            raise ValueError(
                f"this state is of another seed: {state['seed']}, order {state['order_seed']}; here {self._built.seed}, order "
                f"{self._built.order.seed()}"
            )
        self._place = Place(state.get("rows", 0), restored=True)

    def explain(self, helpers=None, cores=None, link=None) -> Explanation:
        found = super().explain(helpers, cores, link)
        if isinstance(self.dataset, Samples):
            described = [Step(*step) for step in self.dataset.describe()]
            found.reason = _reason(self.dataset, self._built)
            found.steps = [*described, Step(f"collate: {_collate_name(self._built)}", False), *found.steps[2:]]
        return found

    def cache_stats(self) -> list:
        """Of each cache(): items, how many are kept, bytes, budget."""
        stores = self.dataset.stores if isinstance(self.dataset, Samples) else {}
        return [stores[number].stats() for number in sorted(stores)]

    def _batches_in_epoch(self):
        length, size = self._built.order.length, self._built.size
        return length // size if self._built.drop_last else -(-length // size)

    def _batches(self, cursor):
        built, size, epoch = self._built, self._built.size, cursor.seeds.epoch
        length = built.order.length
        end = length // size * size if built.drop_last else length
        for begin in range(cursor.batch * size, end, size):
            count = min(size, end - begin)
            low, high = (rank * count // built.world for rank in (built.rank, built.rank + 1))
            items = built.order.at(epoch, begin + low, high - low)
            yield epoch * length + begin + low, items.tolist(), True

    def _shape(self) -> dict:
        built = self._built
        shape = {"items": built.order.length, "batch_size": built.size, "drop_last": built.drop_last}
        return {**shape, "order": built.order.text()}


class FixedSeeds:
    """The seeds that a pipe names, in the place of epochs.SeedStream."""

    def __init__(self, plan: int, order: int):
        self._next = EpochSeeds(plan, order, 0)

    def peek(self, *, draw_base: bool) -> EpochSeeds:
        return self._next

    def next(self, *, draw_base: bool) -> EpochSeeds:
        seeds = self._next
        self._next = EpochSeeds(seeds.plan, seeds.order, seeds.epoch + 1)
        return seeds

    def restore(self, seeds: EpochSeeds, finished: bool) -> None:
        self._next = EpochSeeds(seeds.plan, seeds.order, seeds.epoch + 1) if finished else seeds

    def end_of_order(self) -> None:
        pass


class Hand:
    """A face's last touch, where the loader has its batch transform: the last ops on the device, the framework's arrays.

    `face` is called with the batch and a function that does the device's ops to a picture, or None.
    """

    def __init__(self, face, built: Built):
        self._face, self._built = face, built

    def apply(self, batch, seed: int, first: int):
        built = self._built
        if built.single and built.native:
            batch = _only(batch)
        ops = built.device_ops
        device = (lambda run, picture: run(picture, ops, seed, range(first, first + len(picture)))) if ops else None
        return self._face(batch, device)

    def __repr__(self):
        ops = "".join(f"{op}, " for op in self._built.device_ops)
        return f"{ops}{getattr(self._face, 'name', 'arrays')}"


class Place:
    """Where Packed stands within a window; outlives it, so that its loader can be asked."""

    def __init__(self, skip: int = 0, restored: bool = False):
        self.skip = skip  # rows of the first window that were handed over before
        self.restored = restored
        self.first = None  # (state before its window, number in it) of the sample that comes next, once one is waiting
        self.ended = False

    def in_state(self, state: dict) -> dict:
        if self.first is not None:
            before, row = self.first
            return {**before, "rows": row}
        # All windows may have been pulled before the last batch was handed over: it is over when that is told.
        finished = state["finished"] and (self.ended or self.restored)
        return {**state, "rows": self.skip, "finished": finished}


class Packed:
    """Batches of what filter() and flat_map() leave of windows, in order. Keeps what is not handed over yet, each sample with
    where it stands: (state before its window, its number there)."""

    def __init__(self, windows, built: Built, hand, place: Place):
        self._windows, self._built, self._hand, self._place = windows, built, hand, place
        self._pending = deque()

    def __iter__(self):
        return self

    def __next__(self):
        built, place = self._built, self._place
        while len(self._pending) < built.size:
            before = self._windows.state_dict()
            window = next(self._windows, None)
            if window is None:
                break
            skip, place.skip = place.skip, 0
            self._pending.extend((sample, before, row) for row, sample in enumerate(window) if row >= skip)
            self._note()
        if not self._pending or (built.drop_last and len(self._pending) < built.size):
            self._pending.clear()
            place.first, place.ended = None, True
            raise StopIteration
        count = min(built.size, len(self._pending))
        rows = [sample for sample, _, _ in itertools.islice(self._pending, count)]
        batch = rows[0] if built.single else fluent_samples.collated(rows, built.collate)
        batch = self._hand(batch, None)
        for _ in range(count):
            self._pending.popleft()
        self._note()
        return batch

    def _note(self) -> None:
        self._place.first = self._pending[0][1:] if self._pending else None

    def state_dict(self) -> dict:
        return self._place.in_state(self._windows.state_dict())

    def close(self) -> None:
        self._pending.clear()
        self._windows.close()


def _only(batch):
    if isinstance(batch, dict):
        return {key: _only(value) for key, value in batch.items()}
    return tuple(_only(value) for value in batch) if isinstance(batch, list) else batch[0]


def _open_stores(dataset) -> None:
    if not isinstance(dataset, Samples):
        return
    for number, stage in enumerate(dataset.stages):
        if isinstance(stage, Cache):
            steps = [stage.fields if isinstance(stage, Op) else str(stage) for stage in dataset.stages[:number]]
            dataset.stores[number] = open_store(
                stage.place, _cache_name(dataset.source, steps) if stage.place == "disk" else "", len(dataset), stage.budget_bytes
            )


def _cache_name(source, steps: list) -> str:
    if not is_known(source):
        raise ValueError(
            f"cache('disk') outlives the program, and nobody knows whether {source!r} holds the same next time: give its class a method "
            "identity() that returns a text which changes with its contents, or use cache('memory')"
        )
    return fluent_samples.digest_of(json.dumps([identity_of(source), places_of(source), steps], sort_keys=True))


def _reason(dataset: Samples, built: Built) -> str:
    if built.packs:
        return "filter() and flat_map() leave samples that are batched in the training process"
    what, why = next(((what, why) for what, native, why in dataset.describe()[1:] if not native), ("", ""))
    if what:
        return f"{what}: {why}" if why else f"{what} is Python"
    return "the samples have different sizes" if built.collate == "ragged" else "its samples are made by Python"


def _collate_name(built: Built) -> str:
    if built.single:
        return "none"
    return built.collate if isinstance(built.collate, str) else getattr(built.collate, "__qualname__", "stack")


def _cores() -> int:
    return min(_native.feed.allowed_cores(), _MOST_WORKERS)
