# SPDX-License-Identifier: Apache-2.0
"""Pictures with labels, wherever they are stored: what image_folder, file_list, webdataset, tfrecord and mds give.

A source is a map-style dataset. Without a transform its samples are `{"image": bytes, "label": int}`, the bytes as they
are stored; with one they are `(transform(picture), label)`, the picture a PIL image in RGB, as of torchvision's
ImageFolder, and a stoker.DataLoader makes them without Python where it knows the transforms exactly.
"""

import os

from stoker import _native
from stoker.data.fluent import Fluent
from stoker.data.image import ImageError

_native_pipeline = _native.pipeline


class PictureSource(Fluent):
    """N pictures of a manifest. Attributes: `classes` (names, may be empty), `labels` (int64 [N]; -1 where there is none).

    Pickled as the manifest's hash where the cache has it: workers map the same file, N costs them nothing.
    """

    def __init__(self, name, kind, root, manifest, transform=None, features=None, shards=(), shown_from=None):
        self.name = name
        self.transform = transform
        self.shards = list(shards)  # the container files, in order
        self._kind = kind
        self._root = root
        self._shown_from = root if shown_from is None else shown_from
        self._features = features  # (picture, label) of a TFRecord
        self._manifest = manifest
        self._reader = None

    def __len__(self) -> int:
        return self._manifest.items

    def __getitem__(self, item):
        """The sample. ImageError or ContainerError names what is damaged, OSError what cannot be read."""
        item = self._checked(item)
        if self._reader is None:
            self._reader = _native_pipeline.ItemReader(self._manifest, os.fsencode(self._root))
        stored = self._reader.read(item)
        data, label = self._of_record(stored, item) if self._features else (stored, int(self._manifest.labels[item]))
        if self.transform is None:
            return {"image": data, "label": label}
        try:
            picture = _picture(data, self._reader.path(item))
        except ImageError as error:
            if not self.shards:
                raise
            begin = self._reader.offset(item) + max(stored.find(data), 0)
            raise in_container(error, self._reader.path(item), begin + (error.offset or 0), item) from None
        return self.transform(picture), label

    @property
    def classes(self) -> list:
        return self._manifest.classes

    @property
    def labels(self):
        return self._manifest.labels

    @property
    def manifest(self):
        return self._manifest

    def path(self, item: int) -> str:
        """The file that is the picture, below the folder that was named where it is; or the file that holds it."""
        path = os.path.join(self._root, self._manifest.path(self._checked(item)))
        below = os.path.join(self._shown_from, "")
        return path[len(below) :] if not self.shards and path.startswith(below) else path

    def with_transform(self, transform) -> "PictureSource":
        """The same pictures through another transform; nothing is listed again."""
        return type(self)(self.name, self._kind, self._root, self._manifest, transform, self._features, self.shards, self._shown_from)

    def shard_starts(self) -> list:
        """The first item of each container file and N at the end, for orders that keep shards together."""
        return list(self._manifest.file_starts)

    def plan_source(self, mask_dtype: str = "") -> dict:
        """The `source` of a native plan (docs/formats/plan.md). mask_dtype: of masks that are converted."""
        source = {
            "kind": self._kind,
            "root": os.path.abspath(self._root),
            "manifest": self._manifest.hash,
            "items": self._manifest.items,
        }
        if self._features:
            source["picture"], source["label"] = self._features[0], self._features[1] or ""
        return source

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self)} pictures>"

    def __getstate__(self):
        state = {**self.__dict__, "_reader": None, "_manifest": None}
        if not os.environ.get("STOKER_FEED"):
            try:
                self._manifest.save()
                return state, self._manifest.hash
            except OSError:  # no cache to be had
                pass
        return state, self._manifest.bytes()

    def __setstate__(self, pickled):
        self.__dict__, kept = pickled
        if isinstance(kept, str):
            self._manifest = _native_pipeline.Manifest.of_cache(kept)
        else:
            self._manifest = _native_pipeline.Manifest.from_bytes(kept)

    def _checked(self, item) -> int:
        item = int(item)
        if not -len(self) <= item < len(self):
            raise IndexError(f"item {item} of {len(self)}")
        return item % len(self)

    def _of_record(self, frame: bytes, item: int):
        picture, label = self._features
        path, offset = self._reader.path(item), self._reader.offset(item)
        features = example(_native_pipeline.record_data(frame, os.fsencode(path), offset), path, offset, item)
        pictures = features.get(picture)
        if not isinstance(pictures, list) or len(pictures) != 1:
            raise damaged(path, offset, item, f'the record has no feature "{picture}" of one picture')
        if not label:
            return pictures[0], -1
        labels = features.get(label)
        if isinstance(labels, list) or labels is None or labels.dtype != "int64" or len(labels) != 1:
            raise damaged(path, offset, item, f'the record has no feature "{label}" of one integer')
        return pictures[0], int(labels[0])


def example(data: bytes, path: str, offset: int, sample: int) -> dict:
    """The features of a tf.train.Example, whose record begins at that offset."""
    try:
        return _native_pipeline.parse_example(data)
    except ImageError as error:
        raise damaged(path, offset, sample, error.message, error.kind) from None


def damaged(path: str, offset: int, sample: int, why: str, kind: str = "corrupt"):
    """The ContainerError of a sample."""
    from stoker.data.containers import ContainerError

    return ContainerError(f"{path}, byte {offset}: sample {sample}: {why}", kind, path, offset)


def in_container(error: ImageError, path: str, offset: int, sample: int) -> ImageError:
    """The same of a picture, at its place in the container."""
    return ImageError(f"{path}, byte {offset}: sample {sample}: {error.message}", error.kind, path, offset)


def _picture(data: bytes, path: str):
    """A PIL image in RGB with the pixels of Pillow, of any format that Pillow reads."""
    from PIL import Image

    from stoker.data import image

    return Image.fromarray(image.decode(data, path=path))


def image_folder(root, allow_empty: bool = False, transform=None) -> PictureSource:
    """What torchvision.datasets.ImageFolder(root) lists, in its order and with its classes; quick the second time.

    FolderError (no_classes, empty_class unless allow_empty, link_loop) says what is wrong with the folder.
    """
    from stoker.data import source

    manifest = source.image_folder(root, allow_empty)
    return PictureSource("image_folder", "image_folder", os.path.realpath(root), manifest, transform)
