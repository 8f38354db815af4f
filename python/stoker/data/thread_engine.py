# SPDX-License-Identifier: Apache-2.0
"""Batches of rows that lie in this process's memory, made ahead by threads of compiled code: docs/decisions/array-threads.md.

Another process would cost more than the row does. What it would be good for is not needed: no code of the user's runs, no
foreign bytes are parsed, and nothing is read that could fail.
"""

import json
import time

import numpy

from stoker import _native
from stoker.data import live
from stoker.data.errors import exception_from
from stoker.data.kept_engine import SLICE_S, WINDOW_BYTES, KeptEngine
from stoker.data.stages import Work

_NOTHING = '{"samples": 0, "read_bytes": 0, "made_bytes": 0, "busy_s": 0, "stages": []}'  # that threads have told


class ThreadEngine(KeptEngine):
    """num_workers threads.

    `taken` is the truth about what was handed over: the compiled part is told it with every call, and forgets what is below.
    So a Ctrl-C at any place leaves a batch taken or not, and never half.
    """

    def __init__(self, recipe, loader, plan, meter, convert, keeps: bool):
        super().__init__(recipe, loader, plan, meter, convert, keeps)
        self._threads = _native.feed.RowThreads(
            recipe.open_producer(plan), plan.hash, self._hands, WINDOW_BYTES, free_blocks=self.window() + 2
        )
        self._pushed = 0
        self._digest_before = 0
        self._last = None  # figures, once the threads have ended
        live.note(self)

    def acquire(self, convert) -> None:
        super().acquire(convert)
        self._digest_before = self._figures()[0]

    def serves(self, attachment_of) -> bool:
        """The memory is that of the plan, as long as it is the same plan."""
        return True

    def submit(self, first: int, items, whole: bool) -> None:
        threads = self._threads
        if self._given_up == self.use or threads is None or first == self._submitted:  # take() says the first two
            return
        threads.push(self._pushed, first, numpy.asarray(items, dtype=numpy.int64), self.taken)
        self._pushed += 1
        self._submitted = first

    def take(self, first: int, items, whole: bool, what):
        made = self._made(what)
        if type(made) is str:
            error = exception_from(json.loads(made), epoch=self._loader._epoch_at(first), native=True)
            self.taken += 1
            raise error
        try:
            batch = self._convert(self._recipe.assemble(made))
        except Exception:  # it would be so each time
            self.taken += 1
            raise
        self.taken += 1
        return batch

    def _made(self, what):
        timeout = self._loader_of().timeout
        deadline = time.monotonic() + timeout if timeout > 0 else None
        while True:
            left = SLICE_S if deadline is None else min(SLICE_S, max(0.0, deadline - time.monotonic()))
            threads = self._threads
            if self._given_up == self.use or threads is None:
                raise StopIteration
            made = threads.front(left, self.taken)
            if made is not None:
                return made
            if deadline is not None and time.monotonic() >= deadline:
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds: {what()} has not been made by {self._hands} thread(s)")

    @property
    def digest(self) -> int:
        return (self._figures()[0] - self._digest_before) % (1 << 128)

    def release(self) -> None:
        """The iterator needs no more of it."""
        self.busy = False
        if not self.keeps or self._recipe.has_idle(self):
            self.close()
        elif self._threads is not None:
            self.taken = self._pushed = self._threads.drop(self.taken)

    def close(self) -> None:
        threads = self._threads
        if threads is not None:
            threads.stop()
            self._last, self._threads = self._figures(), None
        self._recipe.forget(self)

    def abandon(self) -> None:
        """In a fork of our process, where the threads are not."""
        threads, self._threads = self._threads, None
        if threads is not None:
            self._last = (0, 0.0, _NOTHING)
            live.leak(threads)

    def cpu_s(self) -> float:
        """Of other processes: none."""
        return 0.0

    def threads_cpu_s(self) -> float:
        return self._figures()[1]

    def work(self) -> Work:
        return Work.of(self._hands, False, [json.loads(self._figures()[2])], here=True)

    def _figures(self) -> tuple:
        """(digest of all that was taken, CPU seconds, times as JSON). Any thread."""
        threads = self._threads
        if threads is None:
            return self._last
        digest, cpu_s, told = threads.figures(self.taken)
        return int(digest, 16), cpu_s, told
