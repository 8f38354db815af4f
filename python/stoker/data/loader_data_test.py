# SPDX-License-Identifier: Apache-2.0
"""Datasets of the loader's tests. A module of its own, so that worker processes can import it."""

import collections
import os
import random
import signal
import sys
import time

import numpy
import torch
from torch.utils.data import Dataset, IterableDataset

Point = collections.namedtuple("Point", ["x", "y"])


class Numbers(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return torch.full((2, 3), float(i)), i


class Spinning(Numbers):
    """Each sample costs 2 ms of CPU."""

    def __getitem__(self, i):
        end = time.thread_time() + 0.002
        while time.thread_time() < end:
            pass
        return super().__getitem__(i)


class Stream(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return iter(range(self.count))


class Mixed(Numbers):
    """Every kind of leaf that default_collate knows."""

    def __getitem__(self, i):
        return {
            "tensor": torch.arange(6.0).view(2, 3) + i,
            "array": numpy.arange(4, dtype=numpy.int16) * i,
            "int": i,
            "float": i / 7,
            "text": f"item {i}",
            "bytes": bytes([i % 256]),
            "pair": (i, torch.tensor([i])),
            "list": [i, float(i)],
            "point": Point(torch.ones(1) * i, i),
            "scalar": numpy.float32(i),
            "empty": torch.empty(0),
        }


class Draws(Numbers):
    def __getitem__(self, i):
        return i, numpy.random.randint(1 << 40), random.getrandbits(40), torch.randint(1 << 40, ()).item()


class Homeless(Numbers):
    """Sample 2 is of a class that can be found in the worker alone."""

    def __getitem__(self, i):
        if i != 2:
            return i
        here = sys.modules[__name__]
        here.NoSuchPlace = type("NoSuchPlace", (), {"__module__": __name__})
        return here.NoSuchPlace()


class Many(Numbers):
    def __getitems__(self, items):
        return [(i, len(items)) for i in items]


class TwoArguments(Exception):
    def __init__(self, what, number):
        super().__init__(f"{what} {number}")


class Textless(Exception):
    def __str__(self):
        raise self.args[0]("no text")


class Failing(Numbers):
    def __init__(self, count, kind):
        super().__init__(count)
        self.kind = kind

    def __getitem__(self, i):
        if i == 5:
            if self.kind == "two":
                raise TwoArguments("bad number", i)
            if self.kind == "http":
                import urllib.error

                raise urllib.error.HTTPError("http://x/y", 404, "not there", None, None)
            if self.kind == "process":
                import subprocess

                raise subprocess.CalledProcessError(3, ["some", "command"])
            if self.kind == "surrogate":
                raise ValueError("no picture: " + os.fsdecode(b"caf\xe9.jpg"))
            if self.kind == "long":
                raise ValueError("x" * 3_000_000)
            if self.kind == "textless":
                raise Textless(AttributeError)
            if self.kind == "textless interrupt":
                raise Textless(KeyboardInterrupt)
            if self.kind == "textless leave":
                raise Textless(SystemExit)
            if self.kind == "exit":
                os._exit(3)
            if self.kind == "interrupt":
                raise KeyboardInterrupt("five is bad")
            if self.kind == "leave":
                sys.exit("five is bad")
            if self.kind == "stop":
                raise StopIteration("too early")
            raise {"key": KeyError, "value": ValueError, "os": OSError}[self.kind]("five is bad")
        return i


class DiesForGood(Numbers):
    """From sample 4 on each process that has the data set ends, new ones as soon as they unpickle it."""

    def __init__(self, count, mark):
        super().__init__(count)
        self.mark = os.fspath(mark)

    def __setstate__(self, state):
        self.__dict__.update(state)
        if os.path.exists(self.mark):
            os._exit(7)

    def __getitem__(self, i):
        if i >= 4:
            open(self.mark, "w").close()
            os._exit(7)
        return i


class Slow(Numbers):
    """Leaves a note of every sample made, so that tests can await one."""

    def __init__(self, count, seconds, folder):
        super().__init__(count)
        self.seconds = seconds
        self.folder = folder

    def __getitem__(self, i):
        with open(os.path.join(self.folder, f"{i}.{os.getpid()}"), "w"):
            pass
        time.sleep(self.seconds)
        return torch.full((1000,), float(i)), i


class HangsOnce(Numbers):
    """One item hangs the first time that anybody asks for it."""

    def __init__(self, count, mark, item=4):
        super().__init__(count)
        self.mark = os.fspath(mark)
        self.item = item

    def __getitem__(self, i):
        if i == self.item and not os.path.exists(self.mark):
            open(self.mark, "w").close()
            time.sleep(1000)
        return i


class HangsForGood(Numbers):
    def __getitem__(self, i):
        if i == 4:
            time.sleep(1000)
        return i


class Gated(Numbers):
    """Item 2 waits for a file."""

    def __init__(self, count, gate):
        super().__init__(count)
        self.gate = gate

    def __getitem__(self, i):
        while i == 2 and not os.path.exists(self.gate):
            time.sleep(0.01)
        return i, i


class Big(Numbers):
    def __getitem__(self, i):
        return torch.full((64, 1024), float(i))


class Info(Numbers):
    def __getitem__(self, i):
        info = torch.utils.data.get_worker_info()
        return (i, -1, -1) if info is None else (i, info.id, info.num_workers)


class Poisoned(Numbers):
    """Kills the worker that makes a sample of it, as long as the file is there."""

    def __init__(self, length, poison):
        super().__init__(length)
        self.poison = poison

    def __getitem__(self, index):
        if os.path.exists(self.poison):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class PoisonedStream(torch.utils.data.IterableDataset):
    """The same, of one stream."""

    def __init__(self, poison):
        self.poison = poison

    def __iter__(self):
        if os.path.exists(self.poison):
            os.kill(os.getpid(), signal.SIGKILL)
        yield from range(4)


class Kept(Numbers):
    """The dataset keeps state: its epoch."""

    epoch = 0

    def __getitem__(self, i):
        return i, self.epoch


def reversed_collate(batch):
    return [sample[1] for sample in batch][::-1], "collated"


def leave_note(worker):
    numbers = torch.utils.data.get_worker_info()
    with open(os.path.join(numbers.dataset.folder, f"init.{worker}.{os.getpid()}"), "w"):
        pass
