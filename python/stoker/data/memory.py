# SPDX-License-Identifier: Apache-2.0
"""Memory of batches that are made in this process, used again once every array on it is gone.

A fresh allocation of a whole batch is a fresh mapping each time, whose page faults cost as much as a fifth of decoding.
"""

import ctypes
import mmap
import weakref

import numpy

KEPT = 3  # blocks: one with the training loop, one being made, one to spare


class Shelf:
    """Any thread may drop the arrays; one thread takes."""

    def __init__(self):
        self._free = []

    def take(self, size: int) -> numpy.ndarray:
        """`size` bytes as a uint8 array; what is made of it shares the block, whose last user gives it back."""
        block = None
        while self._free and block is None:
            candidate = self._free.pop()
            block = candidate if len(candidate) >= size else None
        if block is None:
            block = mmap.mmap(-1, max(size, 1))
        lent = (ctypes.c_uint8 * len(block)).from_buffer(block)
        weakref.finalize(lent, self._give_back, self._free, block).atexit = False
        return numpy.frombuffer(lent, dtype=numpy.uint8, count=size)

    @staticmethod
    def _give_back(free: list, block) -> None:
        if len(free) < KEPT:
            free.append(block)
