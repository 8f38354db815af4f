# SPDX-License-Identifier: Apache-2.0
"""Samples kept by item in one file, anonymous or in the cache folder, for all processes that open it.
docs/formats/sample-store.md is its format.

Writers take turns by a lock on the file for as long as it takes to reserve room; an entry is written when its sample is, and
carries a hash of it, so that one who dies in between leaves nothing that could be read. Nothing is ever moved or thrown out:
a full store, or one on a full disk, keeps what it has; of a full disk one warning tells. Confined to a thread; processes may share the file.
"""

import errno
import fcntl
import os
import struct
import warnings

from stoker import _native
from stoker.data import units

MAGIC = b"STKSAMP2"
_HEADER = struct.Struct("<8sQQQ")  # magic, items, budget, bytes reserved
_ENTRY = struct.Struct("<QQQ")  # offset, size, hash of the bytes


class Store:
    """`path`: of the file; `items`: how many samples there can be."""

    def __init__(self, path: str, items: int, budget_bytes: int):
        self.path, self._items, self._budget = path, items, budget_bytes
        self._fd = -1
        self._pid = 0
        self._full = False
        self._begun = False  # by open_store(): the budget is settled

    def begin(self) -> None:
        """Opens the file for those who get this store by pickle."""
        self._opened()
        self._begun = True

    def get(self, item: int):
        """[sample], its arrays of memory of its own; None where it is not there."""
        fd = self._opened()
        if fd < 0:
            return None
        raw = os.pread(fd, _ENTRY.size, _HEADER.size + item * _ENTRY.size)
        if len(raw) < _ENTRY.size:
            return None
        offset, size, stated = _ENTRY.unpack(raw)
        if not offset or offset + size > os.fstat(fd).st_size:
            return None
        data = bytearray(size)
        if os.preadv(fd, [data], offset) != size or _native.block_hash(data) != stated:
            return None
        return [units.decode(data)]

    def put(self, item: int, sample) -> None:
        fd = self._opened()
        if self._full:
            return
        unit = units.encode(sample)
        offset = self._reserve(fd, unit.size)
        if offset is None:
            self._full = True
            return
        data = bytearray(unit.size)
        unit.write_to(memoryview(data))
        try:
            if os.pwrite(fd, data, offset) != unit.size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.pwrite(fd, _ENTRY.pack(offset, unit.size, _native.block_hash(data)), _HEADER.size + item * _ENTRY.size)
        except OSError as error:  # what is there stays good
            self._end(fd, error)

    def stats(self) -> dict:
        if self._opened() < 0:
            return {"items": self._items, "kept": 0, "bytes": 0, "budget_bytes": self._budget}
        _, _, budget, reserved = _HEADER.unpack(os.pread(self._opened(), _HEADER.size, 0))
        table = os.pread(self._opened(), self._items * _ENTRY.size, _HEADER.size)
        kept = sum(1 for entry in _ENTRY.iter_unpack(table[: len(table) // _ENTRY.size * _ENTRY.size]) if entry[0])
        return {"items": self._items, "kept": kept, "bytes": reserved, "budget_bytes": budget}

    def __getstate__(self):
        return {**self.__dict__, "_fd": -1, "_pid": 0}

    def __del__(self):
        if getattr(self, "_fd", -1) >= 0 and self._pid == os.getpid():
            os.close(self._fd)

    def _opened(self) -> int:
        """-1 where the disk has no room for the file."""
        if self._pid != os.getpid():
            self._fd, self._pid = -1, os.getpid()
            fd = -1
            try:
                os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
                fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                self._begin(fd)
                self._fd = fd
            except OSError as error:
                if fd >= 0:
                    os.close(fd)
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    self._pid = 0
                    raise
                if not self._begun:  # else who began has told
                    self._warn(error)
                self._full = True
        return self._fd

    def _begin(self, fd: int) -> None:
        fcntl.lockf(fd, fcntl.LOCK_EX)
        try:
            raw = os.pread(fd, _HEADER.size, 0)
            there = _HEADER.unpack(raw) if len(raw) == _HEADER.size else None
            if there is None or there[:2] != (MAGIC, self._items):
                os.ftruncate(fd, 0)
                os.ftruncate(fd, self._data_at())
                there = (MAGIC, self._items, 0, 0)
            elif self._begun:
                return
            # The larger budget of those who share it.
            os.pwrite(fd, _HEADER.pack(MAGIC, self._items, max(self._budget, there[2]), there[3]), 0)
        finally:
            fcntl.lockf(fd, fcntl.LOCK_UN)

    def _end(self, fd: int, error: OSError) -> None:
        """Nobody writes any more: the budget becomes what is reserved. Who finds it so already has been told."""
        self._full = True
        fcntl.lockf(fd, fcntl.LOCK_EX)
        try:
            magic, items, budget, reserved = _HEADER.unpack(os.pread(fd, _HEADER.size, 0))
            if budget > reserved:
                os.pwrite(fd, _HEADER.pack(magic, items, reserved, reserved), 0)
                self._warn(error)
        finally:
            fcntl.lockf(fd, fcntl.LOCK_UN)

    def _warn(self, error: OSError) -> None:
        warnings.warn(
            f"cache(): no sample is kept any more in {self.path}: {error.strerror}; those there are used, all others are made anew. Free space "
            "there, name another folder for the cache with XDG_CACHE_HOME, or ask for a smaller budget_bytes",
            stacklevel=2,
        )

    def _reserve(self, fd: int, size: int):
        """Where `size` bytes may be written, or None when the budget is spent."""
        size = (size + 63) // 64 * 64
        fcntl.lockf(fd, fcntl.LOCK_EX)
        try:
            magic, items, budget, reserved = _HEADER.unpack(os.pread(fd, _HEADER.size, 0))
            if reserved + size > min(budget, self._budget):
                return None
            os.pwrite(fd, _HEADER.pack(magic, items, budget, reserved + size), 0)
        finally:
            fcntl.lockf(fd, fcntl.LOCK_UN)
        return self._data_at() + reserved

    def _data_at(self) -> int:
        return (_HEADER.size + self._items * _ENTRY.size + 63) // 64 * 64


class MemoryStore(Store):
    """In anonymous memory of the process that made it, which its children find by its number. Gone with the last of them.
    Where it cannot be found (another machine) each process has one of its own."""

    def __init__(self, items: int, budget_bytes: int):
        super().__init__("", items, budget_bytes)
        self._make()

    def __getstate__(self):
        return {**super().__getstate__(), "_owned": -1}

    def __setstate__(self, state):
        self.__dict__.update(state)
        try:
            found = os.readlink(self.path).startswith(f"/memfd:{self._name}")
        except OSError:
            found = False
        if not found:
            self._make()

    def __del__(self):
        super().__del__()
        if getattr(self, "_owned", -1) >= 0 and self._owner == os.getpid():
            os.close(self._owned)

    def _make(self) -> None:
        self._name = f"stoker-samples-{os.urandom(8).hex()}"
        self._owned, self._owner = os.memfd_create(self._name, os.MFD_CLOEXEC), os.getpid()
        self.path = f"/proc/{self._owner}/fd/{self._owned}"


def open_store(place: str, name: str, items: int, budget_bytes: int) -> Store:
    """`name` stands for everything that decides the samples (disk stores outlive the process)."""
    if place == "memory":
        return MemoryStore(items, budget_bytes)
    from stoker.data.kept_plans import cache_folder

    folder = os.path.join(cache_folder(), "samples")
    store = Store(os.path.join(folder, name), items, budget_bytes)
    store.begin()
    return store
