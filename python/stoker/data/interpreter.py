# SPDX-License-Identifier: Apache-2.0
"""How processes of ours find this Python and this package, and the Pillow processes of this one."""

import os
import sys
import weakref

from stoker import _native

_shared = None


def environment() -> list:
    """NAME=VALUE for a child that shall import this package and what PYTHONPATH names."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    paths = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return ["PYTHONPATH=" + os.pathsep.join(dict.fromkeys(paths))]


def workers(count: int) -> list:
    """The commands of so many Python worker processes; who starts them appends the socket's number."""
    command = [sys.executable, "-P", "-m", "stoker.data.worker", "--workers", str(count), "--worker"]
    return [[*command, str(worker)] for worker in range(count)]


def pillow():
    """What reads pictures that are not read natively; None in a program without its own Python.

    One for all of this process, as long as somebody keeps it; its processes are started when a picture wants one, and end
    with it (docs/decisions/other-formats.md).
    """
    global _shared
    found = _shared() if _shared is not None else None
    if found is None and sys.executable:
        found = _native.feed.Pillow([sys.executable], environment())
        _shared = weakref.ref(found)
    return found


def _forget() -> None:
    global _shared
    _shared = None  # its processes are the parent's


os.register_at_fork(after_in_child=_forget)
