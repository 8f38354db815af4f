# SPDX-License-Identifier: Apache-2.0
"""Wires between clients and feed workers that can be made bad: a proxy that understands frames (docs/formats/wire.md), in one
thread. A worker advertises the address of its wire.

Between two calls a wire can be held (nothing passes), cut (connections end, new ones end at once), or slowed; one frame of samples
can be damaged, cut in the middle, or sent a second time. `held_bytes`, `refused` and `done` say what really happened.
"""

import contextlib
import heapq
import itertools
import selectors
import socket
import struct
import threading
import time
from collections import deque

HEADER = struct.Struct("<IBBHIIQQQQQII")
ROWS, UNIT = 12, 13
TURN_S = 0.005  # a slow wire passes a little so often


class Wires:
    """All proxies of a test. Public methods from one thread; what they change is done in the proxies' own thread."""

    def __init__(self):
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ, self._drain)
        self._calls, self._later, self._number = [], [], itertools.count()
        self._lock = threading.Lock()
        self._ended = False
        self.frame_faults = deque()  # (kind, draw): each happens to one of the next frames of samples
        self.done = []  # kinds of frame faults that happened
        self._thread = threading.Thread(target=self._run, name="bad-wires")
        self._thread.start()

    def add(self) -> "Wire":
        wire = Wire(self)
        self.call(lambda: self._selector.register(wire.listener, selectors.EVENT_READ, wire.accept))
        return wire

    def call(self, function, after_s: float = 0.0) -> None:
        with self._lock:
            heapq.heappush(self._later, (time.monotonic() + after_s, next(self._number), function))
        self._wake.send(b"!")

    def close(self) -> None:
        self._ended = True
        self._wake.send(b"!")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()
        self._wake.close()
        self._selector.close()

    def _drain(self) -> None:
        self._woken.recv(4096)

    def _run(self) -> None:
        while not self._ended:
            with self._lock:
                wait = max(0.0, self._later[0][0] - time.monotonic()) if self._later else None
            for key, _ in self._selector.select(wait):
                key.data()
            while True:
                with self._lock:
                    if not self._later or self._later[0][0] > time.monotonic():
                        break
                    function = heapq.heappop(self._later)[2]
                function()


class Wire:
    """One worker's proxy."""

    def __init__(self, wires: Wires):
        self.wires = wires
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.target = None  # address of the worker, once it listens
        self.pairs = set()
        self.held = self.is_cut = False
        self.bytes_per_s = None
        self.held_bytes = self.refused = self.accepted = 0

    def hold(self, seconds: float) -> None:
        self._for(seconds, lambda on: self._set("held", on))

    def cut(self, seconds: float) -> None:
        def begin_or_end(on):
            self.is_cut = on
            for pair in list(self.pairs) if on else []:
                self.refused += 1
                pair.end()

        self._for(seconds, begin_or_end)

    def slow(self, seconds: float, bytes_per_s: int) -> None:
        self._for(seconds, lambda on: self._set("bytes_per_s", bytes_per_s if on else None))

    def _for(self, seconds: float, change) -> None:
        begun = threading.Event()  # waited for: what is done next to this worker must find it so
        self.wires.call(lambda: (change(True), begun.set()))
        self.wires.call(lambda: change(False), seconds)
        begun.wait(10)

    def _set(self, name: str, value) -> None:
        setattr(self, name, value)
        if not value:
            for pair in list(self.pairs):
                pair.read_again()

    def accept(self) -> None:
        near = self.listener.accept()[0]
        try:
            if self.is_cut or self.target is None:
                raise ConnectionRefusedError
            host, port = self.target.rsplit(":", 1)
            far = socket.create_connection((host, int(port)), timeout=1)
        except OSError:
            self.refused += 1
            near.close()
            return
        self.accepted += 1
        self.pairs.add(Pair(self, near, far))


class Pair:
    """One connection through a wire."""

    def __init__(self, wire: Wire, near, far):
        self.wire = wire
        self.ends = (near, far)
        self.answers = bytearray()  # from the worker, not yet a whole frame
        self.owed = 0  # bytes of a frame that has begun to pass before all of it was here
        self.again = []  # frames to send a second time, behind the next one
        for end in self.ends:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.settimeout(5)  # a peer that does not read is paused, and not for long
        self._watch()

    def _watch(self) -> None:
        for end, back in ((self.ends[0], False), (self.ends[1], True)):
            self.wire.wires._selector.register(end, selectors.EVENT_READ, lambda end=end, back=back: self.read(end, back))
        self.watched = True

    def _unwatch(self) -> None:
        if self.watched:
            for end in self.ends:
                self.wire.wires._selector.unregister(end)
        self.watched = False

    def read_again(self) -> None:
        if not self.watched and self in self.wire.pairs:
            self._watch()

    def read(self, end, back: bool) -> None:
        if not self.watched:
            return
        wire = self.wire
        if wire.held:
            with contextlib.suppress(OSError):
                wire.held_bytes += len(end.recv(1 << 16, socket.MSG_PEEK))
            return self._unwatch()
        share = max(1, int(wire.bytes_per_s * TURN_S)) if wire.bytes_per_s else 1 << 16
        try:
            data = end.recv(share)
            if not data:
                return self.end()
            if wire.bytes_per_s:
                wire.held_bytes += len(data)
                self._unwatch()
                wire.wires.call(self.read_again, TURN_S)
            if back:
                self.answers += data
                self.pass_answers()
            else:
                self.ends[1].sendall(data)
        except OSError:
            self.end()

    def pass_answers(self) -> None:
        wires, passed = self.wire.wires, self.answers[: self.owed]
        del self.answers[: len(passed)]
        self.owed -= len(passed)
        while len(self.answers) >= HEADER.size:
            fields = HEADER.unpack_from(self.answers)
            size = HEADER.size + fields[6]
            if len(self.answers) < size:
                if self.wire.bytes_per_s and not wires.frame_faults and not self.again:  # as slow wires do
                    self.owed = size - len(self.answers)
                    passed += self.answers
                    self.answers.clear()
                break
            frame = self.answers[:size]
            del self.answers[:size]
            again, self.again = self.again, []
            if fields[2] in (ROWS, UNIT):
                if wires.frame_faults:
                    kind, draw = wires.frame_faults.popleft()
                    wires.done.append(kind)
                    if kind == "flip":
                        frame[int(draw * size)] ^= 1 << int(draw * 8e6) % 8
                    elif kind == "truncate":
                        self.ends[0].sendall(passed + frame[: int(draw * size)])
                        return self.end()
                    else:
                        self.again.append(bytes(frame))
            passed += frame
            for one in again:
                passed += one
        self.ends[0].sendall(passed)

    def end(self) -> None:
        if self not in self.wire.pairs:
            return
        self._unwatch()
        self.wire.pairs.discard(self)
        for end in self.ends:
            end.close()
