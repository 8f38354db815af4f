# SPDX-License-Identifier: Apache-2.0
import numpy

from stoker.data.memory import KEPT, Shelf


def test_a_block_is_used_again_when_its_last_array_is_gone():
    shelf = Shelf()
    first = shelf.take(1000)
    at = first.ctypes.data
    part = first[10:20].view(numpy.int8).reshape(2, 5)
    del first
    second = shelf.take(1000)
    assert second.ctypes.data != at
    del part
    assert shelf.take(900).ctypes.data == at


def test_kept_arrays_keep_their_bytes_and_few_blocks_wait():
    shelf = Shelf()
    kept = [shelf.take(64) for _ in range(10)]
    for i, array in enumerate(kept):
        array[:] = i
    assert all((array == i).all() for i, array in enumerate(kept))
    del kept, array
    assert len(shelf._free) == KEPT
