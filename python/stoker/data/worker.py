# SPDX-License-Identifier: Apache-2.0
"""A worker process for Python plans: `python -m stoker.data.worker --fd N --worker I --workers K`.

It speaks the child's part of docs/formats/wire.md over the inherited socket N and ends when its parent closes it. One
thread: it takes one request at a time, the lowest batch first, and writes each unit straight into the slot it is given.
"""

import argparse
import array
import ctypes
import heapq
import json
import os
import select
import signal
import socket
import struct
import sys
import time
import weakref

from stoker._native import block_hash
from stoker.data import plan as plans
from stoker.data import stacking, units
from stoker.data.errors import describe
from stoker.data.samples import UnitMaker, unbundle
from stoker.data.stages import StageTimes

HEADER = struct.Struct("<IBBHIIQQQQQII")
MAGIC, VERSION = 0x464B5453, 1
PLAN, PLAN_OK, PLAN_NO, PLAN_END, REQUEST, CANCEL, CANCELLED = 5, 6, 7, 8, 9, 10, 11
UNIT, ERROR, SLOT, SLOT_DROP, DONE, NEED, GRANT, PING, PONG = 13, 14, 15, 16, 17, 18, 19, 20, 21
TIMES, PACE = 23, 25
FLAG_UNIT, FLAG_IN_SLOT = 1, 2


class Closed(Exception):
    """The parent has closed the socket: the worker's work is over."""


class Frame:
    __slots__ = ("type", "flags", "plan", "request", "a", "b", "c", "d", "payload", "descriptor")

    def __init__(self, header: bytes):
        magic, version, self.type, self.flags, self.plan, self.request, length, self.a, self.b, self.c, _, self.d, _ = (
            HEADER.unpack(header)
        )
        if magic != MAGIC or version != VERSION:
            raise Closed(f"frame with magic {magic:#x}, version {version}")
        self.payload = bytearray(length)
        self.descriptor = None


class Channel:
    """Frames over the socketpair. Confined."""

    def __init__(self, fd: int):
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(True)

    def waiting(self) -> bool:
        return bool(select.select([self._socket], [], [], 0)[0])

    def read(self) -> Frame:
        header = bytearray(HEADER.size)
        descriptors = array.array("i")
        filled = 0
        while filled < HEADER.size:
            space = socket.CMSG_SPACE(descriptors.itemsize * 4)
            view = memoryview(header)[filled:]
            got, ancillary, _, _ = self._socket.recvmsg_into([view], space, socket.MSG_CMSG_CLOEXEC)
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
            if got == 0:
                raise Closed
            filled += got
        frame = Frame(header)
        view = memoryview(frame.payload)
        while view.nbytes:
            got = self._socket.recv_into(view)
            if got == 0:
                raise Closed
            view = view[got:]
        if descriptors:
            frame.descriptor = descriptors[0]
        return frame

    def send(self, kind: int, to: Frame, payload=b"", flags=0, a=0, c=0, d=0) -> None:
        size = memoryview(payload).nbytes
        header = HEADER.pack(MAGIC, VERSION, kind, flags, to.plan, to.request, size, a, 0, c, 0, d, 0)
        self._socket.sendall(header)
        if size:
            self._socket.sendall(payload)

    def send_json(self, kind: int, to: Frame, value: dict, **fields) -> None:
        self.send(kind, to, json.dumps(value, default=str).encode(), **fields)


class SlotMemory:
    """A slot mapped for writing. Not Python's mmap, which keeps a descriptor open for each."""

    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.mmap.restype = ctypes.c_void_p
    _libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    _libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def __init__(self, descriptor: int, size: int):
        read_write, shared, populate = 3, 0x01, 0x8000
        at = self._libc.mmap(None, size, read_write, shared | populate, descriptor, 0)
        if at == ctypes.c_void_p(-1).value:
            error = ctypes.get_errno()
            raise OSError(error, f"mapping a slot of {size} bytes: {os.strerror(error)}")
        self.size = size
        memory = (ctypes.c_uint8 * size).from_address(at)
        # With the last view of it, which may be a batch that was stacked there.
        weakref.finalize(memory, self._libc.munmap, at, size).atexit = False
        self.view = memoryview(memory).cast("B")

    def close(self) -> None:
        self.view = None


class Pace:
    """How much of the time this process may run. Short turns leave the trainer its part of each period of a CPU quota."""

    _MOST_REST_S = 0.5

    def __init__(self):
        self.share = 1.0
        self._since = 0.0

    def begin(self) -> None:
        self._since = time.process_time()

    def rest(self) -> None:
        if self.share < 1:
            used = time.process_time() - self._since
            time.sleep(min(self._MOST_REST_S, used * (1 / self.share - 1)))
        self._since = time.process_time()


class Worker:
    def __init__(self, channel: Channel, worker: int, workers: int):
        self._channel = channel
        self._worker = worker
        self._workers = workers
        self._makers = {}  # by number of plan
        self._slots = {}
        self._queue = []  # heap of (batch, arrival, frame)
        self._cancelled = set()
        self._arrivals = 0
        self._times = StageTimes()
        self._pace = Pace()

    def run(self) -> None:
        while True:
            while not self._queue or self._channel.waiting():
                self._take(self._channel.read())
            _, _, request = heapq.heappop(self._queue)
            if request.request in self._cancelled:
                self._cancelled.discard(request.request)
                self._channel.send(CANCELLED, request)
            else:
                self._serve(request)

    def _take(self, frame: Frame) -> None:
        if frame.type == REQUEST:
            self._arrivals += 1
            heapq.heappush(self._queue, (frame.a, self._arrivals, frame))
        elif frame.type == CANCEL:
            if any(waiting.request == frame.request for _, _, waiting in self._queue):
                self._cancelled.add(frame.request)
        elif frame.type == PLAN:
            self._open_plan(frame)
        elif frame.type == PLAN_END:
            self._makers.pop(frame.plan, None)
        elif frame.type == SLOT:
            try:
                self._slots[frame.a] = SlotMemory(frame.descriptor, frame.b)
            finally:
                os.close(frame.descriptor)
        elif frame.type == SLOT_DROP:
            slot = self._slots.pop(frame.a, None)
            if slot is not None:
                slot.close()
        elif frame.type == PACE:
            self._pace.share = min(1.0, max(0.01, frame.a / 1e6))
        elif frame.type == PING:
            self._channel.send(PONG, frame, a=frame.a)

    def _open_plan(self, frame: Frame) -> None:
        doing = "loading the dataset in a worker process"
        try:
            plan = json.loads(frame.payload[: frame.a])
            different = plans.different_libraries(plan["libraries"])
            if different:
                message = "this worker has other libraries than the plan names: " + ", ".join(different)
                self._channel.send_json(PLAN_NO, frame, {"code": "unsupported", "message": message})
                return
            parts = unbundle(memoryview(frame.payload)[frame.a :])
            _settle(plan["seed"], parts["dataset"], self._worker, self._workers)
            if parts["init"] is not None:
                doing = "running worker_init_fn"
                parts["init"](self._worker)
            self._makers[frame.plan] = _maker(plan["seed"], parts)
            self._makers[frame.plan].on_fetched = self._times.fetched
            self._makers[frame.plan].on_sample = self._pace.rest
            self._makers[frame.plan].collating = stacking.placed
            self._channel.send_json(PLAN_OK, frame, {}, d=1)
        except BaseException as error:
            if _is_a_signals(error):
                raise
            described = describe(error, worker=self._worker, doing=doing)
            self._channel.send_json(PLAN_NO, frame, described)

    def _serve(self, request: Frame) -> None:
        count = request.d
        numbers = struct.unpack(f"<{2 * count}q", request.payload)
        positions, items = list(numbers[0::2]), list(numbers[1::2])
        maker = self._makers.get(request.plan)
        if maker is None:
            message = f"no plan of number {request.plan} here"
            self._channel.send_json(ERROR, request, {"code": "invalid", "message": message})
            return
        slot = self._slots.get(request.b) if request.flags & FLAG_IN_SLOT else None
        stacking.offer(slot.view if slot is not None else None)
        self._times.begin()
        self._pace.begin()
        try:
            made = maker.make(positions, items)
            self._times.reached("collate")
            unit = units.encode(made)
        except BaseException as error:
            if _is_a_signals(error):
                raise
            if maker.doing is None:
                maker.doing = "making a sample"
            described = describe(
                error, worker=self._worker, position=maker.position, item=maker.item, doing=maker.doing
            )
            described["position_count"] = count
            self._channel.send_json(ERROR, request, described)
            return
        if self._deliver(request, unit, slot):
            self._times.end(count, unit.size)
            if self._times.are_due():
                self._channel.send(TIMES, request, json.dumps(self._times.to_dict()).encode())

    def _deliver(self, request: Frame, unit, slot) -> bool:
        """False: it was cancelled before there was room for it."""
        if not request.flags & FLAG_IN_SLOT:
            whole = bytearray(unit.size)
            unit.write_to(memoryview(whole))
            self._channel.send(UNIT, request, whole, flags=FLAG_UNIT, c=block_hash(whole))
            return True
        while slot is None or slot.size < unit.size:
            if slot is not None:
                unit.leave(slot.view)
            self._channel.send(NEED, request, a=unit.size)
            slot = self._granted(request)
            if slot is None:
                self._channel.send(CANCELLED, request)
                return False
        unit.write_to(slot.view)
        self._times.reached("write")
        hashed = block_hash(slot.view[: unit.size])
        self._times.reached("hash")
        self._channel.send(DONE, request, flags=FLAG_UNIT, a=unit.size, c=hashed)
        return True

    def _granted(self, request: Frame):
        """The slot that a GRANT names, or None when the request is cancelled instead."""
        while True:
            frame = self._channel.read()
            if frame.type == GRANT and frame.request == request.request:
                return self._slots.get(frame.b)
            if frame.type == CANCEL and frame.request == request.request:
                return None
            self._take(frame)


def _is_a_signals(error: BaseException) -> bool:
    """Whether a Ctrl-C may have raised it. Here SIGINT raises nothing (main()), unless the user's code took it over: a
    KeyboardInterrupt is then of the dataset's own, and told as any other exception."""
    return isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is not _leave_to_the_trainer


def _leave_to_the_trainer(*_) -> None:
    """Ctrl-C goes to the whole foreground group; the trainer decides, and closes the socket."""


def _settle(seed: int, dataset, worker: int, workers: int) -> None:
    """Does once per process and plan what torch's worker does before it calls worker_init_fn."""
    torch = sys.modules.get("torch")
    if torch is not None:
        _settle_torch(torch, dataset, seed, worker, workers)
    from stoker.data import seeding

    # A stream of its own for what worker_init_fn draws, apart from every position's.
    seeding.seed_generators(seed, (1 << 63) + worker)


def _maker(seed: int, parts: dict) -> UnitMaker:
    if parts["mode"].startswith("iterable:"):
        from stoker.data.iterable import ShardMaker

        return ShardMaker(parts["dataset"], parts["collate"], parts["mode"], seed)
    return UnitMaker(parts["dataset"], parts["collate"], parts["mode"], seed)


def _settle_torch(torch, dataset, seed: int, worker: int, workers: int) -> None:
    import torch.utils.data._utils.collate as torch_collate
    import torch.utils.data._utils.worker as torch_worker

    torch.set_num_threads(1)
    torch_worker._worker_info = torch_worker.WorkerInfo(
        id=worker, num_workers=workers, seed=seed + worker, dataset=dataset
    )

    rules = torch_collate.default_collate_fn_map

    def is_torchs(function) -> bool:
        return getattr(function, "__globals__", None) is vars(torch_collate)

    # torch's own would put each batch into a new shared memory file on seeing that it is in a worker; ours go to a slot, unless
    # a rule of the user's may be who calls, and keep it.
    def stack(batch, *, collate_fn_map=None):
        first = batch[0]
        if first.is_nested or first.layout is not torch.strided:
            return torch_collate.collate_tensor_fn(batch, collate_fn_map=collate_fn_map)
        if not is_torchs(torch_collate.collate) or not all(rule is stack or is_torchs(rule) for rule in rules.values()):
            return torch.stack(batch, 0)
        return stacking.tensors(torch, batch)

    theirs = rules.get(torch.Tensor)
    if is_torchs(theirs) or getattr(theirs, "__globals__", None) is globals():  # ours of another plan
        rules[torch.Tensor] = stack


def keep_freed_memory() -> None:
    """Has the C library keep blocks that are freed, up to 256 MiB, where it can be told to.

    A sample is made of the same few big temporaries as the one before. glibc maps such blocks anew, or gives them back and
    faults them in again: up to 14,000 page faults a picture, a third of its CPU time, and differently from run to run.
    The user's MALLOC_… variables are obeyed.
    """
    mmap_threshold, trim_threshold = -3, -1  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD of malloc.h
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or any(name.startswith("MALLOC_") for name in os.environ):
        return
    mallopt(mmap_threshold, 32 << 20)  # the most that glibc takes
    mallopt(trim_threshold, 256 << 20)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m stoker.data.worker", description=__doc__.splitlines()[0])
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--worker", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, _leave_to_the_trainer)
    keep_freed_memory()
    for stream in (sys.stdout, sys.stderr):  # what was printed is there also when we are killed, and stands in order
        if stream is not None:
            stream.reconfigure(line_buffering=True)
    try:
        Worker(Channel(options.fd), options.worker, options.workers).run()
    except (Closed, ConnectionError, BrokenPipeError, KeyboardInterrupt):
        pass
    # No interpreter shutdown: user threads and native libraries must not hold up the loader's close().
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
