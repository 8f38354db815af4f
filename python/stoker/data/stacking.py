# SPDX-License-Identifier: Apache-2.0
"""Stacks samples straight into the slot that their batch travels in, where a worker process has one for it.

A batch of pictures is tens of megabytes: stacked into memory of its own it costs a page fault per 4 KiB and a copy more than
the samples do that go into it. A worker offers the slot of the request that it serves; who collates by rules of ours (torch's
default_collate, numpy_collate) and hands the batch on unseen says so with placed(), and only its thread gets memory there: what
user code stacks meanwhile stays its own. Bytes come to lie where units.py puts them, or are moved there by it.
"""

import threading
from contextlib import contextmanager

import numpy

from stoker.data import units

_offered = None  # a slot's bytes, by a worker's one thread
_at = 0
_thread = None  # that may place


def offer(slot) -> None:
    """The memory (a writable memoryview, or None) in which the next batch may be stacked. It begins anew with each call."""
    global _offered, _at
    _offered, _at = slot, units.BEGIN


@contextmanager
def placed():
    """While a batch is collated that nobody keeps."""
    global _thread
    _thread = threading.get_ident() if _offered is not None else None
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
