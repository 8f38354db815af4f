# SPDX-License-Identifier: Apache-2.0
"""Pipes: a source and what is done to its samples, written as a chain of methods. docs/guide/fluent.md is the guide.

    pipe = (stoker.data.image_folder(root).shuffle(seed=0).decode().random_resized_crop(224)
            .horizontal_flip().normalize(mean, std).batch(64))
    for images, labels in pipe.torch(): ...

A pipe is a frozen value: every method returns another one, nothing runs before a face is asked for.
"""

import os
from dataclasses import dataclass, replace

from stoker.data import fluent_stages as stages
from stoker.data import picture_cache
from stoker.data.fluent_ops import PictureOps
from stoker.data.whole import SEED_END, whole

CALL_A_FACE = "nothing runs before a face is asked for; call .torch(), .numpy(), .jax() or .tensorflow()"


class Fluent(PictureOps):
    """The methods of pipes, and of sources, which are pipes of no stages."""

    # ---- order

    def shuffle(self, seed: int = 0, block: int | None = None):
        """Another order in each epoch, a keyed bijection: O(1) memory. block=k keeps to k shards of the source at a time.
        `seed` is that of the random parameters too, unless seed() says another."""
        return self._with(stages.Shuffle(whole("shuffle(): seed", seed, end=SEED_END), None if block is None else whole("shuffle(): block", block, 1)))

    def take(self, count: int):
        """The first `count` samples of an epoch."""
        return self._with(stages.Take(whole("take(): count", count)))

    def skip(self, count: int):
        return self._with(stages.Skip(whole("skip(): count", count)))

    def repeat(self, times: int | None = None):
        """An epoch is `times` passes one behind the other, each in another order if shuffled before; without end if None."""
        return self._with(stages.Repeat(None if times is None else whole("repeat(): times", times, 1, 1 << 62)))

    def mix(self, *others, weights=None, seed: int = 0, end: str = "stop"):
        """Takes of this and other pipes by weight, each shuffled by itself: stoker.data.mix() is the rule."""
        from stoker.data.mixture import mix

        for one in others:
            if isinstance(one, (list, tuple)):
                raise TypeError("mix() takes the others one by one, a.mix(b, c), and not in a list; stoker.data.mix([a, b, c]) takes a list")
        return mix([self._as_pipe(), *others], weights, seed, end)

    def seed(self, seed: int):
        """The seed of the random parameters of ops, and of what Python code draws."""
        return self._with(stages.Seed(whole("seed(): seed", seed, end=SEED_END)))

    # ---- samples

    def map(self, function):
        """function(sample): in worker processes; what it draws at random is seeded by the sample's position."""
        return self._with(stages.Map(_callable("map", function)))

    def flat_map(self, function):
        """function(sample) gives any number of samples. For one consumer; positions count the samples before it."""
        return self._with(stages.FlatMap(_callable("flat_map", function)))

    def filter(self, function, how: str = "window"):
        """Samples for which function(sample) is true.

        how: "window" numbers what is kept within windows of positions, for one consumer; "mask" keeps every row and adds
        `valid` to the sample, for any number; "index" looks at every item once, when a loader is made, and keeps the list
        (function then must not depend on random numbers).
        """
        if how not in ("window", "mask", "index"):
            raise ValueError(f"filter(): how should be 'window', 'mask' or 'index', but got {how!r}")
        return self._with(stages.Filter(_callable("filter", function), how))

    def cache(self, place: str = "memory", budget_bytes: int | None = None, folder=None, total_bytes: int | None = None):
        """Keeps each item's sample as it is here, as many as the budget holds (1 GiB), for all workers together.

        place: "memory", while the loader lives, or "disk", in the cache folder, for later runs too. Random ops belong behind it.
        "index": not samples, but what makes decoding stored pictures cheaper from the second epoch on, on disk (`folder`, 16 GiB, and
        `total_bytes` of all sources there, by default half of the disk);
        random ops stay random, and no byte changes: docs/guide/loader.md, "Decoding less".
        """
        if place in picture_cache.KINDS:
            return self._with(stages.OfPictures(picture_cache.PictureCache.of(place, folder, budget_bytes, total_bytes)))
        if place not in ("memory", "disk"):
            named = ", ".join(map(repr, ("memory", "disk", *picture_cache.KINDS)))
            raise ValueError(f"cache(): place should be one of {named}, but got {place!r}")
        if folder is not None or total_bytes is not None:
            raise ValueError("folder and total_bytes are for caches of pictures; samples are kept in the cache folder")
        return self._with(stages.Cache(place, whole("cache(): budget_bytes", 1 << 30 if budget_bytes is None else budget_bytes, 1, 1 << 63)))

    # ---- batches

    def shard(self, rank: int, world: int):
        """This consumer's rows of every batch of B: floor(rank B / world) up to floor((rank + 1) B / world)."""
        world = whole("shard(): world", world, 1)
        return self._with(stages.Shard(whole("shard(): rank", rank, end=world), world))

    def batch(self, size: int, drop_last: bool = False, collate=None):
        """Batches of `size` samples, of all ranks together. collate: None stacks arrays and numbers, "ragged" leaves arrays
        as lists, a function makes what it likes of a list of samples, in the workers."""
        if collate is not None and collate != "ragged" and not callable(collate):
            raise TypeError(f"batch(): collate should be None, 'ragged' or a function, but got {collate!r}")
        return self._with(stages.Batch(whole("batch(): size", size, 1), bool(drop_last), collate))

    def map_batches(self, function, size: int | None = None):
        """function(batch) of each window of `size` positions that are fixed (by default the batch), in worker processes."""
        size = None if size is None else whole("map_batches(): size", size, 1)
        return self._with(stages.MapBatches(_callable("map_batches", function), size))

    def prefetch(self, batches: int):
        """How many batches to be ahead, at least."""
        return self._with(stages.Prefetch(whole("prefetch(): batches", batches, 1)))

    def on_device(self, *names):
        """Leaves the last ops to the consumer's device: those named, or all of the last that can be there (to_float,
        normalize, flips). Rows travel as bytes; the random parameters are those that the ops would have drawn."""
        from stoker.data.device_ops import device_ops

        return self._with(stages.OnDevice(device_ops([op.fields for op in self._ops()], names)))

    # ---- faces

    def numpy(self, workers: int | None = None):
        """A loader of NumPy arrays. workers: processes that make samples (0: this one; None: as there are cores, up to 8)."""
        from stoker.data.face_numpy import numpy_face

        return numpy_face(self._as_pipe(), workers)

    def torch(self, device=None, pin_memory: bool = False, workers: int | None = None):
        """A loader of tensors, on `device` (None: in memory), or in pinned memory."""
        from stoker.data.face_torch import torch_face

        return torch_face(self._as_pipe(), device, pin_memory, workers)

    def jax(self, workers: int | None = None):
        """A loader of jax arrays on jax's default device; 64-bit numbers only with jax_enable_x64."""
        from stoker.data.face_jax import jax_face

        return jax_face(self._as_pipe(), workers)

    def tensorflow(self, workers: int | None = None):
        """A tf.data.Dataset; its `loader` is ours, for state_dict(). Each iteration of it is an epoch."""
        from stoker.data.face_tensorflow import tensorflow_face

        return tensorflow_face(self._as_pipe(), workers)

    def explain(self):
        """What runs natively and what as Python, and why."""
        loader = self.numpy(workers=0)
        return loader.explain()

    def _with(self, stage) -> "Pipe":
        pipe = self._as_pipe()
        return replace(pipe, stages=(*pipe.stages, stage))

    def _as_pipe(self) -> "Pipe":
        return self if isinstance(self, Pipe) else Pipe(self)

    def _ops(self) -> list:
        return [stage for stage in self._as_pipe().stages if isinstance(stage, stages.Op)]


@dataclass(frozen=True)
class Pipe(Fluent):
    """A source and stages. `len`: samples of an epoch, or batches once batch() was called."""

    source: object
    stages: tuple = ()

    def __len__(self) -> int:
        from stoker.data.fluent_build import length

        return length(self)

    def __iter__(self):
        raise TypeError(f"a pipe is what is to be done, and {CALL_A_FACE}: for batch in pipe.torch(): …")

    def __repr__(self) -> str:
        return ".".join([repr(self.source), *map(str, self.stages)])


def pipe(dataset) -> Pipe:
    """A pipe of any map-style dataset (len and [i]), such as torch's."""
    if isinstance(dataset, Fluent):
        return dataset._as_pipe()
    refuse_path(dataset)
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise TypeError(f"{type(dataset).__name__} is no map-style dataset: it needs len() and samples by number")
    return Pipe(dataset)


def refuse_path(dataset) -> None:
    """A text has len() and [i] as a dataset has."""
    if isinstance(dataset, (str, bytes, os.PathLike)):
        raise TypeError(f"{dataset!r} is no dataset; of a folder of pictures one is made by stoker.data.image_folder({dataset!r})")


def _callable(method: str, function):
    if not callable(function):
        raise TypeError(f"{method}() takes a function, but got {function!r}")
    return function
