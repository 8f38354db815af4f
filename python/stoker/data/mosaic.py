# SPDX-License-Identifier: Apache-2.0
"""Mosaic's MDS folders: index.json and shards of samples, each a row of encoded columns. The layout is in
docs/formats/container-index.md. No code of the streaming library is needed.

A shard is u32 N, then N+1 u32 offsets of samples from the shard's start; a sample is a u32 size for each column of variable
size, then the columns' bytes in the order of the index's column names.
"""

import json
import os
import struct

import numpy

from stoker import _native
from stoker.data import unreadable
from stoker.data.containers import ContainerError
from stoker.data.fluent import Fluent
from stoker.data.identity import of_files
from stoker.data.pictures import PictureSource

_PICTURES = ("jpeg", "png", "jpg")
_NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
_READ = ("bytes", "str", "int", "json", *_PICTURES, *_NUMBERS)
_MOST_SHARDS = 1_000_000


def mds(folder, image="image", label="label", transform=None):
    """A folder that holds index.json, its shards uncompressed.

    image, label: names of the columns that are a picture (jpeg, png or bytes) and an integer; label None for -1. image=None:
    see MosaicSource; samples are then dicts of all columns. ContainerError names what is damaged; compressed shards are
    refused (unsupported): unpack them with the streaming library.
    """
    folder = os.path.abspath(os.fsdecode(unreadable.path_of("folder", folder)))
    shards = _read_index(folder)
    if image is None:
        return MosaicSource(folder, transform, shards)
    builder = _native.pipeline.ManifestBuilder()
    for shard in shards:
        builder.add_file(os.fsencode(os.path.relpath(shard.path, folder)), shard.size)
        builder.add_extents(*shard.pictures(image, label))
    return PictureSource("mds", "members", folder, builder.finish(), transform, shards=[shard.path for shard in shards])


class MosaicSource(Fluent):
    """Samples of an MDS folder as dicts of their columns: int, str, bytes, numbers as NumPy scalars, pictures as bytes."""

    def __init__(self, folder: str, transform=None, shards=None):
        self._folder = folder
        self.transform = transform
        self._shards = shards if shards is not None else _read_index(folder)
        self._starts = [0]
        for shard in self._shards:
            self._starts.append(self._starts[-1] + shard.samples)

    def __len__(self) -> int:
        return self._starts[-1]

    def __repr__(self) -> str:
        return f"<mds: {len(self)} samples of all their columns>"

    @property
    def shards(self) -> list:
        return [shard.path for shard in self._shards]

    def identity(self) -> str:
        return of_files(self)

    def __getitem__(self, item):
        item = int(item)
        if not -len(self) <= item < len(self):
            raise IndexError(f"sample {item} of {len(self)}")
        item %= len(self)
        number = int(numpy.searchsorted(self._starts, item, side="right")) - 1
        sample = self._shards[number].sample(item - self._starts[number])
        return sample if self.transform is None else self.transform(sample)

    def shard_starts(self) -> list:
        return list(self._starts)

    def __reduce__(self):
        return (type(self), (self._folder, self.transform))


class _Shard:
    """One shard, mapped when it is first read. `columns`: (name, encoding, size or None) in the order of the bytes."""

    def __init__(self, path: str, size: int, samples: int, columns: list):
        self.path = path
        self.size = size
        self.samples = samples
        self._columns = columns
        self._bytes = None
        self._offsets = None

    def _open(self):
        if self._bytes is not None:
            return
        size = os.path.getsize(self.path)
        if size != self.size:
            raise self._damaged("truncated", min(size, self.size), f"it has {size} bytes, index.json says {self.size}")
        begin = 4 * (self.samples + 2)
        if size < begin:
            raise self._damaged("truncated", size, f"it ends inside the offsets of its {self.samples} samples")
        mapped = numpy.memmap(self.path, mode="r", dtype=numpy.uint8)
        words = numpy.frombuffer(mapped[:begin].tobytes(), dtype="<u4").astype(numpy.int64)
        if words[0] != self.samples:
            raise self._damaged("corrupt", 0, f"it says {words[0]} samples, index.json says {self.samples}")
        offsets = words[1:]
        if offsets[0] < begin or offsets[-1] > size or (numpy.diff(offsets) < 0).any():
            raise self._damaged("corrupt", 4, "the offsets of its samples do not rise within it")
        self._bytes, self._offsets = mapped, offsets

    def _spans(self):
        """(begin, size) int64 arrays of each column over all samples."""
        self._open()
        sizes = {}
        begins, ends = self._offsets[:-1], self._offsets[1:]
        variable = [name for name, _, size in self._columns if size is None]
        at = begins + 4 * len(variable)
        if (at > ends).any():
            raise self._short(int((at > ends).argmax()))
        for number, name in enumerate(variable):
            where = begins[:, None] + 4 * number + numpy.arange(4)
            sizes[name] = self._bytes[where].copy().view("<u4").reshape(-1).astype(numpy.int64)
        spans = {}
        for name, _, size in self._columns:
            length = numpy.full(self.samples, size, dtype=numpy.int64) if size is not None else sizes[name]
            spans[name] = (at, length)
            at = at + length
        if (at != ends).any():
            raise self._short(int((at != ends).argmax()))
        return spans

    def pictures(self, image: str, label):
        """(offsets, lengths, labels) of all samples."""
        kinds = {name: kind for name, kind, _ in self._columns}
        self._need(image, kinds, (*_PICTURES, "bytes"), "a picture")
        spans = self._spans()
        offsets, lengths = spans[image]
        labels = numpy.full(self.samples, -1, dtype=numpy.int64)
        if label is not None:
            self._need(label, kinds, ("int", *(name for name in _NUMBERS if "int" in name)), "an integer")
            dtype = "<i8" if kinds[label] == "int" else numpy.dtype(kinds[label]).newbyteorder("<")
            begins, sizes = spans[label]
            wide = numpy.dtype(dtype).itemsize
            if (sizes != wide).any():
                index = int((sizes != wide).argmax())
                why = f"sample {index}: column {label!r} has {sizes[index]} bytes, where {kinds[label]} has {wide}"
                raise self._damaged("corrupt", int(begins[index]), why)
            found = self._bytes[begins[:, None] + numpy.arange(wide)].copy().view(dtype).reshape(-1)
            labels = found.astype(numpy.int64)
            if found.dtype.kind == "u" and (labels < 0).any():
                index = int((labels < 0).argmax())
                raise self._damaged("unsupported", int(begins[index]), f"sample {index}: the label {found[index]} does not fit int64")
        return numpy.ascontiguousarray(offsets), numpy.ascontiguousarray(lengths), labels

    def sample(self, index: int) -> dict:
        self._open()
        begin, end = int(self._offsets[index]), int(self._offsets[index + 1])
        data = self._bytes[begin:end].tobytes()
        variable = sum(size is None for _, _, size in self._columns)
        if len(data) < 4 * variable:
            raise self._short(index)
        sizes = iter(struct.unpack_from(f"<{variable}I", data))
        at, found = 4 * variable, {}
        for name, kind, size in self._columns:
            size = next(sizes) if size is None else size
            if at + size > len(data):
                raise self._short(index)
            if kind not in _READ:
                why = f"sample {index}: column {name!r} has the encoding {kind}; read are {', '.join(_READ)}"
                raise self._damaged("unsupported", begin + at, why)
            try:
                found[name] = _decoded(data[at : at + size], kind)
            except (ValueError, struct.error, RecursionError) as error:  # of numbers, UTF-8, JSON
                why = f"sample {index}: column {name!r} is no {kind}: {error}"
                raise self._damaged("corrupt", begin + at, why) from None
            at += size
        if at != len(data):
            raise self._short(index)
        return found

    def _need(self, name: str, kinds: dict, allowed, what: str) -> None:
        if name not in kinds:
            raise ValueError(f"{self.path}: no column {name!r} among {', '.join(kinds)}")
        if kinds[name] not in allowed:
            raise ValueError(f"{self.path}: column {name!r} is {kinds[name]}, not {what}")

    def _short(self, index: int):
        return self._damaged("corrupt", int(self._offsets[index]), f"the columns of sample {index} do not give its size")

    def _damaged(self, kind: str, offset: int, why: str):
        return ContainerError(f"{self.path}, byte {offset}: {why}", kind, self.path, offset)


def _read_index(folder: str) -> list:
    path = os.path.join(folder, "index.json")
    try:
        with (
            unreadable.named(path, "the index.json that Mosaic's MDSWriter leaves beside its shards: name that folder"),
            open(path, encoding="utf-8") as file,
        ):
            index = json.load(file)
        shards = [_shard_of(folder, path, entry) for entry in index["shards"]]
    except (KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ContainerError(f"{path}: no index of MDS: {type(error).__name__}: {error}", "corrupt", path) from None
    return shards


def _shard_of(folder: str, index: str, entry: dict) -> _Shard:
    if entry["format"] != "mds":
        raise ContainerError(f"{index}: a shard of format {entry['format']}; only mds is read", "unsupported", index)
    raw = entry["raw_data"]["basename"]
    path = os.path.join(folder, raw)
    if os.path.isabs(raw) or os.path.commonpath([os.path.normpath(path), folder]) != folder:
        raise ContainerError(f"{index}: the shard {raw} leads out of the folder", "corrupt", index)
    if entry.get("compression") and not os.path.exists(path):
        raise ContainerError(
            f"{path}: the shard is compressed ({entry['compression']}) and not unpacked; unpack the folder first",
            "unsupported",
            path,
        )
    columns = list(zip(entry["column_names"], entry["column_encodings"], entry["column_sizes"], strict=True))
    samples, size = int(entry["samples"]), int(entry["raw_data"]["bytes"])
    if samples < 0 or not all(size is None or size >= 0 for _, _, size in columns):
        raise ContainerError(f"{index}: a shard of impossible counts", "corrupt", index)
    return _Shard(path, size, samples, columns)


def _decoded(data: bytes, kind: str):
    if kind in _PICTURES or kind == "bytes":
        return data
    if kind == "str":
        return data.decode("utf-8")
    if kind == "int":
        return struct.unpack("<q", data)[0]
    if kind == "json":
        return json.loads(data)
    number = numpy.dtype(kind).newbyteorder("<")
    if len(data) != number.itemsize:
        raise ValueError(f"{len(data)} bytes")
    return numpy.frombuffer(data, dtype=number)[0]
