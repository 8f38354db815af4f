# SPDX-License-Identifier: Apache-2.0
"""Stacks samples straight into the slot that their batch travels in, where a worker process has one for it.

A batch of pictures is tens of megabytes: stacked into memory of its own it costs a page fault per 4 KiB and a copy more than
the samples do that go into it. A worker offers the slot of the request that it serves; who collates by rules of ours (torch's
default_collate, numpy_collate) and hands the batch on unseen says so with placed(), and only its thread gets memory there: what
user code stacks meanwhile stays its own. A class of the user's among the samples is such code: a mapping is shown the batch by its
update(), a tuple by its __new__, and could keep it. So there is a place only for batches of Python's own containers with NumPy's,
torch's and Python's own values in them. Bytes come to lie where units.py puts them, or are moved there by it.
"""

import collections
import copyreg
import sys
import threading
from contextlib import contextmanager

import numpy

from stoker.data import units

_offered = None  # a slot's bytes, by a worker's one thread
_at = 0
_thread = None  # that may place

_KEYS = frozenset({str, int, bytes})  # of dicts: a key of the user's is asked for its hash
_VALUES = frozenset({int, float, bool, str, bytes, numpy.ndarray})
_DEPTH = 20
# What collections.namedtuple and typing.NamedTuple put into a class under names that Python itself asks for.
_OF_NAMEDTUPLES = frozenset(
    "__annotations__ __annotate_func__ __annotations_cache__ __dict__ __doc__ __firstlineno__ __getnewargs__ __match_args__ __module__ "
    "__new__ __orig_bases__ __replace__ __repr__ __slots__ __static_attributes__ __type_params__ __weakref__".split()
)


def offer(slot) -> None:
    """The memory (a writable memoryview, or None) in which the next batch may be stacked. It begins anew with each call."""
    global _offered, _at
    _offered, _at = slot, units.BEGIN


@contextmanager
def placed(samples):
    """While these are collated to a batch that nobody keeps."""
    global _thread
    _thread = threading.get_ident() if _offered is not None and call_nobody(samples) else None
    try:
        yield
    finally:
        _thread = None


def arrays(samples: list) -> numpy.ndarray:
    """numpy.stack(samples): its values and layout."""
    if _thread is None:
        return numpy.stack(samples)
    first = samples[0]
    alike = all(type(one) is numpy.ndarray and one.dtype == first.dtype and one.shape == first.shape for one in samples)
    if not alike or first.dtype.kind not in "biufc" or not first.dtype.isnative:
        return numpy.stack(samples)
    memory = _taken(first.nbytes * len(samples))  # what is not placed leaves its place free
    if not all(one.flags.c_contiguous for one in samples):
        memory = None
    out = None if memory is None else numpy.frombuffer(memory, first.dtype).reshape(len(samples), *first.shape)
    return numpy.stack(samples, out=out)


def tensors(torch, samples: list):
    """torch.stack(samples): its values and layout."""
    first = samples[0]
    if _thread is None:
        return torch.stack(samples, 0)
    memory = _taken(first.numel() * first.element_size() * len(samples))
    if memory is None or not all(_is_plain(torch, one, first) for one in samples):
        return torch.stack(samples, 0)
    out = torch.frombuffer(memory, dtype=first.dtype).view(len(samples), *first.shape)
    return torch.stack(samples, 0, out=out)


def call_nobody(samples) -> bool:
    """Whether no code of the user's is run when these are collated and pickled."""
    torch = sys.modules.get("torch")
    return _calls_nobody(samples, torch and torch.Tensor, set(), _DEPTH)


def _calls_nobody(value, tensor, namedtuples: set, depth: int) -> bool:
    kind = type(value)
    if _is_value(kind, tensor):
        return True
    if depth == 0:
        return False
    if kind is dict:
        if not _KEYS.issuperset(map(type, value)):
            return False
        value = value.values()
    elif kind is not list and kind is not tuple and kind not in namedtuples:
        if not _is_namedtuple(kind):
            return False
        namedtuples.add(kind)
    # By class first: a call per number of a long list costs as much as stacking them.
    kinds = set(map(type, value))
    if kinds <= _VALUES or all(_is_value(one, tensor) for one in kinds):
        return True
    return all(_calls_nobody(one, tensor, namedtuples, depth - 1) for one in value)


def _is_value(kind, tensor) -> bool:
    return kind is tensor or kind in _VALUES or (issubclass(kind, numpy.generic) and kind.__module__ == "numpy")


def _is_namedtuple(kind) -> bool:
    """As it was made: nothing that collating or pickling calls was put there by others."""
    if type(kind) is not type or kind.__bases__ != (tuple,) or kind in copyreg.dispatch_table:
        return False
    asked_for = {name for name in vars(kind) if name.startswith("__")}
    if type(getattr(kind, "_fields", None)) is not tuple or not asked_for <= _OF_NAMEDTUPLES:
        return False
    made_in, pickled_in = (getattr(method, "__globals__", {}) for method in (kind.__new__, kind.__getnewargs__))
    return made_in.get("_tuple_new") is tuple.__new__ and pickled_in is vars(collections)


def _is_plain(torch, one, first) -> bool:
    return (
        type(one) is torch.Tensor
        and one.dtype == first.dtype
        and one.shape == first.shape
        and one.device.type == "cpu"
        and one.layout is torch.strided
        and one.is_contiguous()
        and not (one.requires_grad or one.is_conj() or one.is_neg() or one.is_quantized)
    )


def _taken(size: int):
    """The next `size` bytes of the slot, or None."""
    global _at
    if _offered is None or _thread != threading.get_ident() or size < units.LARGE or _at + size > _offered.nbytes:
        return None
    memory = _offered[_at : _at + size]
    _at = units.aligned(_at + size)
    return memory
