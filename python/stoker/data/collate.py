# SPDX-License-Identifier: Apache-2.0
"""Batches without torch: torch's default_collate with NumPy arrays in the place of tensors. Pure."""

import collections.abc
import copy

import numpy

from stoker.data import stacking

_MESSAGE = "batch must contain arrays, numbers, strings, dicts or lists; found {}"
_INT64, _UINT64 = (-(1 << 63), 1 << 63), (0, 1 << 64)


def numpy_collate(batch):
    """Stacks samples of one shape: arrays and numbers to arrays, dicts and sequences member by member, texts to lists.

    Numbers of several types have the type that NumPy gives them (True and 2: int64; 1 and 0.5: float64, which holds integers up
    to 2**53 without rounding), with one exception: integers stay integers. Those that no int64 holds make a uint64 array if
    that holds all, else OverflowError names one. What is no number among numbers or arrays (a text, None), or a number among
    texts, is a TypeError that says which item differs.
    """
    return _collated(batch, "")


def _collated(batch, member: str):
    first = batch[0]
    if isinstance(first, numpy.ndarray):
        if first.dtype.hasobject or first.dtype.kind in "SU":
            raise TypeError(_MESSAGE.format(first.dtype))
        return _stacked(batch, member)
    if isinstance(first, (numpy.bool_, numpy.number, float, int)):
        return numbers(batch, member)
    if isinstance(first, (str, bytes)):
        for number, one in enumerate(batch):
            if isinstance(one, (numpy.bool_, numpy.number, float, int)):
                raise _differing(batch, number, member)
        return list(batch)
    if isinstance(first, collections.abc.Mapping):
        members = {key: _collated([sample[key] for sample in batch], f"{member}[{key!r}]") for key in first}
        return _like(first, members)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(_collated(samples, f"{member}.{name}") for name, samples in zip(first._fields, zip(*batch, strict=True), strict=True)))
    if isinstance(first, collections.abc.Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [_collated(samples, f"{member}[{number}]") for number, samples in enumerate(zip(*batch, strict=True))]
    raise TypeError(_MESSAGE.format(type(first)))


def numbers(batch, member: str = "") -> numpy.ndarray:
    """Numbers as an array of one dimension, by numpy_collate's rule."""
    if not all(map(_is_plain, set(map(type, batch)))):
        wanted = (0, _kind_of(numpy.asarray(batch[0])))
        for number in range(len(batch)):
            other = _array(batch, number, member)  # one without dimensions is a number too
            if (other.ndim, _kind_of(other)) != wanted:
                raise _differing(batch, number, member)
    array = numpy.asarray(batch)
    if array.dtype.kind in "fO" and _are_integers(batch):
        return numpy.asarray(batch, dtype=_of_integers([int(one) for one in batch], member))
    as_float64 = array.dtype.kind == "O" or (array.dtype.kind == "f" and isinstance(batch[0], float))
    return array.astype(numpy.float64, copy=False) if as_float64 else array


def _is_plain(kind: type) -> bool:
    return issubclass(kind, (numpy.bool_, numpy.number, float, int)) and not issubclass(kind, numpy.timedelta64)


def _kind_of(array: numpy.ndarray) -> str:
    """Alike for what stacks without a change of meaning."""
    return "number" if array.dtype.kind in "biufc" else array.dtype.kind


def _are_integers(batch) -> bool:
    return all(isinstance(one, (int, numpy.bool_, numpy.integer)) or numpy.asarray(one).dtype.kind in "biu" for one in batch)


def _of_integers(values, member: str):
    """The type that holds them all."""
    low, high = min(values), max(values)
    for kind, (begin, end) in ((numpy.int64, _INT64), (numpy.uint64, _UINT64)):
        if begin <= low and high < end:
            return kind
    worst, beside = (high, low) if high >= _INT64[1] else (low, high)
    held = "no 64-bit integer holds it" if worst < _INT64[0] or worst >= _UINT64[1] else f"it needs uint64, which does not hold {beside}, in the same batch"
    raise OverflowError(f"{_named(member)}{worst} is among integers to be stacked, and {held}; give such numbers as texts or floats")


def _stacked(batch, member: str):
    first = batch[0]
    if all(type(one) is numpy.ndarray and one.dtype == first.dtype for one in batch):
        return stacking.arrays(batch)
    arrays = [_array(batch, number, member) for number in range(len(batch))]
    kinds = list(map(_kind_of, arrays))
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise _differing(batch, number, member)
    if all(array.dtype.kind in "biu" for array in arrays) and numpy.result_type(*arrays).kind == "f":
        kind = _of_integers([int(end) for array in arrays if array.size for end in (array.min(), array.max())] or [0], member)
        return numpy.stack([array.astype(kind) for array in arrays])
    return stacking.arrays(batch)


def _array(batch, number: int, member: str) -> numpy.ndarray:
    try:
        return numpy.asanyarray(batch[number])
    except ValueError:  # a list whose rows differ
        raise _differing(batch, number, member) from None


def _differing(batch, number: int, member: str) -> TypeError:
    return TypeError(
        f"{_named(member)}samples of different kinds cannot be stacked: item 0 of the batch is {_kind(batch[0])}, item {number} is "
        f"{_kind(batch[number])}; give all samples the same kind, or the batch a collate function"
    )


def _named(member: str) -> str:
    return f"sample{member}: " if member else ""


def _kind(one) -> str:
    if one is None:
        return "None"
    if isinstance(one, numpy.ndarray):
        return f"an array of {one.dtype}, shape {one.shape}"
    return f"{type(one).__name__} ({repr(one)[:60]})"


def numpy_convert(sample):
    """What `batch_size=None` does to a sample: nothing, there is nothing to convert to."""
    return sample


def _like(mapping, members):
    try:
        if isinstance(mapping, collections.abc.MutableMapping):
            clone = copy.copy(mapping)
            clone.update(members)
            return clone
        return type(mapping)(members)
    except TypeError:
        return members
