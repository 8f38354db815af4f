# SPDX-License-Identifier: Apache-2.0
"""What a loader tells its job: JSON lines in $STOKER_TELEMETRY_DIR/loader-PID.jsonl, every half second and at close.

Off unless the variable is set. Figures are cumulative over the loader's life; who reads them takes differences.
docs/formats/telemetry.md lists the fields.
"""

import atexit
import json
import os
import resource
import threading
import time
import weakref

from stoker.data.loop_thread import LoopThread

EVERY_S = 0.5
_open = weakref.WeakSet()


class Meter:
    """Counts hand-overs. Confined to the training thread, apart from `line()`, which reads single numbers."""

    def __init__(self, batch_size):
        self.batch_size = batch_size
        self.batches = self.samples = self.steps = 0
        self.step_s = self.wait_s = self.first_wait_s = 0.0
        self.step_samples, self.step_cpu_s = 0, 0.0  # of the steps that step_s sums: samples, and CPU of this process
        self.inline_cpu_s = 0.0  # data work done on the training process's own threads
        self.feed = False
        self.digest = "0" * 32
        self.delivered_once = True
        self.epochs = 0
        self.entered = None  # when the training loop went into the next() that it is in
        self.loop_thread = None  # a LoopThread, where somebody wants to know
        self._last = self._last_cpu = None
        self._digest_of = None

    def begin_epoch(self, digest_of) -> None:
        """`digest_of()` gives the digest of now, on any thread, until end_epoch()."""
        self._last = None
        self._digest_of = digest_of

    def end_epoch(self, digest_of, digest: str) -> None:
        if self._digest_of is digest_of:  # no other iterator has begun since
            self._digest_of, self.digest = None, digest

    def digest_now(self) -> str:
        digest_of = self._digest_of
        return digest_of() if digest_of is not None else self.digest

    def current(self) -> tuple:
        """Seconds since the last batch of the epoch that is read now (or since its first was asked for), and how many of them the
        training loop has been inside the next() that it is in. Any thread."""
        last, entered, now = self._last, self.entered, time.monotonic()
        if self._digest_of is None or (last is None and entered is None):
            return 0.0, 0.0
        return now - (entered if last is None else last), 0.0 if entered is None else now - entered

    def enter(self, at: float) -> None:
        """next() was entered."""
        self.entered = at
        if self.loop_thread is not None:
            self.loop_thread.entered(at)

    def handed_over(self, samples: int, entered: float, left: float) -> None:
        """One batch went to the training loop: next() was entered and left at these times (time.monotonic())."""
        self.batches += 1
        self.samples += samples
        cpu = time.process_time()
        if self.loop_thread is not None:
            self.loop_thread.handed_over(left, self._last is None)
        if self._last is None:
            self.first_wait_s += left - entered
        else:
            self.step_s += left - self._last
            self.wait_s += left - entered
            self.steps += 1
            self.step_samples += samples
            self.step_cpu_s += cpu - self._last_cpu
        self._last, self._last_cpu = left, cpu


class Telemetry:
    """Writes a meter's line. Its thread ends with close(); nothing is written after it. Shared."""

    def __init__(self, folder: str, meter: Meter, data_cpu_s, threads_cpu_s, work):
        self._meter = meter
        meter.loop_thread = LoopThread()
        self._data_cpu_s = data_cpu_s  # CPU seconds of this loader's local workers, or 0.0
        self._threads_cpu_s = threads_cpu_s  # and of its threads in this process
        self._work = work  # stages.Work of all its engines
        self._path = os.path.join(folder, f"loader-{os.getpid()}.jsonl")
        self._stop = threading.Event()
        self._writing = threading.Lock()
        self._cpu_s = 0.0  # of the thread that writes
        self._thread = threading.Thread(target=self._run, name="stoker-telemetry", daemon=True)
        self._pid = os.getpid()
        self._thread.start()
        _open.add(self)

    def close(self) -> None:
        if self._stop.is_set() or os.getpid() != self._pid:
            return
        with self._writing:
            self._stop.set()
            self._write()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            with self._writing:  # from looking at the meter to the end of the line: the last line is the newest
                if not self._stop.is_set():
                    self._write()
            self._cpu_s = time.thread_time()

    def _write(self) -> None:
        meter = self._meter
        used = resource.getrusage(resource.RUSAGE_SELF)
        here_s = meter.inline_cpu_s + self._threads_cpu_s()
        now_s, now_wait_s = meter.current()
        work = self._work()
        line = {
            "t": time.time(),
            "kind": "loader",
            "pid": self._pid,
            "loader": id(meter) & 0xFFFFFFFF,
            "batches": meter.batches,
            "samples": meter.samples,
            "steps": meter.steps,
            "step_s": round(meter.step_s, 6),
            "wait_s": round(meter.wait_s, 6),
            "first_wait_s": round(meter.first_wait_s, 6),
            "now_s": round(now_s, 6),
            "now_wait_s": round(now_wait_s, 6),
            "blocked_s": round(meter.loop_thread.blocked_s, 6),
            "loop_cpu_s": round(meter.loop_thread.cpu_s, 6),
            "client_cpu_s": round(work.client_cpu_s + self._cpu_s, 6),
            "trainer_cpu_s": round(used.ru_utime + used.ru_stime - here_s, 6),
            "data_cpu_s": round(self._data_cpu_s() + here_s, 6),
            "inline_cpu_s": round(meter.inline_cpu_s, 6),
            "hands": work.hands,
            "sample_bytes": round(work.made_bytes / work.samples) if work.samples else 0,
            "feed": meter.feed,
            "fed": _fed(work.feed),
            "sizing": work.feed.sizing if work.feed else [],
            "errors": work.errors,
            "digest": meter.digest_now(),
            "epochs": meter.epochs,
            "delivered_once": meter.delivered_once,
            "batch_size": meter.batch_size,
        }
        text = json.dumps(line, separators=(",", ":")) + "\n"
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(text)
        except OSError:  # telemetry never stops a training
            self._stop.set()


def _fed(feed) -> dict | None:
    """Of a FeedStats."""
    if feed is None:
        return None
    counts = {name: getattr(feed, name) for name in ("hedged", "retried", "lost", "disagreed", "starved_s")}
    bytes_ = {"received_bytes": feed.bytes_received, "held_bytes": feed.bytes_held}
    spare = {"spare": feed.spare.state, "spare_cores": round(feed.spare.cores, 3), "spare_samples": feed.spare.samples}
    return {**counts, **bytes_, **spare, "damaged": feed.corrupt, "workers": sum(one.ready for one in feed.workers)}


@atexit.register
def _close_all() -> None:
    for telemetry in list(_open):
        telemetry.close()
