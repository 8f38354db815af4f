# SPDX-License-Identifier: Apache-2.0
"""Which samples make which batch: streams of batches of one epoch, pulled as far as the loader looks ahead.

A batch is (first position, items, whole): positions are consecutive from the first; `whole` is false where the key is
one item and not a list of them (batch_size=None). `items` are an int64 array where the order is arithmetic, else a list.
Confined.
"""

import hashlib
import operator

import numpy

from stoker import _native
from stoker.data.cursor import EXPLICIT_STRIDE
from stoker.data.whole import whole

_ITEMS_END = 1 << 63


class Block:
    """block(k), for `shuffle=`: each epoch the shards of the dataset are shuffled, taken k at a time, and their items
    shuffled among these. Reads stay within k files; the larger k is, the more thorough the shuffle.

    The dataset has `shard_starts()`: the first item of each shard, and N at the end. webdataset(), tfrecord(), mds() and
    parquet() have it.
    """

    def __init__(self, shards: int):
        self.shards = whole("k of block(k)", shards, 1)

    def order(self, dataset, items: int, seed: int):
        starts = getattr(dataset, "shard_starts", None)
        if starts is None:
            raise TypeError(
                f"shuffle=block({self.shards}) needs to know the shards of the dataset: {type(dataset).__name__} has no "
                "shard_starts(); use shuffle=True, or a source that is stored in shards"
            )
        starts = [int(start) for start in starts()]
        if starts[-1] != items:
            raise ValueError(f"shard_starts() of the dataset ends at {starts[-1]}, its length is {items}")
        return _native.pipeline.BlockOrder.make(starts, self.shards, seed)

    def __repr__(self) -> str:
        return f"block({self.shards})"


class Counted:
    """An order that is arithmetic: sequential, or a bijection of ours. Starts at any batch in O(1)."""

    def __init__(self, order, items: int, batch_size: int, drop_last: bool, epoch: int, first_batch: int):
        """`order`: what gives the items of a range of positions, or None for the sequential order."""
        self._order = order
        self._items = items
        self._batch_size = batch_size
        self._epoch_start = epoch * items
        self._end = items // batch_size * batch_size if drop_last else items
        self._at = first_batch * batch_size

    def __iter__(self):
        return self

    def __next__(self):
        if self._at >= self._end:
            raise StopIteration
        count = min(self._batch_size, self._end - self._at)
        first = self._epoch_start + self._at
        if self._order is None:
            chosen = numpy.arange(self._at, self._at + count)
        else:
            chosen = self._order.items(first, count)
        self._at += count
        return first, chosen, True

    def digest(self) -> str:
        return ""


class Explicit:
    """A user's sampler or batch sampler, taken literally. Starts at a batch by skipping indices."""

    def __init__(self, index_sampler, batch_size, drop_last: bool, epoch: int, items, of_batches: bool = False):
        """`batch_size`: None where the sampler's own elements are batches (`of_batches`), or keys of samples."""
        self._source = iter(index_sampler)
        self._batch_size = batch_size
        self._of_batches = of_batches
        self._drop_last = drop_last
        self._at = epoch * EXPLICIT_STRIDE
        self._items = items  # len(dataset) or None: negative indices are counted from its end
        self._hash = hashlib.blake2b(digest_size=8)

    def __iter__(self):
        return self

    def __next__(self):
        if self._batch_size is None:
            key = next(self._source)
            many = self._of_batches or not is_index(key)
            if self._of_batches:
                key = _batch(key)
            chosen = [self._index(index) for index in key] if many else [self._index(key)]
            if not chosen:
                raise ValueError("the batch sampler gave a batch of no samples")
        else:
            chosen, many = [], True
            for index in self._source:
                chosen.append(self._index(index))
                if len(chosen) == self._batch_size:
                    break
            if not chosen or (self._drop_last and len(chosen) < self._batch_size):
                raise StopIteration
        first = self._at
        self._at += len(chosen)
        self._hash.update(numpy.asarray([len(chosen), *chosen], dtype="<i8").tobytes())
        return first, chosen, many

    def digest(self) -> str:
        """Of everything that the sampler has given so far: a resumed loader proves with it that it skipped the same."""
        return self._hash.hexdigest()

    def _index(self, index) -> int:
        try:
            number = operator.index(index)
        except TypeError:
            raise TypeError(
                f"the sampler gave {index!r} ({type(index).__name__}): only whole numbers can be asked of workers; map "
                "keys to numbers in the dataset"
            ) from None
        if number < 0 and self._items is not None:
            number += self._items
        if not 0 <= number < _ITEMS_END:
            among = "" if self._items is None else f" among {self._items}"
            raise IndexError(f"the sampler gave {index}: no such item{among}")
        return number


def numbers(items) -> list:
    """Items as Python's own integers, which is what a user's code is given."""
    return items.tolist() if isinstance(items, numpy.ndarray) else list(items)


def _batch(key):
    try:
        return iter(key)
    except TypeError:
        raise TypeError(
            f"the batch sampler gave {key!r} ({type(key).__name__}), where a list of items is a batch; items one by one are given by "
            "sampler="
        ) from None


def is_index(key) -> bool:
    try:
        operator.index(key)
        return True
    except TypeError:
        return False
