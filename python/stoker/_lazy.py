# SPDX-License-Identifier: Apache-2.0
"""Attributes of a package that are imported when they are first asked for, so that importing the package stays light."""

from importlib import import_module


def attribute(package: dict, lazy: dict, name: str):
    """The value of `name` for a package's `__getattr__`, kept in `package` (its globals()).

    `lazy` maps a name to (module, attribute of it), or (module, None) for the module itself. AttributeError for another name.
    """
    if name not in lazy:
        raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
    module, wanted = lazy[name]
    loaded = import_module(module)
    package[name] = loaded if wanted is None else getattr(loaded, wanted)
    return package[name]
