# SPDX-License-Identifier: Apache-2.0
"""stoker.DataLoader: torch.utils.data.DataLoader's arguments and meaning, over native plans and Python workers.

What differs, by design (docs/guide/loader.md): `shuffle=True` is a keyed bijection, not torch's permutation; what a
dataset draws at random depends on the position and not on the worker; workers are new processes, never forks; batches
come in order always; where they are made (in this process, in its children, in a feed group) changes no byte of them.
An argument that cannot be honoured is refused with the reason. Confined: one thread per loader and its iterators.
"""

import os
import sys
import warnings
import weakref

from stoker import _native
from stoker.data import cursor as cursors
from stoker.data import forecast
from stoker.data import iterable as iterables
from stoker.data import loader_arguments as arguments
from stoker.data import spare_cores as spares
from stoker.data.batches import BatchTransform
from stoker.data.collate import numpy_collate, numpy_convert
from stoker.data.cursor import Cursor
from stoker.data.epochs import EpochSeeds, SeedStream
from stoker.data.explain import Explanation
from stoker.data.indices import Block, Counted, Explicit
from stoker.data.iterator import Iterator
from stoker.data.picture_cache import PictureCache
from stoker.data.plan import full_name
from stoker.data.recipe import Recipe
from stoker.data.stages import LoaderStats

_FROZEN = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader:
    """See the module. Own arguments: `version` names the dataset's contents in the plan (change it with them);
    `on_error`: what is done about a picture that is damaged, of native plans; "raise", "skip" (a row of zeros; the batch has one
    more element, a bool per row, false there) or "substitute" (another item, drawn by position); `gray16`: how pictures of 16-bit gray become 8 bits, of
    native plans; "clip" as Pillow does, white over 255, or "scale", each value's high byte; `virtual_shards`: of an iterable dataset (docs/guide/sources.md). `shuffle` may also be
    stoker.data.block(k). `picture_cache`: "index" or "coefficients", what is kept of stored pictures so that decoding is
    cheaper from the second epoch on, in `cache_dir`, up to `cache_budget` bytes, and `cache_total` of all sources there (by default half of the disk; what
    nobody uses goes for it); no byte of a batch depends on it. `spare_cores`: of this machine, that help a feed group; None: as
    many as the training leaves, measured; 0: none; a number: so many always, whatever the training does."""

    _initialized = False

    def __init__(
        self,
        dataset,
        batch_size=1,
        shuffle=None,
        sampler=None,
        batch_sampler=None,
        num_workers=0,
        collate_fn=None,
        pin_memory=False,
        drop_last=False,
        timeout=0,
        worker_init_fn=None,
        multiprocessing_context=None,
        generator=None,
        *,
        prefetch_factor=None,
        persistent_workers=False,
        pin_memory_device="",
        in_order=True,
        version=None,
        on_error="raise",
        gray16="clip",
        virtual_shards=None,
        picture_cache=None,
        cache_dir=None,
        cache_budget=None,
        cache_total=None,
        spare_cores=None,
    ):
        arguments.check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        arguments.check_dataset(dataset)
        arguments.check_own(on_error, gray16, version)
        spares.check(spare_cores)
        spares.wanted(spare_cores)  # the variable's value too
        self.spare_cores = spare_cores
        self._iterable = iterables.is_iterable(dataset)
        self.picture_cache = PictureCache.of(picture_cache, cache_dir, cache_budget, cache_total)
        self.virtual_shards = None
        if self._iterable:
            self.virtual_shards = iterables.check_arguments(
                dataset, shuffle, sampler, batch_sampler, virtual_shards, num_workers
            )
            if on_error != "raise":
                raise NotImplementedError(f"on_error={on_error!r} is for pictures of native plans, not for iterable datasets")
            if gray16 != "clip":
                raise NotImplementedError(f"gray16={gray16!r} is for pictures of native plans, not for iterable datasets")
            if self.picture_cache is not None:
                raise NotImplementedError("picture_cache is for pictures of native plans, not for iterable datasets")
        elif virtual_shards is not None:
            raise ValueError("virtual_shards is for iterable datasets: the samples of others have positions of their own")
        batch_size = arguments.batch_size_of(batch_size, shuffle, sampler, batch_sampler, drop_last)

        self._torch = self._find_torch()
        self._explicit = batch_sampler if batch_sampler is not None else sampler
        self._auto_collation = batch_size is not None or batch_sampler is not None
        self._block = shuffle if isinstance(shuffle, Block) else None
        self._shuffle = bool(shuffle)
        arguments.check_generator(self._torch, generator)
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor if prefetch_factor is not None or num_workers == 0 else 2
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.in_order = in_order  # False permits what we never do
        self.version = version
        self.on_error = on_error
        self.gray16 = gray16
        # Behind an iterable dataset it is a collate_fn like another: batches have no positions there.
        of_batches = isinstance(collate_fn, BatchTransform) and not self._iterable
        self._batch_transform = collate_fn if of_batches else None
        if self._batch_transform is not None and not self._auto_collation:
            raise ValueError("batch_transform() needs batches: with batch_size=None there are none")
        own = collate_fn is not None and self._batch_transform is None
        self.collate_fn = collate_fn if own else self._default_collate()
        self.sampler, self.batch_sampler = self._torch_samplers(sampler, batch_sampler)

        items = len(dataset) if hasattr(dataset, "__len__") else None
        if items is None and self._explicit is None and not self._iterable:
            raise TypeError(f"object of type '{type(dataset).__name__}' has no len()")
        if self._shuffle and items == 0:
            raise ValueError("num_samples should be a positive integer value, but got num_samples=0")
        self._items = items
        self._seeds = SeedStream(generator, self._shuffle, items or 0)
        self._drew_base = False
        self._recipe = Recipe(self)
        if not self._iterable:
            self._recipe.check()
        self._restored = None
        self._latest = None  # cursor of the iterator that began last
        self._latest_iterator = lambda: None
        self._live = weakref.WeakSet()
        self._pid = os.getpid()
        self._initialized = True

    @staticmethod
    def _find_torch():
        """torch, where batches are made of its tensors; None for NumPy arrays."""
        return sys.modules.get("torch")

    def __iter__(self):
        if self._iterable:
            return self._iterate_shards()
        if os.getpid() != self._pid:
            raise RuntimeError(
                f"this loader was made in process {self._pid} and cannot be used in its fork {os.getpid()}: make it after "
                "the fork"
            )
        if self._explicit is None and len(self.dataset) != self._items:
            raise RuntimeError(
                f"the dataset had {self._items} samples when this loader was made and has {len(self.dataset)} now: positions "
                "count in epochs of one length; make a new loader"
            )
        seeds = self._next_seeds()
        self._warn_about_pinning()
        start, self._restored = self._restored, None
        if start is not None and start.finished:
            start = Cursor(seeds, samples=start.samples, digest=start.digest)
        elif start is None:
            previous = self._latest
            start = Cursor(seeds)
            if previous is not None and previous.seeds.plan == seeds.plan:
                start.samples, start.digest = previous.samples, previous.digest
        iterator = Iterator(self, start)
        self._latest = start
        self._latest_iterator = weakref.ref(iterator)
        self._live.add(iterator)
        return iterator

    def _next_seeds(self):
        """Of the epoch that begins. As with torch, workers that persist keep the base they were given."""
        persists = self.persistent_workers and self.num_workers > 0
        seeds = self._seeds.next(draw_base=not (persists and self._drew_base))
        self._drew_base = True
        return seeds

    def _iterate_shards(self):
        """The next pass over an iterable dataset."""
        start, self._restored = self._restored, None
        seeds = self._next_seeds()
        self._warn_about_pinning()
        if start is None or start.finished:
            start = iterables.IterableCursor(seeds.plan, seeds.epoch, batches=start.batches if start else 0)
        iterator = iterables.IterableIterator(self, start)
        self._latest = start
        self._live.add(iterator)
        return iterator

    def __len__(self):
        if self._iterable and self._items is None:
            raise TypeError(f"object of type '{type(self.dataset).__name__}' has no len()")
        if self._explicit is None:
            if self.batch_size is None:
                return self._items
            return self._items // self.batch_size if self.drop_last else -(-self._items // self.batch_size)
        length = len(self._explicit)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def state_dict(self) -> dict:
        """Where the iterator that began last stands, before the first iter() where it will begin (JSON-able, under 1 KB)."""
        current = self._restored or self._latest
        if current is None:
            seeds = self._seeds.peek(draw_base=True)
            current = iterables.IterableCursor(seeds.plan, seeds.epoch) if self._iterable else Cursor(seeds)
        if self._iterable:
            return current.to_state(self._shape())
        return self._state_of(current, self._latest_iterator() if current is self._latest else None)

    def _state_of(self, cursor: Cursor, iterator) -> dict:
        if iterator is not None:
            cursor.digest = iterator.digest()
        plan = self._recipe.plan(cursor.seeds.plan)
        self._recipe.keep(plan)
        return cursor.to_state(self._shape(), plan.hash, plan.name, plan.libraries)

    def load_state_dict(self, state: dict) -> None:
        """The next iter() goes on where `state` was taken; live iterators are not touched. Refuses another loader's."""
        cursors.check_is_state(state)
        if self._iterable:
            self._restored = iterables.cursor_from(state, self._shape())
            self._seeds.restore(EpochSeeds(self._restored.seed, 0, self._restored.epoch), self._restored.finished)
            return
        restored = cursors.from_state(state, self._shape())
        plan = self._recipe.plan(restored.seeds.plan)
        if plan.hash != state["plan"]:
            changed = [
                f"{name} {state['libraries'].get(name)} is now {plan.libraries.get(name)}"
                for name in sorted({*state["libraries"], *plan.libraries})
                if state["libraries"].get(name) != plan.libraries.get(name)
            ]
            if not changed or plan.name != state["name"]:
                raise ValueError(
                    f"this state is of another plan ({state['name']}, {state['plan'][:12]}; here {plan.name}, "
                    f"{plan.hash[:12]}): dataset (of files: their names and labels), transforms, collate_fn, code or version= "
                    "have changed"
                )
            warnings.warn(f"resuming with other libraries, samples may differ: {', '.join(changed)}", stacklevel=2)
        self._seeds.restore(restored.seeds, restored.finished)
        self._restored = restored

    def explain(self, helpers=None, cores=None, link=None) -> Explanation:
        """What runs where and why, as an object that prints as text.

        Once batches have been taken, also how fast the loop would be with feed helpers, by what was measured: as many as `helpers` says (a number or several;
        default 1, 2, 4, 8) of `cores` each (this machine's; fed already: like the present ones) behind a link of `link` bytes/s. ValueError
        for other arguments, RuntimeError where helpers are asked about before enough is measured: docs/guide/loader.md."""
        if self._iterable:
            if given := forecast.named(helpers, cores, link):
                raise NotImplementedError(f"explain({given}) is not for iterable datasets: what their samples cost is not measured")
            return iterables.explanation(self)
        return self._recipe.explain(helpers, cores, link)

    def stats(self) -> LoaderStats:
        """What samples have cost so far by stage, what binds and how fast it lets the loader be: docs/guide/loader.md."""
        return self._recipe.stats()

    def close(self) -> None:
        """Ends workers and live iterators. Idempotent; deleting the loader does the same."""
        for iterator in list(self._live):
            iterator.close()
        self._recipe.close()

    def __del__(self):
        if getattr(self, "_initialized", False) and os.getpid() == self._pid:
            self.close()

    def __setattr__(self, name, value):
        if self._initialized and name in _FROZEN:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __getstate__(self):
        raise TypeError("a loader holds processes and memory and cannot be pickled; pickle state_dict()")

    def _epoch_at(self, position: int) -> int:
        return position // self._items if self._items and self._explicit is None else position // cursors.EXPLICIT_STRIDE

    def _batches_in_epoch(self):
        """How many there are, where that is arithmetic; else None."""
        return len(self) if self._explicit is None else None

    def _batches(self, cursor: Cursor):
        """The batches of the cursor's epoch from the cursor on."""
        if self._explicit is None:
            order = self._order(cursor.seeds.order) if self._shuffle else None
            size = self.batch_size or 1
            batches = Counted(order, self._items, size, self.drop_last, cursor.seeds.epoch, cursor.batch)
            return batches if self.batch_size else _single(batches)
        of_batches = self._auto_collation and self.batch_size is None
        batches = Explicit(self._explicit, self.batch_size, self.drop_last, cursor.seeds.epoch, self._items, of_batches)
        for skipped in range(cursor.batch):
            if next(batches, None) is None:
                raise RuntimeError(f"the sampler ends after {skipped} batches, the state stands at batch {cursor.batch}")
        if cursor.batch and batches.digest() != cursor.skipped:
            raise RuntimeError(
                "the sampler gives another order than when the state was taken: seed it as then (generator=, set_epoch) "
                "before iterating"
            )
        return batches

    def _order(self, seed: int):
        if self._block is not None:
            return self._block.order(self.dataset, self._items, seed)
        return _native.pipeline.Order("full", self._items, seed)

    def _shape(self) -> dict:
        if self._iterable:
            shape = {"batch_size": self.batch_size, "drop_last": self.drop_last}
            return {"name": full_name(type(self.dataset)), "virtual_shards": self.virtual_shards, **shape}
        order = cursors.EXPLICIT if self._explicit is not None else cursors.FULL if self._shuffle else cursors.SEQUENTIAL
        if self._block is not None:
            order = f"block({self._block.shards})"
        return {"items": self._items, "batch_size": self.batch_size, "drop_last": self.drop_last, "order": order}

    def _default_collate(self):
        if self._torch is None:
            return numpy_collate if self._auto_collation else numpy_convert
        from torch.utils.data import default_collate, default_convert

        return default_collate if self._auto_collation else default_convert

    def _torch_samplers(self, sampler, batch_sampler):
        """The attributes that torch's loader has; frameworks read them. Default orders do not iterate them."""
        if self._torch is None:
            return sampler, batch_sampler
        from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

        if sampler is None and self._iterable:
            return None, None
        if sampler is None:
            random_order = self._shuffle and len(self.dataset) > 0
            sampler = RandomSampler(self.dataset, generator=self.generator) if random_order else SequentialSampler(self.dataset)
        if batch_sampler is None and self.batch_size is not None:
            batch_sampler = BatchSampler(sampler, self.batch_size, self.drop_last)
        return sampler, batch_sampler

    def _warn_about_pinning(self) -> None:
        if not self.pin_memory:
            return
        if self._torch is None:
            warnings.warn("pin_memory needs torch, which is not imported: batches are not pinned", stacklevel=3)
        elif not self._torch.accelerator.is_available():
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.",
                stacklevel=3,
            )
        if self.pin_memory_device:
            warnings.warn(
                "pin_memory_device is deprecated, the current accelerator will be used as the device,"
                f"ignore pin_memory_device='{self.pin_memory_device}'.",
                stacklevel=3,
            )


def _single(batches):
    for first, chosen, _ in batches:
        yield first, chosen, False
