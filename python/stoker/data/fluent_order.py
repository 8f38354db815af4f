# SPDX-License-Identifier: Apache-2.0
"""Which item stands at place i of epoch e of a pipe: a chain of steps, each of which says where a place was before it.

A step is a list, as it stands in a cursor (docs/formats/cursor.md, order `chain/1`): ["full", seed], ["block", k, seed],
["take", n], ["skip", n], ["repeat", times], ["chosen", hash of the items]. Pure, but for native orders that are made once.
"""

import hashlib
import json

import numpy

from stoker import _native
from stoker.data import cursor as cursors

ENDLESS = 1 << 40  # samples that repeat() without a number is good for
_PREFIX = "chain/1:"
_LONGEST = 400  # characters of a chain that a cursor spells out


class Order:
    """A chain over `items` items. `starts`: of shards, for block orders; `chosen`: arrays of items by their hash."""

    def __init__(self, items: int, steps, starts=None, chosen=None):
        self.items = self.length = items
        self.steps = [list(step) for step in steps]
        self.endless = False
        self._back = []  # (kind, length before, argument) of each step
        for kind, *arguments in self.steps:
            before = self.length
            if before == 0 and kind in ("full", "block", "repeat"):
                continue
            if self.endless and kind in ("full", "block"):
                raise ValueError("shuffle() behind repeat() without a number: there is no last sample to shuffle with")
            if kind == "full":
                self._back.append((kind, before, _native.pipeline.Order("full", before, arguments[0])))
            elif kind == "block":
                self._back.append((kind, before, _blocks(starts, before, *arguments)))
            elif kind == "take":
                self.length = min(before, arguments[0])
                self.endless = False
            elif kind == "skip":
                self.length = max(before - arguments[0], 0)
                self._back.append((kind, before, arguments[0]))
            elif kind == "repeat":
                times = arguments[0] or max(ENDLESS // before, 1)
                self.endless = self.endless or arguments[0] is None
                self.length = before * times
                self._back.append((kind, before, times))
            elif kind == "chosen":
                found = (chosen or {})[arguments[0]]
                self.length = len(found)
                self._back.append((kind, before, found))
            else:
                raise ValueError(f"an order has no step {kind!r}")

    def at(self, epoch: int, first: int, count: int) -> numpy.ndarray:
        """Items (int64) of `count` places from `first` on."""
        places = numpy.arange(first, first + count, dtype=numpy.int64)
        epochs = numpy.full(count, epoch, dtype=numpy.int64)
        for kind, before, argument in reversed(self._back):
            if kind in ("full", "block"):
                places = _ordered(argument, epochs * before + places)
            elif kind == "skip":
                places = places + argument
            elif kind == "repeat":
                epochs, places = epochs * argument + places // before, places % before
            else:
                places = argument[places]
        return places

    def text(self) -> str:
        """What a cursor says of it."""
        if not self.steps:
            return cursors.SEQUENTIAL
        if len(self.steps) == 1 and self.steps[0][0] == "full":
            return cursors.FULL
        spelled = json.dumps(self.steps, separators=(",", ":"))
        if len(spelled) > _LONGEST:
            return _PREFIX + hashlib.sha256(spelled.encode()).hexdigest()
        return _PREFIX + spelled

    def seed(self) -> int:
        """Of the last shuffle, else 0."""
        return next((step[-1] for step in reversed(self.steps) if step[0] in ("full", "block")), 0)


def steps_of(text: str, order_seed: int):
    """The steps that a cursor's `order` names, or None where it does not spell them out."""
    if text == cursors.SEQUENTIAL:
        return []
    if text == cursors.FULL:
        return [["full", order_seed]]
    if text.startswith("block(") and text.endswith(")"):
        return [["block", int(text[6:-1]), order_seed]]
    if not text.startswith(_PREFIX + "["):
        return None
    steps = json.loads(text[len(_PREFIX) :])
    return None if any(step[0] == "chosen" for step in steps) else steps


def _ordered(order, positions: numpy.ndarray) -> numpy.ndarray:
    count = len(positions)
    if count == 0 or (positions[-1] - positions[0] == count - 1 and (numpy.diff(positions) == 1).all()):
        return order.items(int(positions[0]), count) if count else positions
    return numpy.concatenate([order.items(int(position), 1) for position in positions])


def _blocks(starts, items: int, shards: int, seed: int):
    if starts is None:
        raise TypeError(f"shuffle(block={shards}) needs a source that is stored in shards, right before it; use shuffle()")
    starts = [int(start) for start in starts]
    if starts[-1] != items:
        raise TypeError(f"shuffle(block={shards}) goes right behind the source: {starts[-1]} samples there, {items} here")
    return _native.pipeline.BlockOrder.make(starts, shards, seed)
