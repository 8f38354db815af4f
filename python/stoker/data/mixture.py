# SPDX-License-Identifier: Apache-2.0
"""Weighted mixtures of map-style sources, as a function of the position: docs/formats/mixture.md.

Weights become whole shares w of T. Every T positions in a row hold exactly w samples of each source, in an order that is a
keyed bijection of the block; the j-th sample taken of a source is its item j mod len, under a new bijection per pass. Which
sample of its source one is needs a count of those before only in blocks in which a pass ends; elsewhere any numbering of the
block's own makes the same pass, so that a position costs the same anywhere.
"""

import json
from fractions import Fraction
from functools import lru_cache
from math import lcm
from numbers import Rational

import numpy

from stoker import _native
from stoker.data.fluent import Fluent, Pipe, pipe
from stoker.data.identity import what_stands_for
from stoker.data.whole import SEED_END, whole

_RULE = 2  # of the order, in the plan: 1 had passes that ended anywhere within their block
_MOST_SHARES = 4096
_FINEST = 1_000_000  # denominator of a weight
_PASS = 1 << 32  # passes of a source are counted in the epoch of its order's key


def mix(sources, weights=None, seed: int = 0, end: str = "stop", shuffle: bool = True) -> "Mixture | Pipe":
    """A map-style dataset that takes each source in proportion to its weight (equal ones by default); of pipes, a pipe.

    end: 'stop' ends before the first sample that would repeat one of its source; 'repeat' begins sources anew until the
    longest (by its weight) was given whole. Of a source of weight 0 nothing is taken. shuffle=False takes the items of each
    source in its own order. `len`, and what stands at a position, depend on nothing but the arguments and the lengths of the
    sources.
    """
    if isinstance(sources, (str, bytes, Fluent)) or not hasattr(sources, "__iter__"):
        raise TypeError(f"mix(): sources should be a list of them, mix([a, b], weights=…), but got {sources!r}")
    sources = list(sources)
    pipes = [_as_pipe(number, source) for number, source in enumerate(sources)]
    if any(isinstance(source, Pipe) for source in sources):
        from stoker.data.fluent_samples import MixedPipes

        return Pipe(MixedPipes(pipes, weights, seed, end, shuffle))
    return Mixture(sources, weights, seed, end, shuffle)


def _as_pipe(number: int, source) -> Pipe:
    try:
        return pipe(source)
    except TypeError as error:
        raise TypeError(f"mix(): source {number}: {error}") from None


class Mixture(Fluent):
    """See mix(). `at(position)` says which source, and which item of it."""

    def __init__(self, sources, weights, seed, end, shuffle):
        if isinstance(weights, (str, bytes, dict, Fluent)) or not (weights is None or hasattr(weights, "__iter__")):
            raise TypeError(f"mix(): weights should be a list of numbers, one for each source, but got {weights!r}; sources go in one list, mix([a, b])")
        weights = [1] * len(sources) if weights is None else list(weights)
        if not sources or len(weights) != len(sources):
            raise ValueError(f"mix(): {len(sources)} sources and {len(weights)} weights: one for each is needed")
        if end not in ("stop", "repeat"):
            raise ValueError(f"end should be 'stop' or 'repeat', but got {end!r}")
        self.sources = sources
        self.shares = _shares(weights)
        self._seed = whole("seed", seed, end=SEED_END)
        self._shuffle = shuffle
        self._lengths = [len(source) for source in sources]
        if 0 in self._lengths:
            raise ValueError(f"source {self._lengths.index(0)} is empty")
        self._block = sum(self.shares)
        self._starts = [sum(self.shares[:i]) for i in range(len(sources))]
        self._orders = {}
        self._length = self._count(end)

    def __len__(self) -> int:
        return self._length

    def at(self, position: int) -> tuple:
        """(number of the source, item of it) at a position in [0, len)."""
        source, ordinal = self._dealt(position)
        passed, index = divmod(ordinal, self._lengths[source])
        if self._shuffle:
            order = self._order(("items", source), self._lengths[source], self._seed + 1 + source)
            index = order(passed % _PASS * self._lengths[source] + index)
        return source, index

    def __getitem__(self, position):
        position = int(position)
        if not -len(self) <= position < len(self):
            raise IndexError(f"position {position} of {len(self)}")
        source, item = self.at(position % len(self))
        return self.sources[source][item]

    def identity(self) -> str:
        return json.dumps(["mix", _RULE, self.shares, len(self), self._seed, self._shuffle, *map(what_stands_for, self.sources)])

    def __repr__(self) -> str:
        parts = ", ".join(f"{share}/{self._block} {source!r}" for share, source in zip(self.shares, self.sources))
        return f"<mix: {len(self)} of {parts}>"

    def __getstate__(self):
        return {**self.__dict__, "_orders": {}}

    def _dealt(self, position: int) -> tuple:
        """(source, how many of it were dealt before)."""
        block, place = divmod(position, self._block)
        slot = self._order("block", self._block, self._seed)(position)
        source = max(i for i, start in enumerate(self._starts) if start <= slot and self.shares[i])
        share, length = self.shares[source], self._lengths[source]
        first = block * share
        if self._shuffle and first // length == (first + share - 1) // length:
            return source, first + slot - self._starts[source]
        before = self._owners(block)[:place]
        return source, first + int(numpy.count_nonzero(before == source))

    def _owners(self, block: int) -> numpy.ndarray:
        return _owners(tuple(self.shares), self._seed, block)

    def _order(self, name, items: int, seed: int):
        if name not in self._orders:
            self._orders[name] = _native.pipeline.Order("full", items, seed % (1 << 63))
        return self._orders[name]

    def _count(self, end: str) -> int:
        """The position that ends the mixture."""
        repeats = end == "repeat"
        # Of each source the sample that is the first too many, or the last that is needed; only those of one block matter.
        ends = [(*divmod(length - repeats, share), source) for source, (length, share) in enumerate(zip(self._lengths, self.shares)) if share]
        which = max if repeats else min
        block = which(ends)[0]
        owners = self._owners(block)
        return block * self._block + repeats + which(int(numpy.flatnonzero(owners == source)[rank]) for at, rank, source in ends if at == block)


@lru_cache(256)
def _owners(shares: tuple, seed: int, block: int) -> numpy.ndarray:
    """The source at each place of a block."""
    slots = _native.pipeline.Order("full", sum(shares), seed).items(block * sum(shares), sum(shares))
    return numpy.repeat(numpy.arange(len(shares), dtype=numpy.min_scalar_type(len(shares))), shares)[slots]


def _shares(weights) -> list:
    """Whole numbers in proportion to the weights, their sum at most 4096; exact for weights that are small fractions."""
    fractions = [_fraction(number, weight) for number, weight in enumerate(weights)]
    if not any(fractions):
        raise ValueError(f"weights {weights} should be numbers of at least 0, not all 0")
    total = sum(fractions)
    fractions = [fraction / total for fraction in fractions]
    near = [fraction.limit_denominator(1000) for fraction in fractions]
    scale = lcm(*(fraction.denominator for fraction in near))
    if sum(near) == 1 and scale <= _MOST_SHARES and all(bool(one) == bool(exact) for one, exact in zip(near, fractions, strict=True)):
        return [int(fraction * scale) for fraction in near]
    # The largest remainders make up for what rounding down left; a weight above 0 gets a share.
    exact = [fraction * _MOST_SHARES for fraction in fractions]
    shares = [max(int(value), 1 if value else 0) for value in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: exact[i] - shares[i], reverse=True)
    for i in by_remainder[: max(0, _MOST_SHARES - sum(shares))]:
        shares[i] += 1
    return shares


def _fraction(number: int, weight) -> Fraction:
    try:
        exact = Fraction(weight if isinstance(weight, (str, Rational)) else float(weight))
        sound = exact >= 0
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):  # no number, nan, infinite, "1/0"
        sound = False
    if not sound:
        raise ValueError(f"weights[{number}] is {weight!r}; weights are finite numbers of at least 0")
    near = exact.limit_denominator(_FINEST)
    return near if near or not exact else Fraction(1, _FINEST)
