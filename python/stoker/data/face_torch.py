# SPDX-License-Identifier: Apache-2.0
"""Pipes as torch tensors: views of the batch's memory, pinned, or copied to a device on a stream of their own."""

from stoker.data.device_ops import on_tensors
from stoker.data.face_numpy import each_array, on_picture
from stoker.data.fluent_loader import FluentLoader


def torch_face(pipe, device, pin_memory: bool, workers) -> FluentLoader:
    import torch

    device = None if device is None else torch.device(device)
    if device is not None and device.type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("torch(device='cuda'): this torch sees no CUDA device; leave device= out, or install a CUDA build")
    if pin_memory and not torch.accelerator.is_available():
        raise RuntimeError("torch(pin_memory=True): memory is pinned for an accelerator, and torch sees none; leave it out")
    return FluentLoader(pipe, AsTorch(device, pin_memory), workers)


class AsTorch:
    """A face: see fluent_loader.Hand. Confined to the training thread."""

    def __init__(self, device, pin_memory: bool):
        self._device, self._pin = device, pin_memory
        self._stream = None
        self.name = f"tensors on {device}" if device is not None else "pinned tensors" if pin_memory else "tensors"

    def __call__(self, batch, device_ops=None):
        import torch

        batch = each_array(batch, as_tensor)
        if self._device is not None and self._device.type == "cuda":
            batch = self._to_cuda(torch, batch)
        elif self._device is not None:
            batch = _each_tensor(torch, batch, lambda tensor: tensor.to(self._device))
        elif self._pin:
            batch = _each_tensor(torch, batch, lambda tensor: tensor.pin_memory())
        return batch if device_ops is None else on_picture(batch, lambda picture: device_ops(on_tensors, picture))

    def _to_cuda(self, torch, batch):
        """Through pinned memory, on a stream of its own, which the consumer's stream waits for."""
        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)
        current = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            moved = _each_tensor(torch, batch, lambda tensor: tensor.pin_memory().to(self._device, non_blocking=True))
        current.wait_stream(self._stream)
        _each_tensor(torch, moved, lambda tensor: tensor.record_stream(current))
        return moved


def as_tensor(array):
    """A tensor on the array's memory; copies what torch cannot share."""
    import numpy
    import torch

    if isinstance(array, numpy.generic):
        return torch.tensor(array.item(), dtype=torch.from_numpy(numpy.zeros(1, array.dtype)).dtype)
    if array.dtype.kind not in "biufc":
        return array
    array = array.view("<u8") if array.dtype.char == "Q" else array
    contiguous = array if all(stride >= 0 for stride in array.strides) else array.copy()
    return torch.from_numpy(contiguous if contiguous.flags.writeable else contiguous.copy())


def _each_tensor(torch, batch, function):
    if isinstance(batch, dict):
        return {key: _each_tensor(torch, value, function) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_each_tensor(torch, value, function) for value in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(_each_tensor(torch, value, function) for value in batch)
    return function(batch) if isinstance(batch, torch.Tensor) else batch
