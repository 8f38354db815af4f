# SPDX-License-Identifier: Apache-2.0
"""Spare cores of the trainer's own machine that help a feed group: what a loader is told of them, and the processes that its
client may start there (docs/decisions/spare-cores.md)."""

import math
import os
import sys

from stoker import _native
from stoker.data import interpreter
from stoker.data.errors import WorkerError

VARIABLE = "STOKER_SPARE_CORES"


def check(value) -> None:
    """Of the argument `spare_cores`: None, or a number of cores from 0."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"spare_cores is a number of cores, 0 for none, or None for what the trainer leaves, not {value!r}")
    if not 0 <= value < math.inf:
        raise ValueError(f"spare_cores is a number of cores from 0, but got {value}")


def wanted(value) -> float | None:
    """Cores that take part always, 0 for none; None: what the trainer leaves. The argument counts before $STOKER_SPARE_CORES."""
    if value is not None:
        return float(value)
    told = os.environ.get(VARIABLE, "").strip()
    if told in ("", "auto"):
        return None
    try:
        number = float(told)
        check(number)
    except ValueError:
        raise ValueError(f"${VARIABLE} is a number of cores, 0 for none, or auto, but it is {told!r}") from None
    return number


def options(loader, native: bool, find_program) -> dict:
    """Arguments of FeedClient.open. Without an interpreter or the program nobody can help."""
    fixed = wanted(loader.spare_cores)
    cores = own_cores() if fixed is None else fixed
    cores = min(cores, len(os.sched_getaffinity(0)))  # no more run at a time
    if cores <= 0 or not sys.executable:
        return {}
    if native:
        try:
            program = find_program()
        except WorkerError:
            return {}
        commands = [[program, "feed-worker", "--threads", str(math.ceil(cores)), "--python", sys.executable]]
    else:
        # Each has the data set and its imports for itself: no more than the user would have here without a feed group.
        commands = interpreter.workers(min(math.ceil(cores), max(1, loader.num_workers)))
    return {"spare": commands, "spare_cores": cores, "spare_measured": fixed is None}


def own_cores() -> float:
    """Cores that this process may count as its own: ranks on one machine share them."""
    try:
        ranks = max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    except ValueError:
        ranks = 1
    return _native.feed.allowed_cpu() / ranks
