# SPDX-License-Identifier: Apache-2.0
"""Rows of Parquet files, by pyarrow, in the Python worker that wants them: the worker is the supervised child, so what a
damaged file does to pyarrow ends at most that worker, whose samples are redone or named.

Row groups are read whole; each worker keeps the last few. With `shuffle=block(k)` a worker stays within k of them.
"""

import bisect
import collections
import os
import threading

from stoker.data.containers import ContainerError, expand
from stoker.data.fluent import Fluent
from stoker.data.identity import of_files
from stoker.data.image import ImageError

_KEPT_GROUPS = 8
_KEPT_BYTES = 256 << 20


def parquet(files, image=None, label=None, columns=None, transform=None) -> "ParquetSource":
    """A row is a sample: `{column: value}`, bytes, str and numbers as Python values.

    files: a path, a pattern with braces or wildcards, or a list. columns: those to read (all of them). image, label: with
    both named (label may be None), samples are `{"image": bytes, "label": int}`, or `(transform(picture), label)`; a picture
    may be a binary column or a struct of `bytes` and `path`. Needs pyarrow.
    """
    return ParquetSource(expand(files), image, label, columns, transform)


class ParquetSource(Fluent):
    """See parquet(). Map-style; a pickle of it holds paths and the index of row groups."""

    def __init__(self, paths, image=None, label=None, columns=None, transform=None, index=None):
        self.shards = list(paths)
        self.transform = transform
        self._image, self._label = image, label
        self._columns = list(columns) if columns is not None else None
        if image is not None:
            self._columns = [image] + ([label] if label is not None else [])
        self._groups = index if index is not None else _index(self.shards, self._columns)  # (path number, group, rows)
        self._starts = [0]
        for _, _, rows in self._groups:
            self._starts.append(self._starts[-1] + rows)
        self._kept = collections.OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._starts[-1]

    def __repr__(self) -> str:
        return f"<parquet: {len(self)} {'rows' if self._image is None else 'pictures in rows'}>"

    def identity(self) -> str:
        return of_files(self, self._columns, self._image, self._label)

    def __getitem__(self, item):
        item = int(item)
        if not -len(self) <= item < len(self):
            raise IndexError(f"row {item} of {len(self)}")
        item %= len(self)
        number = bisect.bisect_right(self._starts, item) - 1
        row = item - self._starts[number]
        table = self._group(number)
        values = {name: self._value(table, name, number, row) for name in table.column_names}
        if self._image is None:
            return values if self.transform is None else self.transform(values)
        return self._picture(values, number, row)

    def shard_starts(self) -> list:
        """Row groups are the shards: what is read as one."""
        return list(self._starts)

    def _value(self, table, name: str, number: int, row: int):
        try:
            return table.column(name)[row].as_py()
        except Exception as error:  # text that is no UTF-8, a time out of Python's range
            why = f"row {row} has a value in {name!r} that cannot be had: {type(error).__name__}: {error}"
            raise self._damaged(number, "corrupt", why) from error

    def _picture(self, values: dict, number: int, row: int):
        data = values[self._image]
        if isinstance(data, dict):
            data = data.get("bytes")
        label = -1 if self._label is None else values[self._label]
        if not isinstance(data, bytes):
            raise self._damaged(number, "corrupt", f"row {row} has no picture in {self._image!r} but {type(data).__name__}")
        if not isinstance(label, int):
            raise self._damaged(number, "corrupt", f"row {row} has no integer in {self._label!r} but {type(label).__name__}")
        if self.transform is None:
            return {"image": data, "label": label}
        from stoker.data.pictures import _picture

        file, group, _ = self._groups[number]
        path = self.shards[file]
        try:
            picture = _picture(data, path)
        except ImageError as error:
            at = "" if error.offset is None else f" at its byte {error.offset}"
            where = f"{path}, row group {group}: row {row}, the picture{at}"
            raise ImageError(f"{where}: {error.message}", error.kind, path) from None
        return self.transform(picture), label

    def _group(self, number: int):
        with self._lock:
            if number in self._kept:
                self._kept.move_to_end(number)
                return self._kept[number]
        file, group, rows = self._groups[number]
        pyarrow = _pyarrow()
        try:
            with pyarrow.ParquetFile(self.shards[file], page_checksum_verification=True) as opened:
                table = opened.read_row_group(group, columns=self._columns, use_threads=False)
        except OSError as error:  # also pyarrow's own, of damaged pages
            if error.errno is not None:
                raise
            raise self._damaged(number, "corrupt", str(error)) from error
        except Exception as error:
            raise self._damaged(number, "corrupt", f"{type(error).__name__}: {error}") from error
        if table.num_rows != rows:
            raise self._damaged(number, "corrupt", f"{table.num_rows} rows where there were {rows} when it was indexed")
        with self._lock:
            self._kept[number] = table
            while len(self._kept) > 1 and (
                len(self._kept) > _KEPT_GROUPS or sum(kept.nbytes for kept in self._kept.values()) > _KEPT_BYTES
            ):
                self._kept.popitem(last=False)
        return table

    def _damaged(self, number: int, kind: str, why: str):
        file, group, _ = self._groups[number]
        path = self.shards[file]
        return ContainerError(f"{path}, row group {group}: {why}", kind, path)

    def __reduce__(self):
        return (type(self), (self.shards, self._image, self._label, self._columns, self.transform, self._groups))


def _index(paths: list, columns) -> list:
    pyarrow = _pyarrow()
    groups = []
    for number, path in enumerate(paths):
        size = os.path.getsize(path)
        if size == 0:
            raise ContainerError(f"{path}: no bytes", "empty", path, 0)
        with open(path, "rb") as file:
            file.seek(max(0, size - 4))
            whole = file.read(4) in (b"PAR1", b"PARE")
        if not whole:
            raise ContainerError(f"{path}, byte {size}: it does not end with a footer; it is cut, or no Parquet", "truncated", path, size)
        try:
            with pyarrow.ParquetFile(path) as opened:
                names, meta = opened.schema_arrow.names, opened.metadata
                counts = [meta.row_group(g).num_rows for g in range(meta.num_row_groups)]
        except Exception as error:
            raise ContainerError(f"{path}: its footer is damaged: {error}", "corrupt", path) from error
        missing = [name for name in columns or [] if name not in names]
        if missing:
            raise ValueError(f"{path}: no column {missing[0]!r} among {', '.join(names)}")
        groups += [(number, group, rows) for group, rows in enumerate(counts) if rows]
    return groups


def _pyarrow():
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet files are read by pyarrow, which is not installed: pip install pyarrow") from None
    return pyarrow.parquet
