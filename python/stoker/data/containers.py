# SPDX-License-Identifier: Apache-2.0
"""Pictures in container files: WebDataset's tar shards, TFRecord files, Mosaic's MDS shards.

Files are indexed once; the index is kept in the cache and made again when a file's size or time changes. A damaged
container is an error with its offset (ContainerError), also where other readers stop without a word.
"""

import glob
import os
import re
import warnings

from stoker import _native
from stoker.data import braces
from stoker.data.fluent import Fluent
from stoker.data.identity import common_folder, of_files
from stoker.data.image import ImageError
from stoker.data.pictures import PictureSource, example
from stoker.data.unreadable import resolved

_PICTURES = "jpg;jpeg;png;webp;ppm;pgm;pbm;pnm;bmp;gif;tif;tiff"
_MOST_SHARDS = 1_000_000


class ContainerError(ImageError):
    """The stored bytes of an archive or record file are wrong, not those of one picture in it.

    kind: 'empty', 'not_tar', 'truncated', 'corrupt', 'unsupported', 'too_large', 'duplicate_field', 'corrupt_length' or
    'corrupt_data'. path and offset (in the file as it is read; of gzip, as it is unpacked) say where.
    """

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def webdataset(shards, image=_PICTURES, label="cls", missing="error", transform=None):
    """Tar shards whose members of one base name are a sample.

    shards: a path, a pattern with braces as in bash (`train-{000..012}.tar`, `{a,b}.tar`) or wildcards, or a list of them.
    image: extensions of the member that is the picture, by preference, joined by `;`. label: the extension of the one that
    holds an integer as text, or None for label -1. missing: a sample without them is an 'error', or to be left out, counted
    in a warning ('skip'). image=None: see TarSource; samples are then dicts of all their members.
    """
    paths = expand(shards, "shards")
    opened = _native.pipeline.TarShards.open([os.fsencode(path) for path in paths])
    _warn_about(opened.shards())
    if image is None:
        return TarSource(paths, opened, transform)
    if missing not in ("error", "skip"):
        raise ValueError(f"missing should be 'error' or 'skip', but got {missing!r}")
    extensions = [one.lower() for one in image.split(";")]
    root = common_folder(paths)
    manifest, kept = opened.pick(extensions, label or "", missing == "skip", os.fsencode(root))
    if kept is not None:
        warnings.warn(f"{opened.samples - len(kept)} of {opened.samples} samples have no picture or label and are left out",
                      stacklevel=2)
    return PictureSource("webdataset", "members", root, manifest, transform, shards=paths)


class TarSource(Fluent):
    """Samples as they lie in tar shards: `{"__key__": str, "__url__": path, extension: bytes, …}`, through `transform` if
    there is one. Map-style; a pickle of it holds the paths, workers read the kept index."""

    def __init__(self, paths, opened=None, transform=None):
        self.shards = list(paths)
        self.transform = transform
        self._opened = opened if opened is not None else _native.pipeline.TarShards.open([os.fsencode(p) for p in paths])

    def __len__(self) -> int:
        return self._opened.samples

    def __repr__(self) -> str:
        return f"<webdataset: {len(self)} samples of all their members>"

    def identity(self) -> str:
        return of_files(self)

    def __getitem__(self, item):
        item = int(item)
        if not -len(self) <= item < len(self):
            raise IndexError(f"sample {item} of {len(self)}")
        item %= len(self)
        key, shard, _ = self._opened.sample(item)
        sample = {"__key__": key, "__url__": self.shards[shard], **self._opened.fields(item)}
        return sample if self.transform is None else self.transform(sample)

    def fields(self, item: int) -> list:
        """The extensions that a sample has, without reading them."""
        return self._opened.sample(item)[2]

    def shard_starts(self) -> list:
        starts = [0]
        for shard in self._opened.shards():
            starts.append(starts[-1] + shard["samples"])
        return starts

    def __reduce__(self):
        return (type(self), (self.shards, None, self.transform))


def tfrecord(files, image="image/encoded", label="image/class/label", transform=None):
    """TFRecord files of tf.train.Example (gzip or plain). image, label: names of the features that hold the encoded picture
    and an integer; label None for -1. image=None: see RecordSource; samples are then all features of a record.

    Lengths are verified when the files are indexed, each record's data whenever it is read.
    """
    paths = expand(files)
    manifest = _indexed(paths)
    if image is None:
        return RecordSource(paths, manifest, transform)
    return PictureSource("tfrecord", "tfrecord", common_folder(paths), manifest, transform, (image, label), paths)


def _indexed(paths):
    return _native.pipeline.index_tfrecords([os.fsencode(path) for path in paths], os.fsencode(common_folder(paths)))


class RecordSource(Fluent):
    """Records of TFRecord files as dicts: feature name → list of bytes, float32 array or int64 array. Map-style."""

    def __init__(self, paths, manifest=None, transform=None):
        self.shards = list(paths)
        self.transform = transform
        self._manifest = manifest or _indexed(paths)
        self._reader = _native.pipeline.ItemReader(self._manifest, os.fsencode(common_folder(paths)))

    def __len__(self) -> int:
        return self._manifest.items

    def __repr__(self) -> str:
        return f"<tfrecord: {len(self)} records>"

    def record(self, item: int) -> bytes:
        """The data of a record, its checksum verified."""
        path = os.fsencode(self._reader.path(item))
        return _native.pipeline.record_data(self._reader.read(item), path, self._reader.offset(item))

    def identity(self) -> str:
        return of_files(self)

    def __getitem__(self, item):
        item = int(item)
        if not -len(self) <= item < len(self):
            raise IndexError(f"record {item} of {len(self)}")
        item %= len(self)
        features = example(self.record(item), self._reader.path(item), self._reader.offset(item), item)
        return features if self.transform is None else self.transform(features)

    def shard_starts(self) -> list:
        return list(self._manifest.file_starts)

    def __reduce__(self):
        return (type(self), (self.shards, None, self.transform))


def expand(patterns, argument: str = "files") -> list:
    """Absolute paths of a pattern or a list of them, in order: braces first, as in bash, then wildcards (sorted).
    FileNotFoundError for a pattern that nothing matches, ValueError where no file is named, TypeError (`argument`'s) for what can name none."""
    if not isinstance(patterns, (str, bytes, os.PathLike)) and not hasattr(patterns, "__iter__"):
        raise TypeError(f"{argument} should be a path or pattern of files, or a list of them, but got {patterns!r}")
    patterns = [patterns] if isinstance(patterns, (str, bytes, os.PathLike)) else list(patterns)
    if not patterns:
        raise ValueError("no files are named: the list of paths or patterns is empty")
    paths = []
    for pattern in patterns:
        if not isinstance(pattern, (str, bytes, os.PathLike)):
            raise TypeError(f"{pattern!r} is no path or pattern of files but {type(pattern).__name__}")
        pattern = os.fsdecode(pattern)
        if re.match(r"[a-z0-9]+:", pattern) and not pattern.startswith("file:"):
            raise ValueError(f"{pattern}: only files on this machine are read; mount the bucket as an input channel")
        pattern = pattern.removeprefix("file:")
        if not pattern or "\0" in pattern:
            raise ValueError(f"{pattern!r} names no file")
        if os.path.exists(pattern):
            paths.append(os.path.abspath(pattern))
            continue
        for one in braces.expand(pattern):
            found = sorted(glob.glob(one)) if glob.has_magic(one) else [one] if os.path.exists(one) else []
            if not found:
                raise FileNotFoundError(f"no file {one}" + (f" (of {pattern})" if one != pattern else "") + resolved(one))
            paths += [os.path.abspath(path) for path in found]
            if len(paths) > _MOST_SHARDS:
                raise ValueError(f"{pattern}: more than {_MOST_SHARDS} files; make the pattern narrower")
    return paths


def _warn_about(shards) -> None:
    for shard in shards:
        notes = []
        if shard["left_out"]:
            notes.append(f"{shard['left_out']} links, devices or FIFOs carry no data and are left out")
        if shard["repeated_keys"]:
            notes.append(f"{shard['repeated_keys']} samples have a key that came before, apart from it")
        if shard["trailing"]:
            notes.append("what follows the closing blocks is not read")
        if not shard["closed"]:
            notes.append(
                f"it ends at offset {shard['plain_bytes']}{' (unpacked)' if shard['gzip'] else ''}, behind a member and without the zero blocks that "
                f"close a tar: if it was cut short there, samples are missing behind these {shard['samples']}, and it is to be fetched again; if "
                "its writer never closes archives, append 1024 zero bytes"
            )
        if notes:
            warnings.warn(f"{shard['path']}: {'; '.join(notes)}", stacklevel=3)
