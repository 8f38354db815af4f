# SPDX-License-Identifier: Apache-2.0
"""The data side in Python: a loader with torch's face over native plans and Python datasets, and sources of samples.
Everything is lazy."""

from stoker._lazy import attribute

__all__ = [
    "ContainerError",
    "DataLoader",
    "ImageError",
    "WorkerError",
    "arrays",
    "batch_transform",
    "block",
    "file_list",
    "from_function",
    "image",
    "image_folder",
    "image_masks",
    "mds",
    "mix",
    "parquet",
    "pipe",
    "range",
    "tfrecord",
    "webdataset",
]

_LAZY = {
    "ContainerError": ("stoker.data.containers", "ContainerError"),
    "ImageError": ("stoker.data.image", "ImageError"),
    "DataLoader": ("stoker.data.loader", "DataLoader"),
    "WorkerError": ("stoker.data.errors", "WorkerError"),
    "arrays": ("stoker.data.array_source", "arrays"),
    "batch_transform": ("stoker.data.batches", "batch_transform"),
    "block": ("stoker.data.indices", "Block"),
    "file_list": ("stoker.data.list_source", "file_list"),
    "from_function": ("stoker.data.array_source", "from_function"),
    "image": ("stoker.data.image", None),
    "image_folder": ("stoker.data.pictures", "image_folder"),
    "image_masks": ("stoker.data.masks", "image_masks"),
    "mds": ("stoker.data.mosaic", "mds"),
    "mix": ("stoker.data.mixture", "mix"),
    "parquet": ("stoker.data.parquet_source", "parquet"),
    "pipe": ("stoker.data.fluent", "pipe"),
    "range": ("stoker.data.array_source", "range_"),
    "tfrecord": ("stoker.data.containers", "tfrecord"),
    "webdataset": ("stoker.data.containers", "webdataset"),
}


def __getattr__(name: str):
    return attribute(globals(), _LAZY, name)


def __dir__():
    return sorted(__all__)
