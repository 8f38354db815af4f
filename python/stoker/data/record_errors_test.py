# SPDX-License-Identifier: Apache-2.0
"""What is wrong with one record of a container is told with file, place and sample, whoever reads it."""

import io
import json
import struct
import tarfile

import numpy
import pytest

import stoker
from stoker.data.containers import ContainerError
from stoker.data.containers_test import field, framed
from stoker.data.image import ImageError


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def jpeg():
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(numpy.random.default_rng(0).integers(0, 255, (48, 64, 3), dtype=numpy.uint8)).save(out, "JPEG")
    return out.getvalue()


def example(picture: bytes, label: int) -> bytes:
    values = {b"image/encoded": field(1, field(1, picture)), b"image/class/label": field(3, field(1, bytes([label])))}
    return field(1, b"".join(field(1, field(1, name) + field(2, value)) for name, value in values.items()))


def in_tar(root, pictures):
    with tarfile.open(root / "a.tar", "w") as tar:
        for number, picture in enumerate(pictures):
            for name, data in ((f"{number}.jpg", picture), (f"{number}.cls", b"3")):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return root / "a.tar", stoker.data.webdataset(root / "a.tar")


def in_tfrecord(root, pictures):
    (root / "a.tfrecord").write_bytes(b"".join(framed(example(picture, 3)) for picture in pictures))
    return root / "a.tfrecord", stoker.data.tfrecord(root / "a.tfrecord")


def write_mds(root, names, kinds, sizes, rows):
    at, offsets, blobs = 4 * (len(rows) + 2), [4 * (len(rows) + 2)], []
    for row in rows:
        blobs.append(b"".join(struct.pack("<I", len(v)) for v, size in zip(row, sizes, strict=True) if size is None) + b"".join(row))
        at += len(blobs[-1])
        offsets.append(at)
    data = struct.pack(f"<{len(rows) + 2}I", len(rows), *offsets) + b"".join(blobs)
    (root / "shard.mds").write_bytes(data)
    shard = {"format": "mds", "column_names": names, "column_encodings": kinds, "column_sizes": sizes, "samples": len(rows)}
    shard["raw_data"] = {"basename": "shard.mds", "bytes": len(data)}
    (root / "index.json").write_text(json.dumps({"version": 2, "shards": [shard]}))
    return root / "shard.mds", offsets


def in_mds(root, pictures):
    path, _ = write_mds(root, ["image", "label"], ["jpeg", "int"], [None, 8], [(p, struct.pack("<q", 3)) for p in pictures])
    return path, stoker.data.mds(root)


@pytest.mark.parametrize("stored", [in_tar, in_tfrecord, in_mds])
def test_a_damaged_picture_has_its_place_in_the_container(tmp_path, jpeg, stored, torchvision):
    from torchvision.transforms import v2

    path, source = stored(tmp_path, [jpeg, jpeg[:600]])
    place = path.read_bytes().rindex(jpeg[:600]) + 600
    native = v2.Compose([v2.Resize((8, 8)), v2.ToImage()])
    told = rf"{path}, byte {place}: (sample 1: )?JPEG: ends before the picture does"
    for transform in (native, lambda picture: 1):
        loaded = stoker.DataLoader(source.with_transform(transform), batch_size=1)
        for read in (lambda: source.with_transform(transform)[1], lambda: list(loaded)):  # noqa: B023
            with pytest.raises(ImageError, match=told) as raised:
                read()
            assert (raised.value.kind, raised.value.path, raised.value.offset) == ("truncated", str(path), place)


@pytest.mark.parametrize("stored", [in_tar, in_tfrecord, in_mds])
def test_python_workers_raise_the_same_class_with_the_same_place(tmp_path, jpeg, stored):
    path, source = stored(tmp_path, [jpeg, jpeg[:600]])
    loader = stoker.DataLoader(source.with_transform(lambda picture: 1), batch_size=1, num_workers=1)
    with pytest.raises(ImageError, match=r"Caught ImageError in worker process 0 at position 1, item 1, epoch 0") as raised:
        list(loader)
    place = path.read_bytes().rindex(jpeg[:600]) + 600
    assert (raised.value.kind, raised.value.path, raised.value.offset) == ("truncated", str(path), place)
    assert (raised.value.item, raised.value.worker) == (1, 0) and loader.stats().to_dict()["errors"] == {"truncated": 1}


def test_a_sound_record_that_is_no_example(tmp_path, jpeg, torchvision):
    from torchvision.transforms import v2

    first = framed(example(jpeg, 3))
    path = tmp_path / "a.tfrecord"
    path.write_bytes(first + framed(b"\xff" * 20))
    pictures = stoker.data.tfrecord(path)
    native = stoker.DataLoader(pictures.with_transform(v2.Compose([v2.Resize((8, 8)), v2.ToImage()])), batch_size=1)
    for read in (lambda: pictures[1], lambda: stoker.data.tfrecord(path, image=None)[1], lambda: list(native)):
        with pytest.raises(ImageError, match=rf"{path}, byte {len(first)}: (sample 1: )?the record is no tf.train.Example: it") as raised:
            read()
        assert (raised.value.kind, raised.value.path, raised.value.offset) == ("corrupt", str(path), len(first))


@pytest.mark.parametrize(
    "kind, size, sound, broken",
    [
        ("str", None, b"x", b"\xff"),
        ("json", None, b"{}", b"\xff"),
        ("json", None, b"{}", b"{"),
        ("json", None, b"{}", b"[" * 100_000),
        ("int", None, bytes(8), bytes(4)),
        ("float32", None, bytes(4), bytes(8)),
        ("uint16", None, bytes(2), bytes(3)),
    ],
)
def test_a_column_of_a_sample_that_is_none(tmp_path, kind, size, sound, broken):
    path, offsets = write_mds(tmp_path, ["a"], [kind], [size], [(sound,), (broken,)])
    source = stoker.data.mds(tmp_path, image=None)
    assert "a" in source[0]
    with pytest.raises(ContainerError, match=rf"{path}, byte \d+: sample 1: column 'a' is no {kind}: ") as raised:
        source[1]
    assert (raised.value.kind, raised.value.path, raised.value.offset) == ("corrupt", str(path), offsets[1] + 4)


def test_a_column_of_unknown_encoding(tmp_path):
    path, offsets = write_mds(tmp_path, ["a"], ["pkl"], [None], [(b"x",)])
    with pytest.raises(ContainerError, match=rf"{path}, byte {offsets[0] + 4}: sample 0: column 'a' has the encoding pkl; read are"):
        stoker.data.mds(tmp_path, image=None)[0]


@pytest.mark.parametrize(
    "kind, size, labels, why",
    [
        ("int", 4, [bytes(4), bytes(4)], "sample 0: column 'label' has 4 bytes, where int has 8"),
        ("int", None, [bytes(8), bytes(7)], "sample 1: column 'label' has 7 bytes, where int has 8"),
        ("uint64", 8, [bytes(8), b"\xff" * 8], "sample 1: the label 18446744073709551615 does not fit int64"),
    ],
)
def test_labels_of_another_size_are_never_read(tmp_path, jpeg, kind, size, labels, why):
    path, _ = write_mds(tmp_path, ["image", "label"], ["jpeg", kind], [None, size], [(jpeg, label) for label in labels])
    with pytest.raises(ContainerError, match=rf"{path}, byte \d+: {why}"):
        stoker.data.mds(tmp_path)


def test_rows_of_parquet(tmp_path, jpeg):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"image": [jpeg, jpeg, jpeg, jpeg[:600]]}), path, row_group_size=2)
    source = stoker.data.parquet(path, image="image", transform=lambda picture: 1)
    with pytest.raises(ImageError, match=rf"{path}, row group 1: row 1, the picture at its byte 600: JPEG: ends") as raised:
        source[3]
    assert (raised.value.kind, raised.value.path) == ("truncated", str(path))
    no_utf8 = arrow.StringArray.from_buffers(2, arrow.py_buffer(struct.pack("<3i", 0, 1, 2)), arrow.py_buffer(b"a\xff"))
    for column in (no_utf8, arrow.array([1, 2**62], arrow.timestamp("us"))):
        parquet.write_table(arrow.table({"a": column}), path)
        with pytest.raises(ContainerError, match=rf"{path}, row group 0: row 1 has a value in 'a' that cannot be had: "):
            stoker.data.parquet(path)[1]
