# SPDX-License-Identifier: Apache-2.0
"""Batches without torch: torch's default_collate with NumPy arrays in the place of tensors. Pure."""

import collections.abc
import copy

import numpy

from stoker.data import stacking

_MESSAGE = "batch must contain arrays, numbers, strings, dicts or lists; found {}"


def numpy_collate(batch):
    """Stacks samples of one shape: arrays and numbers to arrays, dicts and sequences member by member."""
    first = batch[0]
    if isinstance(first, numpy.ndarray):
        if first.dtype.hasobject or first.dtype.kind in "SU":
            raise TypeError(_MESSAGE.format(first.dtype))
        return stacking.arrays(batch)
    if isinstance(first, (numpy.bool_, numpy.number)):
        return numpy.asarray(batch)
    if isinstance(first, float):
        return numpy.asarray(batch, dtype=numpy.float64)
    if isinstance(first, int):
        return numpy.asarray(batch)
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, collections.abc.Mapping):
        members = {key: numpy_collate([sample[key] for sample in batch]) for key in first}
        return _like(first, members)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(numpy_collate(samples) for samples in zip(*batch, strict=True)))
    if isinstance(first, collections.abc.Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [numpy_collate(samples) for samples in zip(*batch, strict=True)]
    raise TypeError(_MESSAGE.format(type(first)))


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
