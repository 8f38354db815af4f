# SPDX-License-Identifier: Apache-2.0
"""Arrays of equal length as a dataset: rows are samples, copied by compiled code from the array into the batch; or
pictures in them, transformed on the way.

Workers read the same memory: a `.npy` file is mapped, an array in memory is put into anonymous shared memory once, when
the first worker needs it. Arrays must not be changed while loaders use them.
"""

import copy
import json
import mmap
import os

import numpy

from stoker import _native
from stoker.data import unreadable
from stoker.data.collate import numbers
from stoker.data.fluent import Fluent
from stoker.data.whole import whole

_pipeline = _native.pipeline


def arrays(*positional, transform=None, **named) -> "ArraySource":
    """`arrays(x)`, `arrays(x, y)`, `arrays(image=x, label=y)` or `arrays({"image": x})`: NumPy arrays (or what becomes one
    without a copy, such as CPU tensors), or paths of `.npy` files. Samples are a row, a tuple of rows or a dict of rows.

    `transform` is for arrays of small pictures: what torchvision's transforms make of the rows of the first array, which are
    uint8 [H, W, 3] and go to it as PIL pictures (as CIFAR10's do), or uint8 [3, H, W] and go to it as tensors. A
    stoker.DataLoader makes them without Python where it knows the transforms exactly.

    Rows are numbers in C order, little-endian; ValueError for others, ContainerError for a `.npy` that cannot be read.
    """
    if named and positional:
        raise TypeError("arrays by position or by name, not both")
    if len(positional) == 1 and isinstance(positional[0], dict):
        named, positional = positional[0], ()
    if named:
        return ArraySource(list(named), list(named.values()), "dict", transform)
    names = [f"array{i}" for i in range(len(positional))]
    return ArraySource(names, positional, "row" if len(positional) == 1 else "tuple", transform)


class ArraySource(Fluent):
    """See arrays(). Map-style: `len`, and rows as views by `[i]`, the first through the transform where there is one."""

    def __init__(self, names, values, form: str, transform=None):
        if not names:
            raise ValueError("there must be at least one array")
        self._names = names
        self._form = form
        self._columns = [_Column(name, value) for name, value in zip(names, values, strict=True)]
        lengths = {column.name: len(column.array) for column in self._columns}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the arrays have different lengths: {lengths}")
        self.transform = transform
        if transform is not None and not self.picture_layout():
            pictures = self._columns[0]
            raise ValueError(
                f"a transform needs uint8 [H, W, 3] or [3, H, W] in the first array, but {pictures.name} has rows of "
                f"{pictures.array.dtype}{list(pictures.array.shape[1:])}"
            )

    def __len__(self) -> int:
        return len(self._columns[0].array)

    def __getitem__(self, item):
        leaves = [column.array[item] for column in self._columns]
        if self.transform is not None:
            leaves[0] = self.transform(_picture(leaves[0], self.picture_layout()))
        return self.assemble(leaves)

    def __getitems__(self, items):
        return [self[item] for item in items]

    def assemble(self, leaves: list):
        """One value per array, in the form of a sample."""
        if self._form == "dict":
            return dict(zip(self._names, leaves, strict=True))
        return leaves[0] if self._form == "row" else tuple(leaves)

    def assemble_batch(self, leaves: list):
        """The same for columns of a batch: as torch's default_collate, a tuple becomes a list."""
        return list(leaves) if self._form == "tuple" else self.assemble(leaves)

    def picture_layout(self) -> str:
        """"hwc" or "chw", if the rows of the first array can be pictures; else ""."""
        array = self._columns[0].array
        if array.dtype != numpy.uint8 or array.ndim != 4 or 0 in array.shape[1:]:
            return ""
        return "hwc" if array.shape[3] == 3 else "chw" if array.shape[1] == 3 else ""

    def picture_size(self) -> tuple:
        """(width, height) of such pictures."""
        shape = self._columns[0].array.shape[1:]
        return (shape[1], shape[0]) if self.picture_layout() == "hwc" else (shape[2], shape[1])

    def has_pictures(self) -> bool:
        """Whether ops of a pipe find pictures in the samples: the rows of the first array, which is `image` where they have names."""
        named = self._form != "dict" or self._names[0] == "image"
        return self.transform is None and named and bool(self.picture_layout())

    def with_transform(self, transform) -> "ArraySource":
        """The same arrays, and memory, through another transform."""
        other = copy.copy(self)
        other.transform = transform
        return other

    def plan(self, ops=None) -> dict:
        """The fields of an array plan (docs/formats/plan.md) that are its own; `ops` are for its pictures, None: rows are copied."""
        plan = {"kind": "arrays", "items": len(self), "columns": [column.described() for column in self._columns]}
        if ops is not None:
            plan["pictures"] = {"column": self._columns[0].name, "layout": self.picture_layout(), "ops": ops}
        return plan

    @property
    def shards(self) -> list:
        """The files that the arrays lie in."""
        return [column.file[0] for column in self._columns if column.file]

    def identity(self) -> str:
        through = "" if self.transform is None else " ".join(repr(self.transform).split())
        return json.dumps([self.plan(), self._form, through], sort_keys=True)

    def places(self) -> bytes:
        """The attachment: where processes of this machine find the bytes."""
        return json.dumps([column.place() for column in self._columns]).encode()

    def open_here(self, plan):
        """A producer in this process, on the memory as it is."""
        return _pipeline.open_arrays(plan, [column.bytes() for column in self._columns])

    def lies_in_memory(self) -> bool:
        """Whether nothing of it is a mapped file, whose reading may fail or hang and end whoever reads."""
        return not any(column.file or _is_mapped(column.array) for column in self._columns)

    def in_memory(self) -> list:
        """Names of the arrays that lie in no file, so that other machines cannot have them."""
        return [column.name for column in self._columns if column.file is None]

    def __repr__(self) -> str:
        through = "" if self.transform is None else f", through {' '.join(repr(self.transform).split())}"
        columns = ", ".join(f"{c.name} {c.array.dtype}{list(c.array.shape[1:])}" for c in self._columns)
        return f"<arrays: {len(self)} rows of {columns}{through}>"


def _picture(row, layout: str):
    """What a transform gets: a PIL picture, or a tensor."""
    if layout == "hwc":
        from PIL import Image

        return Image.fromarray(row)
    import torch

    return torch.from_numpy(row.copy())


def _is_of_integers(value) -> bool:
    """A list that NumPy may round: uint64 beside int64 becomes float64."""
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(isinstance(one, int) for one in value)


class _Column:
    """One array. `file`: (path, offset) where its bytes lie in a file from there on."""

    def __init__(self, name: str, value):
        self.name = str(name)
        self.file = None
        self._memfd = None
        self._content = None
        if isinstance(value, (str, os.PathLike)):
            value, self.file = _open_npy(os.fspath(value))
        elif isinstance(value, numpy.memmap) and isinstance(value.base, mmap.mmap) and value.flags.c_contiguous:
            self.file = (os.path.abspath(value.filename), int(value.offset))
        if numpy.ma.is_masked(value):
            raise ValueError(
                f"{self.name} is a masked array, and rows have no mask: give {self.name}.filled(value), or values and mask as two "
                f"arrays (numpy.ma.getdata, numpy.ma.getmaskarray)"
            )
        try:
            array = numbers(value) if _is_of_integers(value) else numpy.asarray(value)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:  # bfloat16, requires_grad, lists of different lengths
            raise ValueError(f"{self.name} ({type(value).__name__}) becomes no NumPy array: {error}") from error
        if array.ndim == 0:
            raise ValueError(f"{self.name} is a scalar and has no rows")
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8 or array.dtype.byteorder == ">":
            raise ValueError(f"{self.name} has dtype {array.dtype}; rows are little-endian numbers of at most 64 bits")
        self.array = numpy.ascontiguousarray(array)

    def described(self) -> dict:
        if self._content is None:
            if self.file:
                self._content = f"file:{os.path.basename(self.file[0])}:{self.file[1]}:{os.path.getsize(self.file[0])}"
            else:
                self._content = f"xxh3:{_native.block_hash(self.bytes()):016x}"
        return {
            "name": self.name,
            "dtype": self.array.dtype.name,
            "shape": list(self.array.shape[1:]),
            "content": self._content,
        }

    def bytes(self):
        """A flat view of the memory."""
        return self.array.reshape(-1).view(numpy.uint8)

    def place(self) -> dict:
        if self.file:
            return {"path": self.file[0], "offset": self.file[1]}
        if self._memfd is None:
            self._share()
        return {"path": f"/proc/{os.getpid()}/fd/{self._memfd.fileno()}", "offset": 0}

    def _share(self) -> None:
        """Moves the bytes to shared memory, which ends with the last process that maps it. Our own array is a view of it from
        here on, so that the memory of the one that was given can go."""
        self._memfd = open(os.memfd_create("stoker-array"), "r+b", buffering=0)
        size = self.array.nbytes
        if size == 0:
            return
        os.truncate(self._memfd.fileno(), size)
        mapped = numpy.frombuffer(mmap.mmap(self._memfd.fileno(), size), dtype=numpy.uint8)
        mapped[:] = self.bytes()
        self.array = mapped.view(self.array.dtype).reshape(self.array.shape)

    def __getstate__(self):
        """Python workers (where rows go through Python code) map it too: they are this process's children."""
        place = self.place() if not os.environ.get("STOKER_FEED") else None
        if place is None and self.file is None:
            raise TypeError(f"{self.name} lies in this machine's memory; save it as .npy in an input channel for a feed group")
        place = place or {"path": self.file[0], "offset": self.file[1]}
        described = self.described()
        return {"place": place, "dtype": self.array.dtype.str, "shape": self.array.shape, "described": described}

    def __setstate__(self, state):
        self.name = state["described"]["name"]
        self._content = state["described"]["content"]
        self._memfd = None
        self.file = (state["place"]["path"], state["place"]["offset"])
        shape = tuple(state["shape"])
        if 0 in shape:
            self.array = numpy.zeros(shape, dtype=state["dtype"])
            return
        self.array = numpy.memmap(*self.file[:1], mode="r", dtype=state["dtype"], offset=self.file[1], shape=shape)


def _is_mapped(array) -> bool:
    """Whether it is a view of a numpy.memmap."""
    while array is not None and not isinstance(array, numpy.memmap):
        array = getattr(array, "base", None)
    return array is not None


def _open_npy(path: str):
    path = os.path.abspath(path)
    with unreadable.named(path, "an array as numpy.save() writes it"), open(path, "rb") as file:
        begin = file.read(64 << 10)
        size = os.fstat(file.fileno()).st_size
    dtype, shape, at, bytes_needed = _pipeline.npy_header(begin, os.fsencode(path))
    if size - at < bytes_needed:
        from stoker.data.containers import ContainerError

        raise ContainerError(f"{path} ends at byte {size}, its header states {at + bytes_needed}", "truncated", path, size)
    if bytes_needed == 0:
        return numpy.zeros(shape, dtype=dtype), (path, at)
    return numpy.memmap(path, mode="r", dtype=dtype, offset=at, shape=tuple(shape)), (path, at)


class Range(Fluent):
    """range_(n): the numbers 0 to n-1."""

    def __init__(self, n: int):
        self._n = whole("n", n, end=1 << 63)

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, item):
        if not -self._n <= item < self._n:
            raise IndexError(f"item {item} of {self._n}")
        return int(item) % self._n

    def identity(self) -> str:
        return f"range({self._n})"

    def __repr__(self) -> str:
        return f"<range({self._n})>"


def range_(n: int) -> Range:
    """n samples, sample i the number i: with map() a source of anything that can be computed from a number."""
    return Range(n)


class FromFunction(Range):
    """See from_function()."""

    def __init__(self, n: int, function):
        super().__init__(n)
        self._function = function

    def __getitem__(self, item):
        return self._function(super().__getitem__(item))

    def identity(self) -> str:
        return ""  # who knows what the function does next time

    def __repr__(self) -> str:
        return f"<from_function({self._n}, {getattr(self._function, '__qualname__', self._function)})>"


def from_function(n: int, function) -> FromFunction:
    """n samples, sample i being function(i). What it draws at random is seeded by the position of the sample."""
    return FromFunction(n, function)
