# SPDX-License-Identifier: Apache-2.0
"""Makes batches by a user's Python code: the same function in a worker process and in the training process.

`make(positions, items)` is a function of the plan's seed, the positions and the items, as far as the user's code is one
of its arguments and of the generators that are seeded for it.
"""

import io
import pickle
import sys
from contextlib import nullcontext
import types
from collections import ChainMap

import cloudpickle

from stoker.data import seeding, units
from stoker.data.collate import numpy_collate

BATCH = "batch"  # collate([dataset[item] for each]), or collate(dataset.__getitems__(items))
SINGLE = "single"  # collate(dataset[item]): batch_size=None
LIST = "list"  # collate(dataset[items]): batch_size=None under a sampler that yields lists


def is_default_collate(function) -> bool:
    """Whether it is torch's, and not what somebody put in its place."""
    torch = sys.modules.get("torch")
    if torch is None or function is not torch.utils.data.default_collate:
        return False
    return getattr(function, "__globals__", None) is vars(torch.utils.data._utils.collate)


class UnitMaker:
    """Confined: one thread. After an exception, `position`, `item` and `doing` say where it came from."""

    def __init__(self, dataset, collate, mode: str, seed: int):
        self._dataset = dataset
        self._collate = collate
        # Around the collating of samples by rules of ours, of a batch that is handed on: a worker's place for it (stacking.py).
        self.collating = nullcontext
        self._is_ours = collate is numpy_collate or is_default_collate(collate)
        self._mode = mode
        self._seed = seed
        self._make_unit = getattr(dataset, "stoker_make_unit", None)  # of pipes: makes a whole unit, by positions too
        self._many = getattr(dataset, "__getitems__", None) if mode == BATCH else None
        self.position = self.item = self.doing = None
        self.on_fetched = None  # called when the samples of a batch are there and not yet collated
        self.on_sample = None  # called between two samples

    def make(self, positions, items):
        self.doing = None
        if self._make_unit:
            return self._make_unit(self._seed, positions, items, self._stand_at, self.collating)
        if self._many or self._mode == LIST:
            self._stand_at(positions[0], items[0])
            fetched = self._many(items) if self._many else self._dataset[items]
        elif self._mode == SINGLE:
            self._stand_at(positions[0], items[0])
            fetched = self._dataset[items[0]]
        else:
            fetched = []
            for position, item in zip(positions, items, strict=True):
                self._stand_at(position, item)
                fetched.append(self._dataset[item])
        if self.on_fetched is not None:
            self.on_fetched()
        self.doing = "collating the batch that begins there"
        self.position, self.item = positions[0], items[0]
        if not self._is_ours:
            return self._collate(fetched)
        with self.collating(fetched):
            return self._collate(fetched)

    def _stand_at(self, position, item):
        if self.on_sample is not None:
            self.on_sample()
        self.position, self.item = position, item
        seeding.seed_generators(self._seed, position)


def bundle(dataset, collate, init, mode: str) -> bytes:
    """The attachment of a Python plan: what a worker needs beside the plan. docs/formats/unit.md."""
    paths = [path for path in sys.path if isinstance(path, str)]
    try:
        code = io.BytesIO()
        _Pickler(code, protocol=5).dump({"dataset": dataset, "collate": collate, "init": init, "mode": mode})
    except Exception as error:
        raise TypeError(
            f"the dataset (or collate_fn, worker_init_fn) cannot be sent to a worker process: {error}. Workers are new "
            "processes, as with multiprocessing's 'spawn': keep locks, open files and connections out of the dataset's "
            "attributes (open them in __getitem__ or in worker_init_fn), or use num_workers=0"
        ) from error
    return cloudpickle.dumps((paths, code.getvalue()), protocol=5)


# torch's own pickle knows how to store these; of all others (uint16, float8, complex32, …) it makes what cannot be loaded.
_STORED = frozenset("uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 bool".split())


def _reduce_code(code):
    """As cloudpickle does, which since 3.1 leaves out the file: tracebacks are to name it, and to show its lines."""
    make, fields = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    file = "".join(code.co_filename)  # a text of its own: equal code has equal bytes, whoever else holds that name
    return make, tuple(file if one == "<dynamic-code>" else one for one in fields)


class _Pickler(cloudpickle.Pickler):
    dispatch_table = ChainMap({types.CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table)

    def reducer_override(self, obj):
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(obj, torch.Tensor) and str(obj.dtype)[6:] not in _STORED:
            reduced = units.reduce_tensor(torch, obj)
            if reduced is not None:
                return reduced
        return super().reducer_override(obj)


def unbundle(attachment) -> dict:
    """{"dataset", "collate", "init", "mode"} of an attachment. Imports look where the sender's would, then where ours do."""
    import os

    paths, code = pickle.loads(attachment)
    theirs = [path for path in paths if path == "" or os.path.exists(path)]
    sys.path[:] = theirs + [path for path in sys.path if path not in theirs]
    return pickle.loads(code)
