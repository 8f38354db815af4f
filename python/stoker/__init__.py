# SPDX-License-Identifier: Apache-2.0
"""stoker: keeps accelerators fed.

`stoker.DataLoader` takes torch.utils.data.DataLoader's arguments; `stoker.environment()` says which group, host and
rank a script runs as. Importing this package is light: nothing below is loaded before it is used, torch never.
"""

from stoker._lazy import attribute

from stoker.environment import environment

__all__ = ["DataLoader", "WorkerError", "__version__", "data", "environment"]

_LAZY = {
    "DataLoader": ("stoker.data.loader", "DataLoader"),
    "WorkerError": ("stoker.data.errors", "WorkerError"),
    "data": ("stoker.data", None),
}


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("stoker")
    except PackageNotFoundError:  # run from a checkout
        return "0.1.0"


def __getattr__(name: str):
    if name == "__version__":
        return _version()
    return attribute(globals(), _LAZY, name)


def __dir__():
    return sorted(__all__)
