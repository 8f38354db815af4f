# SPDX-License-Identifier: Apache-2.0
"""Pipes as a tf.data.Dataset with an exact signature. tensorflow is imported when one is made.

The signature is taken of the first batch of epoch 0, made once in this process; the size of a batch is open unless it is
the same for all.
"""

import numpy

from stoker.data.face_numpy import as_numpy
from stoker.data.fluent_loader import FluentLoader


def tensorflow_face(pipe, workers):
    try:
        import tensorflow as tf
    except ImportError as error:
        raise ImportError("the tensorflow face needs tensorflow: pip install tensorflow-cpu") from error
    loader = FluentLoader(pipe, as_rows, workers)
    probe = FluentLoader(pipe, as_rows, 0)
    first = next(iter(probe), None)
    probe.close()
    if first is None:
        raise ValueError("the pipe gives no batch, so there is no signature")
    built = loader._built
    # One size for all batches, or one that differs: the ends of epochs, and shards whose rows differ by one.
    fixed = built.single or (not built.packs and _rows(built) is not None)
    signature = _each(first, lambda leaf: _spec(tf, leaf, fixed, built))
    dataset = tf.data.Dataset.from_generator(lambda: loader, output_signature=signature)
    length = _length(loader)
    dataset = dataset if length is None else dataset.apply(tf.data.experimental.assert_cardinality(length))
    dataset.loader = loader
    return dataset


def as_rows(batch, device=None):
    """tf.data's structures: tuples and dicts; lists of text become arrays of it."""
    return _tupled(as_numpy(batch, device))


as_rows.name = "tensorflow tensors"


def _rows(built):
    """Rows of every batch, or None where they differ."""
    if not built.drop_last and not built.order.endless and built.order.length % built.size:
        return None
    return (built.rank + 1) * built.size // built.world - built.rank * built.size // built.world


def _tupled(batch):
    if isinstance(batch, dict):
        return {key: _tupled(value) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        if batch and isinstance(batch[0], (str, bytes)):
            return numpy.array([text.encode() if isinstance(text, str) else text for text in batch], dtype=object)
        return tuple(_tupled(value) for value in batch)
    return batch


def _each(batch, function):
    if isinstance(batch, dict):
        return {key: _each(value, function) for key, value in batch.items()}
    return tuple(_each(value, function) for value in batch) if isinstance(batch, tuple) else function(batch)


def _spec(tf, leaf, fixed: bool, built):
    if built.collate == "ragged":
        raise ValueError("tensorflow(): ragged batches have no signature; pad them in a collate function")
    if isinstance(leaf, (str, bytes)):
        return tf.TensorSpec((), tf.string)
    array = numpy.asarray(leaf)
    shape = list(array.shape)
    if shape and not built.single and not fixed:
        shape[0] = None
    return tf.TensorSpec(shape, tf.string if array.dtype.kind == "O" else tf.as_dtype(array.dtype))


def _length(loader):
    try:
        return len(loader)
    except TypeError:
        return None
