# SPDX-License-Identifier: Apache-2.0
"""Plans for Python code: what stands for a user's dataset in a plan's hash. docs/formats/plan.md is the format."""

import os
import sys
from importlib import metadata

FORMAT = "stoker-plan/1"
_NAMED = {"numpy": "numpy", "torch": "torch", "torchvision": "torchvision", "PIL": "pillow"}


def full_name(thing) -> str:
    """module.QualifiedName of a class, function or callable object."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}"


def libraries() -> dict:
    """Versions of this interpreter and of the libraries that are loaded and can change a sample."""
    from stoker import __version__

    found = {"python": f"{sys.version_info.major}.{sys.version_info.minor}", "stoker": __version__}
    for module, name in _NAMED.items():
        if module in sys.modules:
            found[name] = _installed(name)
    return found


def different_libraries(wanted: dict) -> list:
    """One line for each library that the plan names and this process has not, in that version."""
    from stoker import __version__

    here = {"python": f"{sys.version_info.major}.{sys.version_info.minor}", "stoker": __version__}
    lines = []
    for name, version in wanted.items():
        have = here.get(name) or _installed(name)
        if have != version:
            lines.append(f"{name} {version} (here {have or 'none'})")
    return lines


def _installed(name: str) -> str:
    try:
        return metadata.version(name).partition("+")[0]  # the build (+cpu, +cu126) is no part of a version
    except metadata.PackageNotFoundError:
        module = sys.modules.get(name)
        return str(getattr(module, "__version__", "")).partition("+")[0]


def python_plan(dataset, collate, items: int, version: str, seed: int, named_libraries: dict) -> dict:
    return {
        "format": FORMAT,
        "kind": "python",
        "name": full_name(type(dataset)),
        "code": os.environ.get("STOKER_CODE_HASH", ""),
        "version": version,
        "collate": full_name(collate),
        "items": items,
        "seed": seed,
        "libraries": named_libraries,
    }
