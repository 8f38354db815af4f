# SPDX-License-Identifier: Apache-2.0
"""The data side in Python: a loader with torch's face over native plans and Python datasets. Everything is lazy."""

from importlib import import_module

__all__ = ["DataLoader", "WorkerError", "image"]

_LAZY = {
    "DataLoader": ("stoker.data.loader", "DataLoader"),
    "WorkerError": ("stoker.data.errors", "WorkerError"),
    "image": ("stoker.data.image", None),
}


def __getattr__(name: str):
    if name not in _LAZY:
        raise AttributeError(f"module 'stoker.data' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    loaded = import_module(module)
    value = loaded if attribute is None else getattr(loaded, attribute)
    globals()[name] = value
    return value


def __dir__():
    return sorted(__all__)
