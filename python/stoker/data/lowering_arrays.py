# SPDX-License-Identifier: Apache-2.0
"""Datasets of torchvision that hold their pictures in one array, as sources of arrays: CIFAR10 and CIFAR100."""

import sys
import weakref

import numpy

from stoker.data.array_source import ArraySource
from stoker.data.lowering_values import NotExact

_known = weakref.WeakKeyDictionary()  # dataset -> (its data, targets, the source): shared memory is filled once


def of_torchvision(dataset):
    """The ArraySource that holds its rows; None if it is no such dataset; NotExact says why one is not."""
    module = sys.modules.get("torchvision.datasets.cifar")
    if module is None or type(dataset) not in (module.CIFAR10, module.CIFAR100):
        return None
    if dataset.target_transform is not None:
        raise NotExact("it has a target_transform")
    if dataset.transform is None:
        raise NotExact("without a transform its samples are pictures of Pillow")
    data, targets = dataset.data, numpy.asarray(dataset.targets)
    if not isinstance(data, numpy.ndarray) or data.dtype != numpy.uint8 or data.ndim != 4 or data.shape[3] != 3:
        raise NotExact("its data is no array of uint8 [N, H, W, 3]")
    if targets.dtype != numpy.int64 or targets.shape != data.shape[:1]:
        raise NotExact("its targets are not a whole number for each picture")
    kept = _known.get(dataset)
    if kept is None or kept[0] is not data or not numpy.array_equal(kept[1], targets):
        kept = data, targets, ArraySource(["image", "label"], [data, targets], "tuple")
        _known[dataset] = kept
    return kept[2]
