# SPDX-License-Identifier: Apache-2.0
"""Engines that have threads or processes: ended with the interpreter, and let go of in a fork of it."""

import atexit
import ctypes
import os
import weakref

_live = weakref.WeakSet()


def note(engine) -> None:
    """`engine` has close(), and abandon() for a fork: its copy of the engine must not be used, nor be destroyed."""
    _live.add(engine)


def leak(native) -> None:
    """In a fork: an object of compiled code whose threads are not here is never destroyed."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(native))


def _abandon_all() -> None:
    for engine in list(_live):
        engine.abandon()


def _close_all() -> None:
    for engine in list(_live):
        engine.close()


os.register_at_fork(after_in_child=_abandon_all)
atexit.register(_close_all)
