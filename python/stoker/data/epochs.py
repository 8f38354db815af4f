# SPDX-License-Identifier: Apache-2.0
"""Where the seeds of an epoch come from.

torch draws from its generator at every iter(): a base seed, and a seed (or a permutation) for the shuffle. We draw as
often. The first draws of a loader are the root of its stream: plan seed and order seed; the epochs after it are numbers
in that stream, so that a cursor of two seeds and a number brings back every later epoch too. A generator that was seeded
anew in between begins a new root, and one that was put back where it stood before gives the epoch it gave then:
both as with torch.
"""

import random
import sys
from dataclasses import dataclass, replace

_MASK = (1 << 63) - 1
_REMEMBERED = 4096  # draws kept to recognise a generator that was put back
_PERMUTED = 1 << 24  # items up to which torch's randperm draws on an explicit generator are repeated


@dataclass(frozen=True)
class EpochSeeds:
    """A value: which epoch of which stream."""

    plan: int  # seed of the random parameters of samples
    order: int  # seed of the bijection
    epoch: int


class SeedStream:
    """Confined. `generator` is a torch.Generator or None (torch's global one, or `random` where torch is not loaded)."""

    def __init__(self, generator, shuffle: bool, items: int):
        self._generator = generator
        self._shuffle = shuffle
        self._items = items
        self._current = None
        self._root_mark = None
        self._restored = self._finished = False
        self._seen = {}
        self._ahead = None  # what peek() has drawn, and the generator's mark then

    def peek(self, *, draw_base: bool) -> EpochSeeds:
        """What next() will give, unless the generator is seeded anew before."""
        if self._ahead is None or self._ahead[1] != self._mark():
            self._ahead = self.next(draw_base=draw_base), self._mark()
        return self._ahead[0]

    def next(self, *, draw_base: bool) -> EpochSeeds:
        """The next epoch. `draw_base` is false where torch draws no base seed (workers that persist)."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[1] == self._mark():
            return ahead[0]
        base = self._draw() if draw_base else None
        order = self._draw_order() if self._shuffle else None
        drawn = (base, order)
        mark = self._mark()
        if self._current is None or (mark != self._root_mark and not self._restored and base is not None):
            root = base if base is not None else self._draw()
            self._current = EpochSeeds(root, order if order is not None else 0, 0)
            self._seen = {}
        elif drawn != (None, None) and drawn in self._seen:
            self._current = replace(self._current, epoch=self._seen[drawn])
        elif self._restored and not self._finished:
            pass  # the epoch that the cursor stands in
        else:
            self._current = replace(self._current, epoch=self._current.epoch + 1)
        self._root_mark, self._restored = mark, False
        if drawn != (None, None) and len(self._seen) < _REMEMBERED:
            self._seen[drawn] = self._current.epoch
        return self._current

    def restore(self, seeds: EpochSeeds, finished: bool) -> None:
        """The next epoch is that of `seeds`, or the one after it when that was finished."""
        self._current, self._restored, self._finished, self._seen = seeds, True, finished, {}
        self._ahead = None

    def end_of_order(self) -> None:
        """What torch's RandomSampler draws when it has given its last index."""
        if self._shuffle and self._generator is not None and self._items <= _PERMUTED:
            _torch().randperm(self._items, generator=self._generator)

    def _draw(self) -> int:
        torch = _torch()
        if torch is None:
            return random.getrandbits(63)
        return torch.empty((), dtype=torch.int64).random_(generator=self._generator).item() & _MASK

    def _draw_order(self) -> int:
        if self._generator is None:
            return self._draw()
        # torch permutes with the generator itself: take a seed from it, then let it go as far as a permutation would.
        torch = _torch()
        before = self._generator.get_state()
        seed = self._draw()
        if self._items <= _PERMUTED:
            self._generator.set_state(before)
            torch.randperm(self._items, generator=self._generator)
        return seed

    def _mark(self):
        torch = _torch()
        if torch is None:
            return None
        return torch.initial_seed() if self._generator is None else self._generator.initial_seed()


def _torch():
    return sys.modules.get("torch")
