# SPDX-License-Identifier: Apache-2.0
"""Pipes as jax arrays. jax is imported when a loader is made."""

from stoker.data.face_numpy import as_numpy, each_array
from stoker.data.fluent_loader import FluentLoader


def jax_face(pipe, workers) -> FluentLoader:
    try:
        import jax  # noqa: F401
    except ImportError as error:
        raise ImportError("the jax face needs jax: pip install jax") from error
    return FluentLoader(pipe, as_jax, workers)


def as_jax(batch, device=None):
    import jax

    return each_array(as_numpy(batch, device), lambda array: jax.numpy.asarray(array) if array.dtype.kind in "biufc" else array)


as_jax.name = "jax arrays"
