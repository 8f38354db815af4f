# SPDX-License-Identifier: Apache-2.0
"""Where samples come from: image folders and lists of files, as manifests.

A manifest lists N items in one mapped file; no Python object exists per item. It has a content hash, which stands in
the plan of whatever reads from it.
"""

from __future__ import annotations

import os
import warnings
from typing import Iterable, Sequence, Tuple

import numpy

from stoker import _native
from stoker.data.csv_list import PICTURES
from stoker.data.unreadable import path_of, resolved

Manifest = _native.pipeline.Manifest


class FolderError(FileNotFoundError):
    """A folder is not what ImageFolder needs. kind: 'no_classes', 'empty_class' or 'link_loop'; path: where."""

    def __init__(self, message: str, kind: str, path: str):
        super().__init__(message)
        self.kind = kind
        self.path = path

    def __reduce__(self):
        return (type(self), (str(self), self.kind, self.path))


def image_folder(root: "str | os.PathLike", allow_empty: bool = False, use_cache: bool = True) -> Manifest:
    """What torchvision.datasets.ImageFolder(root) would list, in its order and with its classes.

    Quick the second time: the root is listed again only if one of its directories has changed since.
    """
    path_of("root", root)
    try:
        manifest, notes, _ = _native.pipeline.open_image_folder(os.fsencode(root), allow_empty, use_cache)
    except FolderError as error:
        flat = _pictures_in(root) if error.kind == "no_classes" else []
        remedy = f"; pictures that lie in it, such as {flat[0]}, have no class: stoker.data.file_list(paths) is for those" if flat else ""
        raise FolderError(f"{error}{resolved(root)}{remedy}", error.kind, error.path) from None
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}{resolved(root)}") from None
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return manifest


def _pictures_in(folder) -> list:
    return sorted(name for name in map(os.fsdecode, os.listdir(folder)) if name.lower().endswith(PICTURES))


def files(
    samples: "Iterable[Tuple[str, int]]", classes: Sequence[str] = (), root: "str | os.PathLike" = ""
) -> Manifest:
    """A list that a dataset already holds (`ImageFolder.samples`). Paths under `root`, as written, are kept relative."""
    samples = samples if isinstance(samples, list) else list(samples)
    labels = numpy.fromiter((label for _, label in samples), dtype=numpy.int64, count=len(samples))
    paths = os.fsencode("\0".join(os.fspath(path) for path, _ in samples))
    if paths.count(b"\0") != max(len(samples) - 1, 0):
        raise ValueError("a path holds a NUL character")
    names = [os.fsencode(name) for name in classes]
    return _native.pipeline.manifest_of_files(paths, labels, names, os.fsencode(root), os.fsencode(os.getcwd()))
