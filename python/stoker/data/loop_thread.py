# SPDX-License-Identifier: Apache-2.0
"""What the thread that takes the batches does between two of them, as the kernel tells it."""

import os
import threading
import time


class LoopThread:
    """Sums over the steps of a loop. Confined to the thread that takes the batches; a step that another thread began is left out.

    A thread that neither ran nor waited for a core was blocked: an accelerator at work, a sleep. Others who fill the cores make a
    step longer, but not that part of it."""

    def __init__(self):
        self.blocked_s = 0.0  # outside next()
        self.cpu_s = 0.0  # inside next() too
        self._begun = None  # (thread, time, CPU time, time that it waited for cores) as the last batch was handed over
        self._blocked_s = None  # since then; None: still outside next()
        self._clock = None

    def entered(self, at: float) -> None:
        """next() was entered at `at` (time.monotonic())."""
        if self._begun is None or self._blocked_s is not None:
            return
        thread, left, cpu_s, delayed_s = self._begun
        if thread != threading.get_ident():
            self._begun = None
            return
        now_s = self._delayed_s()
        known = delayed_s is not None and now_s is not None
        self._blocked_s = max(0.0, at - left - (time.thread_time() - cpu_s) - (now_s - delayed_s)) if known else 0.0

    def handed_over(self, at: float, first: bool) -> None:
        """A batch goes to the loop, the `first` of an epoch or not."""
        thread, cpu_s = threading.get_ident(), time.thread_time()
        if self._begun is not None and self._begun[0] == thread and self._blocked_s is not None and not first:
            self.blocked_s += self._blocked_s
            self.cpu_s += cpu_s - self._begun[2]
        self._begun, self._blocked_s = (thread, at, cpu_s, self._delayed_s()), None

    def _delayed_s(self) -> float | None:
        """That this thread has waited for a core so far, also where a quota held it back. None where it is not known."""
        if self._clock is None or self._clock.thread != threading.get_ident():
            self._clock = _Delay()
        return self._clock.read_s()


class _Delay:
    """The kernel's account of the thread that makes this."""

    def __init__(self):
        self.thread = threading.get_ident()
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = None

    def read_s(self) -> float | None:
        if self._file is None:
            return None
        try:
            ran, delayed, _ = map(int, os.pread(self._file, 64, 0).split())
        except (OSError, ValueError):
            return None
        return delayed * 1e-9 if ran else None  # "0 0 0" where the kernel keeps no such account

    def __del__(self):
        if self._file is not None:
            os.close(self._file)
