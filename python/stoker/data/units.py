# SPDX-License-Identifier: Apache-2.0
"""A unit: one collated batch of Python objects as bytes in a slot. docs/formats/unit.md is its format.

A pickle (protocol 5) holds the shape of the batch; the memory of its tensors and arrays lies before it, aligned to 64
bytes, where it can be stacked before the pickle is made, so that a reader gets views of the slot and copies nothing. The
caller owns the memory.
"""

import io
import pickle
import struct
import sys

import cloudpickle
import numpy

MAGIC = b"STKUNIT2"
ALIGN = 64
BEGIN = 64  # of the first buffer
LARGE = 64 << 10  # bytes; such buffers come first
_HEADER = struct.Struct("<8sQQQQ")  # magic, buffers, offset of the table, bytes of the pickle, bytes in all
_ENTRY = struct.Struct("<QQ")  # offset, size
# What of a long double is its value: x86 stores 80 bits in 16 bytes, and what lies in the rest differs from run to run.
_LONG_VALUE = 10 if numpy.finfo(numpy.longdouble).nmant == 63 else numpy.longdouble().itemsize


class EncodedUnit:
    """A unit before it has a place: the pickle, and views of the memory that goes before it."""

    def __init__(self, skeleton: bytes, buffers):
        self._skeleton = skeleton
        self._buffers = buffers
        self._entries = [(0, 0)] * len(buffers)
        # As they lie, the large ones first: those are stacked before anybody knows of small ones that come before them in the batch.
        self._order = sorted(range(len(buffers)), key=lambda number: buffers[number].nbytes < LARGE)
        at = BEGIN
        for number in self._order:
            self._entries[number] = (at, buffers[number].nbytes)
            at = aligned(at + buffers[number].nbytes)
        self._table_at = at
        self.size = at + _ENTRY.size * len(buffers) + len(skeleton)

    def write_to(self, slot: memoryview) -> None:
        """Writes the unit's `size` bytes at the start of `slot`. Gaps are zeroed: equal units have equal bytes. Buffers that lie
        in their places there already stay (stacking.py)."""
        begin = _address(slot)
        lie_at = [_address(buffer) - begin for buffer in self._buffers]
        self._move_out([number for number, (start, _) in enumerate(self._entries) if lie_at[number] != start], slot)
        _HEADER.pack_into(slot, 0, MAGIC, len(self._buffers), self._table_at, len(self._skeleton), self.size)
        at = _HEADER.size
        for number in self._order:
            start, size = self._entries[number]
            slot[at:start] = bytes(start - at)
            if lie_at[number] != start:
                slot[start : start + size] = self._buffers[number]
            at = start + size
        slot[at : self._table_at] = bytes(self._table_at - at)
        at = self._table_at
        for entry in self._entries:
            _ENTRY.pack_into(slot, at, *entry)
            at += _ENTRY.size
        slot[at : at + len(self._skeleton)] = self._skeleton

    def leave(self, slot: memoryview) -> None:
        """Moves what lies in `slot` to memory of its own: another slot comes, and this one goes to others."""
        self._move_out(range(len(self._buffers)), slot)

    def _move_out(self, numbers, slot) -> None:
        begin = _address(slot)
        for number in numbers:
            if begin <= _address(self._buffers[number]) < begin + slot.nbytes:
                self._buffers[number] = memoryview(bytes(self._buffers[number]))


def encode(batch) -> EncodedUnit:
    buffers = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        buffers.append(buffer.raw())
        return False  # out of band

    sink = io.BytesIO()
    _UnitPickler(sink, protocol=5, buffer_callback=keep).dump(batch)
    return EncodedUnit(sink.getvalue(), buffers)


def decode(slot):
    """The batch whose arrays and tensors are views of `slot`, an object with a writable buffer; they keep it alive."""
    view = memoryview(slot).cast("B")
    magic, count, at, skeleton_size, size = _HEADER.unpack_from(view, 0)
    if magic != MAGIC or size > view.nbytes:
        raise ValueError("not a unit: wrong magic or size")
    buffers = []
    for _ in range(count):
        start, length = _ENTRY.unpack_from(view, at)
        buffers.append(view[start : start + length])
        at += _ENTRY.size
    return pickle.loads(view[at : at + skeleton_size], buffers=buffers)


class _UnitPickler(cloudpickle.Pickler):
    """Tensors go out of band; classes of the user's script go by name, since the trainer runs that script."""

    def reducer_override(self, obj):
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(obj, torch.Tensor):
            reduced = reduce_tensor(torch, obj)
            if reduced is not None:
                return reduced
        if isinstance(obj, numpy.generic) and obj.dtype.char in "gG":
            make, (dtype, _) = obj.__reduce__()
            return make, (dtype, _without_padding(numpy.asarray(obj)).tobytes())
        if type(obj) is numpy.ndarray and obj.dtype.char in "gG":
            return _without_padding(obj).__reduce_ex__(5)
        if isinstance(obj, type) and obj.__module__ == "__main__" and "<locals>" not in obj.__qualname__:
            return _of_main, (obj.__qualname__,)
        return super().reducer_override(obj)


def _without_padding(array: numpy.ndarray) -> numpy.ndarray:
    """A copy of long doubles with zeros where no value is: equal ones have equal bytes."""
    bare = numpy.copy(array, order="F" if array.flags.fnc else "C")
    flat = bare.reshape(-1, order="A")  # a view
    size = numpy.longdouble().itemsize
    padding = slice(_LONG_VALUE, size) if bare.dtype.isnative else slice(size - _LONG_VALUE)
    flat.view(numpy.uint8).reshape(-1, size)[:, padding] = 0
    return bare


def reduce_tensor(torch, tensor):
    """What stands for a plain CPU tensor of any dtype in a pickle, its memory a PickleBuffer; None for others."""
    # torch's own pickle of a storage holds its address: equal batches would differ in their bytes, hence all plain
    # tensors go this way, also those without a byte.
    kind = type(tensor)
    plain = tensor.layout is torch.strided and tensor.device.type == "cpu"
    if not plain or tensor.is_quantized or kind.__reduce_ex__ is not torch.Tensor.__reduce_ex__:
        return None
    with torch.no_grad():
        value = tensor.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg()
        # A dense tensor keeps its order of dimensions (channels_last batches stay so); others are made contiguous.
        order = sorted(range(value.dim()), key=lambda d: (-value.stride(d), d))
        dense = value.permute(order)
        if not dense.is_contiguous():
            order, dense = list(range(value.dim())), value.contiguous()
        raw = None
        if dense.numel():
            raw = pickle.PickleBuffer(dense.reshape(-1).view(torch.uint8).numpy())
    args = (raw, str(value.dtype)[6:], tuple(dense.shape), tuple(order), tensor.requires_grad)
    if kind is torch.Tensor:
        return _rebuild_tensor, args
    return torch._tensor._rebuild_from_type_v2, (_rebuild_tensor, kind, args, torch._utils._get_obj_state(tensor))


def _rebuild_tensor(buffer, dtype: str, shape, order, requires_grad=False):
    import torch

    dtype = getattr(torch, dtype)
    flat = torch.empty(0, dtype=dtype) if buffer is None else torch.frombuffer(buffer, dtype=dtype)
    tensor = flat.view(shape).permute([order.index(d) for d in range(len(order))])
    return tensor.requires_grad_() if requires_grad else tensor


def _of_main(qualified: str):
    found = sys.modules["__main__"]
    for part in qualified.split("."):
        found = getattr(found, part)
    return found


def aligned(at: int) -> int:
    return (at + ALIGN - 1) // ALIGN * ALIGN


def _address(memory) -> int:
    return numpy.frombuffer(memory, numpy.uint8).ctypes.data if memory.nbytes else 0
