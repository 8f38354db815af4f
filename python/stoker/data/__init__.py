# SPDX-License-Identifier: Apache-2.0
"""The data side in Python: a loader with torch's face over native plans and Python datasets. Everything is lazy."""

from stoker._lazy import attribute

__all__ = ["DataLoader", "WorkerError", "image"]

_LAZY = {
    "DataLoader": ("stoker.data.loader", "DataLoader"),
    "WorkerError": ("stoker.data.errors", "WorkerError"),
    "image": ("stoker.data.image", None),
}


def __getattr__(name: str):
    return attribute(globals(), _LAZY, name)


def __dir__():
    return sorted(__all__)
