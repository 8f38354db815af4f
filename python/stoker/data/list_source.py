# SPDX-License-Identifier: Apache-2.0
"""Pictures from a list: paths and labels in memory, or a CSV file."""

import os

from stoker.data import csv_list
from stoker.data import labels as numbering
from stoker.data import source
from stoker.data.identity import common_folder
from stoker.data.pictures import PictureSource


_LOOKED_FOR = 8


def file_list(paths, labels=None, root=None, absolute=False, transform=None, path_column=None, label_column=None):
    """Pictures by path, with integer labels or class names.

    paths: a sequence of paths (labels: one per path, or None for -1), or the path of a `.csv` file whose first line names the
    columns; path_column and label_column are names of them, by default the first two. Of a file without such a line they are
    numbers, path_column=0, label_column=1: then every line counts. A first line that is a picture's, where names are expected, is a
    ValueError. Relative paths are under `root` (of a CSV: its folder) and may not lead out of it; absolute ones must lie under it
    too unless absolute=True. Labels are all integers (`10.0` too, as a table with a missing cell has it), or all class names,
    numbered in sorted order (`classes`), of a CSV without the blanks around them, quoted or not; ValueError names the entry or line of one that is missing or unlike the first.
    """
    if isinstance(paths, (str, bytes, os.PathLike)):
        if labels is not None:
            raise ValueError("a CSV file brings its own labels")
        origin = os.fsdecode(paths)
        if not origin or "\0" in origin:
            raise ValueError(f"{paths!r} names no CSV file")
        root = os.path.dirname(os.path.abspath(origin)) if root is None else root
        rows, lines = csv_list.read(origin, root, {"path_column": path_column, "label_column": label_column}, 1)
        names = [name for name, _ in rows]
        labels = [label.strip() for _, label in rows] if rows and rows[0][1] is not None else None

        def where(number):
            return f"{origin}, line {lines[number]}"
    else:
        if not hasattr(paths, "__iter__"):
            raise TypeError(f"paths should be a sequence of paths, or the path of a .csv file, but got {paths!r}")
        names = [os.fsdecode(path) for path in paths]
        labels = list(labels) if labels is not None else None
        origin = "the list"

        def where(number):
            return f"{origin}, entry {number}"

    if labels is not None and len(labels) != len(names):
        raise ValueError(f"{len(names)} paths and {len(labels)} labels")
    root = os.path.abspath(os.getcwd() if root is None else os.fsdecode(root))
    for number, name in enumerate(names):
        _check(name, root, absolute, where(number))
    numbers, classes = ([-1] * len(names), []) if labels is None else numbering.numbered(labels, where)
    joined = [name if os.path.isabs(name) else os.path.join(root, name) for name in names]
    if joined and not any(map(os.path.exists, joined[:_LOOKED_FOR])):  # a single missing file is named when it is its turn
        looked = f"its first {_LOOKED_FOR} files" if len(joined) > _LOOKED_FOR else "its files"
        raise FileNotFoundError(
            f"{origin}: none of {looked} is there, not {joined[0]}, say; relative paths are under {root} (root=…)"
        )
    folder = common_folder([os.path.abspath(path) for path in joined])
    manifest = source.files(list(zip(joined, numbers, strict=True)), classes, folder)
    return PictureSource("file_list", "files", folder, manifest, transform, shown_from=root)


def _check(name: str, root: str, absolute: bool, where: str) -> None:
    if not name or "\0" in name:
        raise ValueError(f"{where}: {name!r} is no path")
    whole = os.path.normpath(os.path.join(root, name))
    if os.path.isabs(name) and absolute:
        return
    if whole != root and os.path.commonpath([whole, root]) == root:
        return
    remedy = "" if not os.path.isabs(name) else "; say absolute=True if that is meant"
    raise ValueError(f"{where}: {name} leads out of {root}{remedy}")
