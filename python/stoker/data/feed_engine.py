# SPDX-License-Identifier: Apache-2.0
"""Batches from other processes: own children, or the feed group that $STOKER_FEED names. The client is compiled and has its
own thread; here it is only told what is wanted and asked for what is there."""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import numpy

from stoker import _native
from stoker.data import interpreter, live, spare_cores, units
from stoker.data.engines import mode_of
from stoker.data.errors import WorkerError, exception_from
from stoker.data.feed_stats import FeedStats
from stoker.data.kept_engine import SLICE_S, WINDOW_BYTES, KeptEngine
from stoker.data.stages import Work

FEED_BATCHES = 64  # looked ahead at least, with a feed group: its machines are many, and bytes bound it too


class FeedEngine(KeptEngine):
    """One client, which closes in under a second."""

    def __init__(self, recipe, loader, plan, meter, convert, keeps: bool):
        super().__init__(recipe, loader, plan, meter, convert, keeps)
        self._client = None
        self._mode = None
        self._next_id = 0  # of the batch pushed next
        self._first_id = 0  # of the iterator's own; lower ones are of one that was given up
        self._arrived = []  # the batch that the client has given and nobody has taken yet
        self._digest_before = 0
        self._last_digest = 0  # once the client is gone
        self._was_ready = False
        self._overdue = False  # a timeout was raised: what is outstanding may never come
        self._timeouts = 0
        self.over = False  # the client gives no more: its workers cannot be kept alive, none can be reached, or all refuse
        self._cpu_s = 0.0
        self._work = Work()
        live.note(self)

    def acquire(self, convert) -> None:
        super().acquire(convert)
        self._first_id = self._next_id
        self._digest_before = None if self.taken < self._next_id else self._client_digest()

    def serves(self, attachment_of) -> bool:
        """Whether its workers may go on: they persist by the user's wish, or the code they have is the code of now."""
        if self._loader.persistent_workers or self._client is None:
            return True
        return attachment_of(self._mode, travels=True) == self._attachment

    def window(self) -> int:
        return max(super().window(), FEED_BATCHES) if _feed() else super().window()

    def submit(self, first: int, items, whole: bool) -> None:
        if self._given_up == self.use or first == self._submitted:  # take() says the first
            return
        mode = mode_of(self._loader, whole)
        client = self._client
        if client is None:
            self._mode = mode
            client = self._client = self._open(mode)
        elif mode != self._mode:
            raise TypeError("the sampler mixes single keys and lists of keys")
        chosen = numpy.asarray(items, dtype=numpy.int64)
        positions = numpy.arange(first, first + len(items), dtype=numpy.int64)
        client.push(self._next_id, positions, chosen)
        self._next_id += 1
        self._submitted = first

    def take(self, first: int, items, whole: bool, what):
        timeout = self._loader.timeout
        deadline = time.monotonic() + timeout if timeout > 0 else None
        while True:
            wait = SLICE_S if deadline is None else min(SLICE_S, max(0.0, deadline - time.monotonic()))
            own = self.taken >= self._first_id
            client = self._client
            if self._given_up == self.use or client is None:
                raise StopIteration
            try:
                # Ctrl-C is raised as next() returns, with a batch or without: one that has come stays in the list.
                if not self._arrived:
                    client.next(wait, self._arrived)
            except _native.feed.FeedError as failure:
                if self._client is None:  # closed by another thread
                    raise StopIteration from None
                described, self.over = failure.args
                if not self.over:
                    self.taken += 1
                    self._reached_own()
                if own or self.over:
                    raise exception_from(
                        json.loads(described), epoch=self._loader._epoch_at(first), over=self.over, native=self._recipe.is_native()
                    ) from None
                continue
            if not self._arrived:
                if deadline is not None and not self._started(client):
                    deadline = time.monotonic() + timeout  # the timeout is for batches, not for the start of Python
                if deadline is not None and time.monotonic() >= deadline:
                    self._overdue = True
                    self._timeouts += 1
                    client.hurry(2 * timeout)
                    raise RuntimeError(f"DataLoader timed out after {timeout} seconds: {what()} has not come{self._waiting(client)}")
                continue
            got = self._arrived[0]
            if got.id != self.taken:
                raise RuntimeError(f"batch number {got.id} came in the place of {self.taken}: this is a bug of stoker")
            try:
                batch = self._convert(self._batch(got)) if own else None
            except Exception:  # its classes cannot be imported here, say: it would be so each time
                self.taken += 1
                self._arrived = []
                raise
            self.taken += 1
            self._arrived = []
            if own:
                return batch
            del got  # another iterator asked for it and did not want it any more
            self._reached_own()

    def _started(self, client) -> bool:
        """Whether nobody is just starting for us: a worker of a feed group was ready once or none can be reached, or one of our
        children is ready, of which another may be starting in the place of one that hung. The client gives up by itself when
        none becomes ready in ten minutes."""
        if self._was_ready and _feed():
            return True
        endpoints = client.stats()["endpoints"]
        self._was_ready = any(one["ready"] for one in endpoints)
        return self._was_ready or not any(one["coming"] for one in endpoints)

    def _reached_own(self) -> None:
        if self.taken == self._first_id:
            self._digest_before = self._client_digest()

    @property
    def digest(self) -> int:
        if self._digest_before is None:  # nothing of our own yet
            return 0
        return (self._client_digest() - self._digest_before) % (1 << 128)

    def release(self) -> None:
        """The iterator needs no more of it."""
        self.busy = False
        if not self.keeps or self._overdue or self.over or self._recipe.has_idle(self):
            self.close()

    def close(self) -> None:
        client = self._client
        if client is not None:
            stats = client.stats()
            self._last_digest, self._cpu_s = int(stats["digest"], 16), stats["children_cpu_s"]
            self._work = self._work_of(stats)
        client, self._client = self._client, None  # threads that find none use the last figures
        if client is not None:
            client.close()
        self._recipe.forget(self)

    def cpu_s(self) -> float:
        client = self._client
        return client.stats()["children_cpu_s"] if client is not None else self._cpu_s

    def threads_cpu_s(self) -> float:
        """Of threads here that make samples: none. The client's own is the hand-over, and counts as the trainer's."""
        return 0.0

    def work(self) -> Work:
        client = self._client
        return self._work_of(client.stats()) if client is not None else self._work

    def _work_of(self, stats) -> Work:
        hands = 0 if _feed() else self._hands
        told = [json.loads(text) for text in stats["children_times"]]
        work = Work.of(hands, False, told, stats["thread_cpu_s"])
        # Answers say this of their rows, also those of a feed group; times come now and then, and only from children.
        work.feed = FeedStats.of(stats) if _feed() else None
        work.skipped, work.substituted, work.other_formats = stats["skipped"], stats["substituted"], stats["other_formats"]
        work.errors = dict(stats["errors"])
        if self._timeouts:
            work.errors["timeout"] = work.errors.get("timeout", 0) + self._timeouts
        return work

    def abandon(self) -> None:
        """In a fork of our process: its copy of the client must never be used or destroyed, the processes are not its own."""
        client, self._client = self._client, None
        if client is not None:
            live.leak(client)

    def _open(self, mode: str):
        recipe, feed = self._recipe, _feed()
        native = recipe.is_native()
        attachment = recipe.attachment(mode, travels=bool(feed))
        if self.keeps and not self._loader.persistent_workers:
            self._attachment = attachment
        common = {"attachment": attachment, "units": not native, "window_bytes": WINDOW_BYTES, "audit": _audit()}
        if feed:
            common |= spare_cores.options(self._loader, native, find_program) | {"environment": interpreter.environment()}
            return _native.feed.FeedClient.open(self.plan.text, dispatcher=feed, token=_token(), **common)
        commands, environment = _children(native, self._loader.num_workers, self._loader.picture_cache)
        return _native.feed.FeedClient.open(self.plan.text, children=commands, environment=environment, **common)

    def _batch(self, got):
        if not self._recipe.is_native():
            return units.decode(got.unit)
        return self._recipe.assemble(got.leaves)

    def _client_digest(self) -> int:
        client = self._client
        return int(client.stats()["digest"], 16) if client is not None else self._last_digest

    def _waiting(self, client) -> str:
        stats = client.stats()
        workers = ", ".join(
            f"{one['name']} ({'ready' if one['ready'] else 'not ready'}, {one['outstanding_rows']} samples asked)"
            for one in stats["endpoints"]
        )
        problem = f"; last problem: {stats['problem']}" if stats["problem"] else ""
        if not _feed() or self._was_ready:
            return f". Workers: {workers or 'none'}{problem}"
        return (
            f", nor has any worker of the feed group {_feed()} (STOKER_FEED) been ready. Workers: {workers or 'none'}{problem}. See "
            "that its feed-dispatcher and feed-workers run and can be reached (in a job: the feed group's logs), or give a longer "
            "timeout=; next() goes on waiting"
        )


def _feed() -> str:
    return os.environ.get("STOKER_FEED", "")


def _audit() -> bool:
    return os.environ.get("STOKER_AUDIT") == "1"


def _token() -> str:
    path = os.environ.get("STOKER_FEED_TOKEN_FILE", "")
    if not path:
        raise WorkerError("STOKER_FEED is set but STOKER_FEED_TOKEN_FILE is not: the feed group's token is needed")
    try:
        token = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise WorkerError(f"STOKER_FEED_TOKEN_FILE={path}, the feed group's token, cannot be read: {error}") from error
    if not token:
        raise WorkerError(f"STOKER_FEED_TOKEN_FILE={path}, the feed group's token, is empty")
    return token


def _children(native: bool, count: int, picture_cache=None):
    """The commands of so many children and their environment; the client appends the socket's number."""
    if native:
        # A worker is one core's worth, as in torch: num_workers says how many cores making samples may use.
        command = [find_program(), "feed-worker", "--threads", "1"]
        if sys.executable:
            command += ["--python", sys.executable]  # for pictures that only Pillow reads
        command += picture_cache.arguments() if picture_cache is not None else []
        return [command] * count, interpreter.environment()
    return interpreter.workers(count), interpreter.environment()


def find_program() -> str:
    """The `stoker` executable: $STOKER_BIN, else beside this Python, else in PATH."""
    given = os.environ.get("STOKER_BIN")
    if given:
        return given
    beside = os.path.join(os.path.dirname(sys.executable), "stoker")
    found = beside if os.access(beside, os.X_OK) else shutil.which("stoker")
    if found is None:
        raise WorkerError(
            f"the program `stoker`, which makes native batches, is neither at {beside} nor in PATH: install the package, or "
            "set STOKER_BIN to it, or use num_workers=0"
        )
    return found
