# SPDX-License-Identifier: Apache-2.0
"""The child's side of docs/formats/wire.md, against a parent written here."""

import array
import json
import mmap
import os
import random
import signal
import socket
import struct
import subprocess
import sys

import numpy
import pytest

from stoker._native import block_hash
from stoker.data import plan as plans
from stoker.data import samples, units
from stoker.data import worker as wire

torch = pytest.importorskip("torch")


class Squares:
    def __len__(self):
        return 100

    def __getitem__(self, i):
        if i == 13:
            raise TwoArguments("unlucky", i)
        if i == 14:
            raise KeyError("fourteen")
        return torch.full((4,), float(i * i)), i, numpy.random.rand(), random.random(), torch.rand(1)


class TwoArguments(Exception):
    def __init__(self, what, number):
        super().__init__(f"{what} {number}")


def tell_worker_info(worker):
    info = torch.utils.data.get_worker_info()
    assert (info.id, info.num_workers, len(info.dataset)) == (worker, 3, 100)


class Parent:
    """Starts one child and speaks to it."""

    def __init__(self, dataset, collate=None, init=None, mode=samples.BATCH, libraries=None, seed=7):
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "stoker.data.worker", "--fd", str(theirs.fileno()), "--worker", "2", "--workers", "3"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.child = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, env=environment)
        theirs.close()
        self.socket = ours
        self.socket.settimeout(30)
        self.slots = {}
        collate = collate or torch.utils.data.default_collate
        plan = plans.python_plan(dataset, collate, len(dataset), "", seed, libraries or plans.libraries())
        text = json.dumps(plan).encode()
        self.send(wire.PLAN, plan=1, a=len(text), payload=text + samples.bundle(dataset, collate, init, mode))

    def send(self, kind, plan=0, request=0, a=0, b=0, c=0, d=0, flags=0, payload=b"", fd=None):
        header = wire.HEADER.pack(wire.MAGIC, 1, kind, flags, plan, request, len(payload), a, b, c, 0, d, 0)
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd is not None else []
        self.socket.sendmsg([header], ancillary)
        self.socket.sendall(payload)

    def read(self):
        header = self.socket.recv(wire.HEADER.size, socket.MSG_WAITALL)
        frame = wire.Frame(header)
        if frame.payload:
            frame.payload = self.socket.recv(len(frame.payload), socket.MSG_WAITALL)
        if frame.type == wire.TIMES:  # figures, at any time
            assert json.loads(frame.payload)["samples"] > 0
            return self.read()
        return frame

    def slot(self, number, size):
        fd = os.memfd_create("slot")
        os.ftruncate(fd, size)
        self.slots[number] = mmap.mmap(fd, size)
        self.send(wire.SLOT, a=number, b=size, fd=fd)
        os.close(fd)

    def ask(self, request, items, slot, batch=0, first=None):
        first = items[0] if first is None else first
        refs = struct.pack(f"<{2 * len(items)}q", *(x for k, i in enumerate(items) for x in (first + k, i)))
        flags = wire.FLAG_UNIT | wire.FLAG_IN_SLOT
        self.send(wire.REQUEST, 1, request, a=batch, b=slot, d=len(items), flags=flags, payload=refs)

    def batch_of(self, frame, slot):
        assert frame.type == wire.DONE, frame.payload
        assert frame.c == block_hash(memoryview(self.slots[slot])[: frame.a])
        return units.decode(self.slots[slot])

    def end(self):
        self.socket.close()
        self.child.wait(10)
        return self.child.stderr.read().decode()


@pytest.fixture
def parents():
    made = []

    def make(*args, **kwargs):
        made.append(Parent(*args, **kwargs))
        return made[-1]

    yield make
    for parent in made:
        if parent.child.poll() is None:
            parent.socket.close()
            parent.child.wait(10)
        parent.child.stderr.close()


def test_units_are_functions_of_position_and_item(parents):
    parent = parents(Squares(), init=tell_worker_info)
    assert parent.read().type == wire.PLAN_OK
    parent.slot(5, 1 << 16)
    parent.ask(1, [3, 4], 5)
    x, y, of_numpy, of_random, of_torch = parent.batch_of(parent.read(), 5)
    assert x.tolist() == [[9.0] * 4, [16.0] * 4] and y.tolist() == [3, 4]
    parent.slot(6, 1 << 16)
    parent.ask(2, [4], 6)  # alone: the draws at position 4 are the same
    again = parent.batch_of(parent.read(), 6)
    for whole, one in zip((of_numpy, of_random, of_torch), again[2:], strict=True):
        assert whole[1] == one[0]
    assert len({of_numpy[0].item(), of_random[0].item(), of_numpy[1].item(), of_random[1].item()}) == 4
    assert parent.end() == ""


def test_a_unit_that_does_not_fit_waits_for_a_bigger_slot(parents):
    parent = parents(Squares())
    parent.read()
    parent.slot(1, 64)
    parent.ask(1, [1, 2, 3], 1)
    need = parent.read()
    assert need.type == wire.NEED and need.a > 64
    parent.slot(2, need.a)
    parent.send(wire.GRANT, 1, 1, b=2)
    assert parent.batch_of(parent.read(), 2)[1].tolist() == [1, 2, 3]


def test_lower_batches_first_and_cancelled_ones_not_at_all(parents):
    parent = parents(Squares())
    parent.slot(1, 1 << 16)
    # All are in the socket before the child has loaded its libraries.
    parent.ask(10, [1], 1, batch=3)
    parent.ask(11, [2], 1, batch=2)
    parent.ask(12, [3], 1, batch=1)
    parent.send(wire.CANCEL, 1, 11)
    frames = [parent.read() for _ in range(4)]
    assert [(frame.type, frame.request) for frame in frames] == [
        (wire.PLAN_OK, 0),
        (wire.DONE, 12),
        (wire.CANCELLED, 11),
        (wire.DONE, 10),
    ]


def test_errors_carry_class_text_position_and_item(parents):
    parent = parents(Squares())
    parent.read()
    parent.slot(1, 1 << 16)
    parent.ask(1, [12, 13, 14], 1, first=100)
    frame = parent.read()
    error = json.loads(frame.payload)
    assert frame.type == wire.ERROR
    assert error["type"].endswith(".TwoArguments") and error["message"] == "TwoArguments: unlucky 13"
    assert (error["position"], error["item"], error["worker"]) == (101, 13, 2)
    assert "raise TwoArguments" in error["traceback"]
    parent.ask(2, [1], 1)
    assert parent.read().type == wire.DONE  # the worker lives on


def test_other_libraries_are_refused(parents):
    parent = parents(Squares(), libraries={"python": "3.11", "numpy": "1.0"})
    frame = parent.read()
    assert frame.type == wire.PLAN_NO and "numpy 1.0" in json.loads(frame.payload)["message"]


def test_interrupt_is_the_trainers_business(parents):
    parent = parents(Squares())
    parent.read()
    parent.child.send_signal(signal.SIGINT)
    parent.slot(1, 1 << 16)
    parent.ask(1, [1], 1)
    assert parent.read().type == wire.DONE
    assert parent.end() == "" and parent.child.returncode == 0


def test_descriptors_of_slots_are_closed(parents):
    parent = parents(Squares())
    parent.read()

    def descriptors():
        return len(os.listdir(f"/proc/{parent.child.pid}/fd"))

    parent.slot(1, 1 << 16)
    parent.ask(1, [1], 1)
    parent.read()
    before = descriptors()
    for number in range(2, 40):
        parent.slot(number, 4096)
    parent.ask(2, [1], 39)
    parent.read()
    assert descriptors() <= before
