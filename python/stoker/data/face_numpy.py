# SPDX-License-Identifier: Apache-2.0
"""Pipes as NumPy arrays."""

from stoker.data.device_ops import on_arrays
from stoker.data.fluent_loader import FluentLoader


def numpy_face(pipe, workers) -> FluentLoader:
    return FluentLoader(pipe, as_numpy, workers)


def as_numpy(batch, device=None):
    """The batch itself; the last ops, where a pipe leaves them to a device, in NumPy."""
    return batch if device is None else on_picture(batch, lambda picture: device(on_arrays, picture))


as_numpy.name = "NumPy arrays"


def on_picture(batch, function):
    """The function on the picture of a batch: the first leaf, or `image` of a dict."""
    if isinstance(batch, dict):
        return {**batch, "image": function(batch["image"])}
    if isinstance(batch, (list, tuple)):
        return [function(batch[0]), *batch[1:]]
    return function(batch)


def each_array(batch, function):
    """The function on every NumPy array and scalar of a batch."""
    import numpy

    if isinstance(batch, dict):
        return {key: each_array(value, function) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(each_array(value, function) for value in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(each_array(value, function) for value in batch)
    return function(batch) if isinstance(batch, (numpy.ndarray, numpy.generic)) else batch
