# SPDX-License-Identifier: Apache-2.0
"""What a fluent pipe is made of: frozen values, one per method call. fluent_build.py turns them into a loader."""

from dataclasses import dataclass
from typing import Any, Callable

from stoker.data.plan import full_name


@dataclass(frozen=True)
class Op:
    """An op of a native plan; `fields` as in docs/formats/plan.md, `number` its place among the pipe's ops: its draws."""

    fields: dict
    number: int

    def __str__(self):
        fields = ", ".join(f"{key}={value}" for key, value in self.fields.items() if key != "op")
        return f"{self.fields['op']}({fields})"


@dataclass(frozen=True)
class Map:
    function: Callable

    def __str__(self):
        return f"map({full_name(self.function)})"


@dataclass(frozen=True)
class FlatMap:
    function: Callable

    def __str__(self):
        return f"flat_map({full_name(self.function)})"


@dataclass(frozen=True)
class Filter:
    function: Callable
    how: str  # "window", "mask" or "index"

    def __str__(self):
        return f"filter({full_name(self.function)}, {self.how})"


@dataclass(frozen=True)
class Cache:
    place: str  # "memory" or "disk"
    budget_bytes: int

    def __str__(self):
        return f"cache({self.place}, {self.budget_bytes} bytes)"


@dataclass(frozen=True)
class Shuffle:
    seed: int
    block: int | None

    def __str__(self):
        return f"shuffle({self.seed})" if self.block is None else f"shuffle({self.seed}, block={self.block})"


@dataclass(frozen=True)
class Take:
    count: int

    def __str__(self):
        return f"take({self.count})"


@dataclass(frozen=True)
class Skip:
    count: int

    def __str__(self):
        return f"skip({self.count})"


@dataclass(frozen=True)
class Repeat:
    times: int | None

    def __str__(self):
        return f"repeat({'' if self.times is None else self.times})"


@dataclass(frozen=True)
class Shard:
    rank: int
    world: int

    def __str__(self):
        return f"shard({self.rank}, {self.world})"


@dataclass(frozen=True)
class Batch:
    size: int
    drop_last: bool
    collate: Any  # None: stack; "ragged": arrays stay a list; or a function of the list of samples

    def __str__(self):
        return f"batch({self.size})"


@dataclass(frozen=True)
class MapBatches:
    function: Callable
    size: int | None  # positions of a window; None: the batch

    def __str__(self):
        return f"map_batches({full_name(self.function)})"


@dataclass(frozen=True)
class OfPictures:
    """What is kept of stored pictures; changes no sample."""

    cache: Any  # picture_cache.PictureCache

    def __str__(self):
        return f"cache({self.cache.kind!r})"


@dataclass(frozen=True)
class Prefetch:
    batches: int

    def __str__(self):
        return f"prefetch({self.batches})"


@dataclass(frozen=True)
class OnDevice:
    """How many of the last ops the consumer's device does."""

    ops: int

    def __str__(self):
        return f"on_device({self.ops} ops)"


@dataclass(frozen=True)
class Seed:
    """Of the random parameters."""

    seed: int

    def __str__(self):
        return f"seed({self.seed})"


ORDERING = (Shuffle, Take, Skip, Repeat)
SAMPLES = (Op, Map, FlatMap, Filter, Cache)
