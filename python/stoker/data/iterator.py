# SPDX-License-Identifier: Apache-2.0
"""One pass over an epoch: pulls batches of indices within the window, has them made by an engine, hands them over in
order and moves the cursor. Threads may share it: each batch goes to one of them."""

import os
import threading
import time
from collections import deque
from dataclasses import replace
from functools import partial


class Iterator:
    def __init__(self, loader, cursor):
        self._loader = loader
        self._cursor = cursor
        self._pid = os.getpid()
        self._closed = True  # until it owns an engine
        self._ending = False  # close() was called; a thread that is in next() is the one to carry it out
        self._one_at_a_time = threading.RLock()  # threads may share an iterator: each batch goes to one of them
        self._asked = deque()  # [first position, items, whole, hash of the indices up to here]
        self._pulled = None  # one that may not be asked yet, after a Ctrl-C at the wrong moment
        self._ended = False  # the sampler has given all
        self._broken = None  # what it raised instead: told when all that it gave before is handed over
        self._in_hand = None  # (batch,) that the engine has given and that is not handed over yet
        self._late = None  # an interruption that came when a batch was on its way to the user already
        self._batches = loader._batches(cursor)
        self._engine = loader._recipe.engine(cursor.seeds.plan, counted=int(cursor.digest, 16) != 0)
        self._use = self._engine.use
        self._closed = False
        # Holds the engine and not this iterator, which must end on its own thread.
        self._digest_of = partial(_digest, self._engine, int(cursor.digest, 16))
        self._meter = self._engine.meter
        self._meter.begin_epoch(self._digest_of)
        self._whole = True  # every batch of the epoch was handed over
        if self._engine.eager:
            self._ask()

    def __iter__(self):
        return self

    def __next__(self):
        entered = time.monotonic()
        if os.getpid() != self._pid:
            raise RuntimeError(
                f"this iterator was made in process {self._pid} and cannot be used in its fork {os.getpid()}: call iter() on "
                "a loader made after the fork"
            )
        got = None
        self._meter.enter(entered)
        try:
            with self._one_at_a_time:
                got = (self._take_next(entered),)
        except BaseException as error:
            if got is None:
                raise
            self._late = error  # a Ctrl-C that came as the lock was given back
        finally:
            self._meter.entered = None
            if self._ending:
                self.close()
        return got[0]

    def _take_next(self, entered: float):
        if self._late is not None:
            late, self._late = self._late, None
            raise late
        if self._ending or (self._closed and self._broken is None):
            raise StopIteration
        self._ask()
        if not self._asked:
            if self._broken is not None:
                self._close()
                raise self._broken
            self._finish()
            raise StopIteration
        first, items, whole, skipped = self._asked[0]
        count = len(items)
        before = self._engine.taken
        try:
            if self._in_hand is None:
                self._in_hand = (self._engine.take(first, items, whole, partial(self._what, first, items)),)
            batch = self._loader._recipe.finish(self._in_hand[0], self._cursor.seeds.plan, first)
        except BaseException as error:
            if self._engine.over:  # no batch is to blame: the cursor stays before this one
                self._whole = self._meter.delivered_once = False
                self._close()
            elif isinstance(error, Exception) if self._in_hand is not None else self._engine.taken != before:
                self._whole = self._meter.delivered_once = False  # it failed for good
                self._in_hand = None
                self._cursor.batch += 1
                self._cursor.skipped = skipped
                self._asked.popleft()
            raise  # after a timeout or Ctrl-C it is still to come
        try:  # no call stands before all is counted, after which Python would raise what a signal wants raised
            self._in_hand = None
            self._cursor.batch += 1
            self._cursor.samples += count
            self._cursor.skipped = skipped
            self._asked.popleft()
            self._ask()
            self._meter.handed_over(count, entered, time.monotonic())
        except BaseException as error:  # this batch is handed over first
            self._late = error
        return batch

    def __len__(self):
        return len(self._loader)

    def __del__(self):
        self.close()

    def __getstate__(self):
        raise TypeError("an iterator holds a place in a stream and cannot be pickled; pickle the loader's state_dict()")

    def digest(self) -> str:
        """Of everything handed over in this stream so far, 32 hex digits."""
        return self._cursor.digest if self._closed else self._digest_of()

    def state_dict(self) -> dict:
        """This iterator's place; load it into a loader that is made alike."""
        return self._loader._state_of(self._cursor, self)

    def close(self) -> None:
        """Gives up what is outstanding. Idempotent; also when the interpreter is ending, and from any thread: one that waits in
        next() gets StopIteration."""
        if getattr(self, "_closed", True):
            return
        if os.getpid() != self._pid:  # the lock may be held by a thread that this fork does not have
            self._closed = True
            self._asked.clear()
            return
        self._ending = True
        if not self._one_at_a_time.acquire(blocking=False):
            self._engine.give_up(self._use)
            return
        try:
            self._close()
        finally:
            self._one_at_a_time.release()

    def _close(self) -> None:
        if self._closed:
            return
        self._cursor.digest = self.digest()
        self._meter.end_epoch(self._digest_of, self._cursor.digest)
        self._engine.release()
        self._closed = True
        self._asked.clear()

    def _ask(self) -> None:
        if self._asked and self._asked[-1] is self._pulled:
            self._pulled = None
        while len(self._asked) < self._engine.window() and (self._pulled is not None or self._pull()):
            pulled = self._pulled
            digest = getattr(self._batches, "digest", None)
            if digest is not None:
                pulled[3] = digest()
            self._engine.submit(*pulled[:3])
            self._asked.append(pulled)
            self._pulled = None

    def _pull(self) -> bool:
        """Whether there is one more."""
        if self._ended:
            return False
        try:
            found = next(self._batches, None)
        except Exception as error:
            # Without our own frame, which would keep this iterator and its workers alive.
            self._ended, self._broken = True, error.with_traceback(error.__traceback__.tb_next)
            return False
        except BaseException as error:  # Ctrl-C in a generator ends it, which must not look like the end of the epoch
            if self._loader._explicit is None:  # an order of ours begins again where it was
                here = replace(self._cursor, batch=self._cursor.batch + len(self._asked))
                self._batches = self._loader._batches(here)
                raise
            self._ended, self._broken = True, RuntimeError(f"the sampler was interrupted by {type(error).__name__}")
            raise
        if found is None:
            self._ended = True
            if self._loader._explicit is None:
                self._loader._seeds.end_of_order()
            return False
        self._pulled = [*found, ""]
        return True

    def _finish(self) -> None:
        self._cursor.finished = True
        self._meter.epochs += 1
        expected = self._loader._batches_in_epoch()
        if self._whole and expected is not None and self._cursor.batch != expected:
            self._meter.delivered_once = False
        self._close()

    def _what(self, first, items) -> str:
        return (
            f"batch {self._cursor.batch} of epoch {self._cursor.seeds.epoch} (positions {first} to {first + len(items) - 1}, "
            f"{len(items)} samples)"
        )


def _digest(engine, before: int) -> str:
    return f"{(before + engine.digest) % (1 << 128):032x}"
