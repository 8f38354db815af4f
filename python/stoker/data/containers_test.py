# SPDX-License-Identifier: Apache-2.0
"""The handed cases of containers, and sources beside what they must equal."""

import gzip
import hashlib
import io
import json
import os
import pickle
import struct
import tarfile
import warnings

import numpy
import pytest

import stoker
from stoker.data import containers
from stoker.data.containers import ContainerError
from stoker.data.image import ImageError


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def v2(torchvision):
    from torchvision.transforms import v2

    return v2


def described(data: bytes) -> dict:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_handed_tar_cases(handed):
    warned = set()
    for path, row in handed("tar"):
        expect, name = row["expect"], row["id"]
        kind = expect.get("error_kind") or expect.get("error", {}).get("error_kind")
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            try:
                source = stoker.data.webdataset(path, image=None)
            except ContainerError as error:
                assert expect["outcome"] in ("error", "either"), (name, error)
                # The handed answers say of some what Python's tarfile raises; ours are named more exactly.
                exact = {"truncated_or_corrupt": ("truncated", "corrupt")}.get(kind, (kind,))
                assert error.kind in exact, (name, error)
                assert error.path == path and path in str(error) and error.offset is not None, name
                if kind == "duplicate_field":
                    assert expect["error"]["at_key"] in str(error) and expect["error"]["field"] in str(error)
                continue
        assert expect["outcome"] in ("ok", "either"), (name, "was read without an error")
        found = []
        for sample in (source[i] for i in range(len(source))):
            fields = {field: described(data) for field, data in sample.items() if not field.startswith("__")}
            found.append({"key": sample["__key__"], "fields": fields})
        assert found == expect["samples"] or (expect["outcome"] == "either" and found[:1] == expect["samples"]), name
        if notes:
            warned.add(name)
    assert {"tar-links", "tar-cat", "tar-trailing", "tar-dup-apart", "tar-split-sample", "tar-no-end"} <= warned
    assert not warned & {"tar-plain", "tar-one-block", "tar-empty", "tar-gz"}


@pytest.mark.parametrize("packed", [False, True])
def test_a_tar_that_was_cut_short_is_told(tmp_path, packed):
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w") as tar:
        for name in ("1.txt", "2.txt"):
            info = tarfile.TarInfo(name)
            info.size = 3
            tar.addfile(info, io.BytesIO(b"abc"))
    path = tmp_path / ("a.tar.gz" if packed else "a.tar")

    def opened(size):
        data = memory.getvalue()[:size]
        path.write_bytes(gzip.compress(data) if packed else data)
        return stoker.data.webdataset(str(path), image=None)

    for size in (515, 600, 1023, 1024 + 600):
        with pytest.raises(ContainerError, match="the archive ends inside") as caught:
            opened(size)
        assert (caught.value.kind, caught.value.path, caught.value.offset) == ("truncated", str(path), size)
    with pytest.warns(UserWarning, match=rf"a\.tar.*ends at offset 1024\b.*behind these 1.*fetched again.*append 1024 zero bytes"):
        assert len(opened(1024)) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(opened(2048 + 512)) == len(opened(2048 + 1024)) == 2


def test_handed_tfrecord_cases(handed):
    for path, row in handed("tfrecord"):
        expect, name = row["expect"], row["id"]
        got, error = [], None
        try:
            source = stoker.data.tfrecord(path, image=None)
            for i in range(len(source)):
                got.append(described(source.record(i)))
        except ContainerError as caught:
            error = caught
        if expect["outcome"] == "ok":
            assert error is None and got == expect["records"], (name, error)
        else:
            assert (error.kind, error.offset) == (expect["error"]["error_kind"], expect["error"]["offset"]), name
            assert path in str(error)
            assert got == expect["records"][: len(got)]


def test_the_record_after_a_damaged_one_still_comes(handed):
    (path, row), = [one for one in handed("tfrecord") if one[1]["id"] == "tfr-bad-data-crc"]
    source = stoker.data.tfrecord(path, image=None)
    assert len(source) == 3 and source[2]
    with pytest.raises(ContainerError, match="checksum"):
        source[1]


def test_examples_are_taken_apart(handed):
    by_id = {row["id"]: path for path, row in handed("tfrecord")}
    multi = stoker.data.tfrecord(by_id["tfr-multi"], image=None)[0]
    kinds = {type(value) for value in multi.values()}
    assert kinds == {list, numpy.ndarray}, multi.keys()
    not_proto = stoker.data.tfrecord(by_id["tfr-not-proto"], image=None)
    assert not_proto[0] and not_proto[2]
    with pytest.raises(ContainerError, match="no tf.train.Example"):
        not_proto[1]
    features = stoker.data.tfrecord(by_id["tfr-plain"], image=None)[0]
    picture = next(name for name, value in features.items() if isinstance(value, list) and value[0][:2] == b"\xff\xd8")
    label = next(name for name, value in features.items() if getattr(value, "dtype", None) == "int64")
    missing = stoker.data.tfrecord(by_id["tfr-missing-feature"], image=picture, label=None)
    missing[0]
    with pytest.raises(ContainerError, match="no feature") as caught:
        missing[1]
    assert caught.value.offset == missing.manifest.file_starts[0] + 778
    sample = stoker.data.tfrecord(by_id["tfr-plain"], image=picture, label=label)[0]
    assert sample == {"image": features[picture][0], "label": features[label][0]}


def test_handed_parquet_cases(handed):
    pytest.importorskip("pyarrow")
    for path, row in handed("parquet"):
        expect, name = row["expect"], row["id"]
        if expect["outcome"] == "error":
            with pytest.raises(ContainerError) as caught:
                stoker.data.parquet(path)
            assert caught.value.path == path
            continue
        source = stoker.data.parquet(path)
        assert len(source) == expect["rows"], name
        rows = []
        for i in range(len(source)):
            values = {k: v.get("bytes") if isinstance(v, dict) else v for k, v in source[i].items()}
            rows.append({k: described(v) if isinstance(v, bytes) else v for k, v in values.items()})
        assert rows == expect["values"], name
        pictures = stoker.data.parquet(path, image="image", label="label")
        for i, values in enumerate(expect["values"]):
            if values["image"] is None:
                with pytest.raises(ContainerError, match=f"row group 0: row {i} has no picture"):
                    pictures[i]
            else:
                assert described(pictures[i]["image"]) == values["image"]


def test_parquet_says_how_its_pictures_become_pixels(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"image": [picture(3)], "label": [7]}), tmp_path / "a.parquet")
    source = stoker.data.parquet(tmp_path / "a.parquet", image="image", label="label")
    assert repr(source) == "<parquet: 1 pictures in rows>"
    with pytest.raises(TypeError, match=r"<parquet: 1 pictures in rows> does not give: its samples are Python's.*map\(\)"):
        source.decode().batch(1).numpy(workers=0)
    pixels = source.map(lambda sample: (stoker.data.image.decode(sample["image"]), sample["label"])).batch(1).numpy(workers=0)
    images, labels = next(iter(pixels))
    assert images.shape[3] == 3 and labels.tolist() == [7]


def test_a_damaged_page_names_its_row_group(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    rows = [os.urandom(3000) for _ in range(6)]
    pyarrow.parquet.write_table(
        pa.table({"x": rows}), path, row_group_size=2, use_dictionary=False, write_statistics=False,
        write_page_checksum=True
    )
    data = bytearray(path.read_bytes())
    data[data.index(rows[2][:100]) + 50] ^= 1  # only the page's checksum can tell
    path.write_bytes(data)
    source = stoker.data.parquet(path)
    assert source[0]["x"] == rows[0]
    assert pickle.loads(pickle.dumps(source))[5]["x"] == rows[5]
    with pytest.raises(ContainerError, match="row group 1"):
        source[2]


# ---- pictures in containers, natively


def picture(number: int) -> bytes:
    from PIL import Image

    rng = numpy.random.default_rng(number)
    coarse = rng.integers(0, 255, (6, 8, 3), dtype=numpy.uint8)
    out = io.BytesIO()
    Image.fromarray(coarse).resize((80 + number, 60), Image.BICUBIC).save(out, "PNG" if number % 3 == 0 else "JPEG")
    return out.getvalue()


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The same ten pictures in every kind of source: {kind: make(transform)}."""
    root = tmp_path_factory.mktemp("stored")
    pictures = [(picture(i), i * 7 - 3) for i in range(10)]
    for number in range(2):
        with tarfile.open(root / f"s-{number:02}.tar", "w") as tar:
            for i, (data, label) in list(enumerate(pictures))[5 * number : 5 * number + 5]:
                for ext, content in (("png" if i % 3 == 0 else "jpg", data), ("cls", str(label).encode())):
                    info = tarfile.TarInfo(f"train/{i:04}.{ext}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
    with open(root / "a.tfrecord", "wb") as file:
        for data, label in pictures:
            image = field(1, field(1, b"img") + field(2, field(1, field(1, data))))
            integer = b"".join(bytes([v & 127 | 128]) for v in [(label >> s) for s in range(0, 63, 7)]) + bytes([label >> 63 & 1])
            number = field(1, field(1, b"lab") + field(2, field(3, field(1, integer))))
            file.write(framed(field(1, image + number)))
    write_mds(root / "mds", pictures)
    lines = ["path,label"]
    for i, (data, label) in enumerate(pictures):
        (root / f"{i}.img").write_bytes(data)
        lines.append(f"{i}.img,{label}")
    (root / "list.csv").write_text("\n".join(lines) + "\n")
    return pictures, {
        "webdataset": lambda t: stoker.data.webdataset(str(root / "s-{00..01}.tar"), transform=t),
        "tfrecord": lambda t: stoker.data.tfrecord(root / "a.tfrecord", image="img", label="lab", transform=t),
        "mds": lambda t: stoker.data.mds(root / "mds", transform=t),
        "file_list": lambda t: stoker.data.file_list(root / "list.csv", transform=t),
    }


def field(number: int, data: bytes) -> bytes:
    """Of a protocol buffer's message, one of kind bytes."""
    size, length = len(data), b""
    while size >= 128:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def framed(data: bytes) -> bytes:
    """A record of a TFRecord file."""
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", masked_crc32c(head)) + data + struct.pack("<I", masked_crc32c(data))


def masked_crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def write_mds(folder, pictures):
    folder.mkdir()
    shards = []
    for number in range(2):
        samples = []
        for data, label in pictures[5 * number : 5 * number + 5]:
            note = f"no {label}".encode()
            samples.append(struct.pack("<II", len(data), len(note)) + data + struct.pack("<q", label) + note)
        config = b'{"any": "thing"}'
        at, offsets = 4 * (len(samples) + 2) + len(config), []
        for sample in samples:
            offsets.append(at)
            at += len(sample)
        offsets.append(at)
        raw = struct.pack(f"<{len(offsets) + 1}I", len(samples), *offsets) + config + b"".join(samples)
        name = f"shard.{number:05}.mds"
        (folder / name).write_bytes(raw)
        shards.append({
            "format": "mds", "version": 2, "compression": None, "samples": len(samples), "zip_data": None,
            "column_names": ["image", "label", "note"], "column_encodings": ["jpeg", "int", "str"],
            "column_sizes": [None, 8, None], "raw_data": {"basename": name, "bytes": len(raw), "hashes": {}},
        })
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": shards}))


KINDS = ["webdataset", "tfrecord", "mds", "file_list"]


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_the_stored_bytes(stored, kind):
    pictures, make = stored
    for source in (make[kind](None), pickle.loads(pickle.dumps(make[kind](None)))):
        assert len(source) == 10
        assert [(s["image"], s["label"]) for s in (source[i] for i in range(10))] == pictures
        assert source[-1]["label"] == pictures[9][1]
        with pytest.raises(IndexError):
            source[10]


@pytest.mark.parametrize("kind", KINDS)
def test_native_rows_equal_those_of_python(stored, kind, v2):
    import torch

    transform = v2.Compose([v2.CenterCrop(48), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    source = stored[1][kind](transform)
    loader = stoker.DataLoader(source, batch_size=4)
    assert loader.explain().native, loader.explain()
    images, labels = zip(*loader, strict=True)
    plain = [source[i] for i in range(10)]
    assert torch.equal(torch.cat(images), torch.stack([image for image, _ in plain]))
    assert torch.cat(labels).tolist() == [label for _, label in plain]


@pytest.mark.parametrize("kind", KINDS)
def test_workers_give_what_this_process_gives(stored, kind, v2):
    import torch

    transform = v2.Compose([v2.RandomResizedCrop(32), v2.ToImage()])
    batches = []
    for workers in (0, 2):
        torch.manual_seed(5)
        loader = stoker.DataLoader(stored[1][kind](transform), batch_size=3, shuffle=True, num_workers=workers)
        batches.append([(image.clone(), label.clone()) for image, label in loader])
        loader.close()
    for (image, label), (other_image, other_label) in zip(*batches, strict=True):
        assert torch.equal(image, other_image) and torch.equal(label, other_label)


def test_block_order_keeps_to_shards(stored):
    torch = pytest.importorskip("torch")
    source = stored[1]["webdataset"](None)
    torch.manual_seed(0)
    loader = stoker.DataLoader(source, batch_size=1, shuffle=stoker.data.block(1))
    state = loader.state_dict()
    labels = [int(batch["label"]) for batch in loader]
    assert sorted(labels) == [label for _, label in stored[0]] and labels != sorted(labels)
    first = {label for _, label in stored[0][:5]}
    assert set(labels[:5]) in (first, {label for _, label in stored[0]} - first)
    with pytest.raises(TypeError, match="shard_starts"):
        iter(stoker.DataLoader(list(range(4)), shuffle=stoker.data.block(2)))
    assert state["order"] == "block(1)" and state["batch"] == 0


def test_a_damaged_picture_is_named_with_its_place_in_the_container(tmp_path, v2):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for ext, content in (("jpg", picture(1)[:-200]), ("cls", b"1")):
            info = tarfile.TarInfo(f"0.{ext}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    source = stoker.data.webdataset(tmp_path / "a.tar", transform=v2.Compose([v2.CenterCrop(8), v2.ToImage()]))
    loader = stoker.DataLoader(source)
    assert loader.explain().native
    with pytest.raises(ImageError) as caught:
        next(iter(loader))
    assert caught.value.kind == "truncated" and caught.value.path == str(tmp_path / "a.tar")
    assert 512 < caught.value.offset <= 512 + len(picture(1))


# ---- what is refused


def test_mds_is_checked(stored, tmp_path):
    pictures, _ = stored
    write_mds(tmp_path / "m", pictures)
    whole = stoker.data.mds(tmp_path / "m", image=None)
    assert whole[7] == {"image": pictures[7][0], "label": pictures[7][1], "note": f"no {pictures[7][1]}"}
    assert whole.shard_starts() == [0, 5, 10]
    shard = tmp_path / "m" / "shard.00001.mds"
    data = shard.read_bytes()
    shard.write_bytes(data[:-1])
    with pytest.raises(ContainerError, match="index.json says"):
        stoker.data.mds(tmp_path / "m")
    for at in (0, 9, struct.unpack_from("<I", data, 8)[0]):
        shard.write_bytes(data[:at] + bytes([data[at] ^ 64]) + data[at + 1 :])
        with pytest.raises(ContainerError, match="shard.00001"):
            stoker.data.mds(tmp_path / "m")
    index = json.loads((tmp_path / "m/index.json").read_text())
    index["shards"][0]["raw_data"]["basename"] = "../out.mds"
    (tmp_path / "m/index.json").write_text(json.dumps(index))
    with pytest.raises(ContainerError, match="leads out"):
        stoker.data.mds(tmp_path / "m")


def test_incomplete_samples_are_named_or_counted(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name in ("0.jpg", "0.cls", "1.jpg", "2.cls"):
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"3"))
    with pytest.raises(ContainerError, match=r"sample 1 has no label.*missing=.skip"):
        stoker.data.webdataset(tmp_path / "a.tar")
    with pytest.warns(UserWarning, match="2 of 3 samples"):
        assert len(stoker.data.webdataset(tmp_path / "a.tar", missing="skip")) == 1


def test_patterns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        (tmp_path / f"x{number}.tar").touch()
    found = [str(tmp_path / f"x{number}.tar") for number in (2, 1, 0)]
    assert containers.expand("x{2..0}.tar") == found and containers.expand(b"x{2..0}.tar") == found
    assert containers.expand("x*.tar") == found[::-1] == containers.expand([tmp_path / "x{0..1}.tar", "x2.tar"])
    monkeypatch.setattr(containers, "_MOST_SHARDS", 2)
    with pytest.raises(ValueError, match="more than 2 files"):
        containers.expand("x{0..2}.tar")
    with pytest.raises(FileNotFoundError, match=r"no file /nowhere/0\.tar \(of "):
        containers.expand("/nowhere/{0..3}.tar")
    with pytest.raises(ValueError, match="only files"):
        containers.expand("s3://bucket/a.tar")


def test_a_pattern_without_files_is_no_empty_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for pattern in ("y{2..0}.tar", "y{000..002}.tar", "y{}.tar", "y*.tar", "y{,}"):
        with pytest.raises(FileNotFoundError, match="no file y"):
            stoker.data.webdataset(pattern)
    for opened in (stoker.data.webdataset, stoker.data.tfrecord, stoker.data.parquet):
        with pytest.raises(ValueError, match="no files are named"):
            opened([])
        for nothing in ("", b"", [""], "file:", "a\0b"):
            with pytest.raises(ValueError, match="names no file"):
                opened(nothing)
        with pytest.raises(TypeError, match="5 is no path or pattern of files but int"):
            opened([5])


def test_file_lists(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a.jpg", "b.jpg", "a, b.jpg"):
        (tmp_path / "in" / name).touch()
    source = stoker.data.file_list(["in/a.jpg", str(tmp_path / "in/b.jpg")], ["dog", "cat"], root=tmp_path)
    assert source.classes == ["cat", "dog"] and source.labels.tolist() == [1, 0]
    assert source.path(0) == "in/a.jpg" and source.path(1) == "in/b.jpg"
    assert stoker.data.file_list([b"in/a.jpg"], root=os.fsencode(tmp_path)).path(0) == "in/a.jpg"
    for bad in ("", b"", "a\0.csv"):
        with pytest.raises(ValueError, match="names no CSV file"):
            stoker.data.file_list(bad)
    for bad in ("../a.jpg", "in/../../a.jpg", "/etc/passwd", ""):
        with pytest.raises(ValueError, match="entry 0"):
            stoker.data.file_list([bad], root=tmp_path)
    assert len(stoker.data.file_list(["/etc/passwd"], root=tmp_path, absolute=True)) == 1
    with pytest.raises(FileNotFoundError, match=f"none of its files is there, not {tmp_path}/a.jpg, say.*under {tmp_path} "):
        stoker.data.file_list(["a.jpg", "b.jpg"], root=tmp_path)
    with pytest.raises(ValueError, match="entry 0"):
        stoker.data.file_list(["../a.jpg"], root=tmp_path, absolute=True)
    (tmp_path / "l.csv").write_text('name,other,class\n"in/a, b.jpg",x,4\n\nin/c.jpg,y,5\n')
    listed = stoker.data.file_list(os.fsencode(tmp_path / "l.csv"), label_column="class")
    assert listed.path(0) == "in/a, b.jpg" and listed.labels.tolist() == [4, 5]
    with pytest.raises(ValueError, match="no column"):
        stoker.data.file_list(tmp_path / "l.csv", path_column="path")
    with pytest.raises(ValueError, match=r"l\.csv, line 2: the label '4' is an integer and the first, 'class', a name"):
        stoker.data.file_list(tmp_path / "l.csv", path_column=0, label_column=2)  # every line counts
    numbered = stoker.data.file_list(tmp_path / "l.csv", path_column=0, label_column=1)
    assert numbered.labels.tolist() == [0, 1, 2] and numbered.classes == ["other", "x", "y"]


def test_gzip_on_a_full_cache_disk_is_an_os_error_that_names_both_files(small_cache, tmp_path):
    import errno
    import gzip

    shard = tmp_path / "a.tar.gz"
    with tarfile.open(shard, "w:gz") as tar:
        header = tarfile.TarInfo("one.bin")
        header.size = 200_000
        tar.addfile(header, io.BytesIO(bytes(header.size)))
    records = tmp_path / "a.tfrecord.gz"
    records.write_bytes(gzip.compress(bytes(200_000)))
    (small_cache.cache / "unpacked").mkdir(parents=True)
    for folder in ("manifests", "folders"):
        (small_cache.cache / folder).mkdir()
    small_cache.fill(8192)
    for path, opens in ((shard, stoker.data.webdataset), (records, stoker.data.tfrecord)):
        with pytest.raises(OSError, match="No space left on device") as caught:
            opens(str(path))
        assert caught.value.errno == errno.ENOSPC
        for part in (str(path), f"stoker's cache, {small_cache.cache}/unpacked", "free space", "XDG_CACHE_HOME"):
            assert part in str(caught.value), str(caught.value)
    assert os.listdir(small_cache.cache / "unpacked") == []


def test_on_a_full_cache_disk_sources_travel_whole(small_cache, tmp_path):
    from PIL import Image

    for name in ("a/1.png", "b/2.png"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "photos" / name)
    for folder in ("manifests", "folders"):
        (small_cache.cache / folder).mkdir(parents=True)
    small_cache.fill(0)
    source = stoker.data.image_folder(tmp_path / "photos")
    assert len(pickle.loads(pickle.dumps(source))) == 2
    loader = source.decode().batch(2).numpy(workers=1)
    assert [len(batch[0]) for batch in loader] == [2] and loader.state_dict()
    loader.close()
