# SPDX-License-Identifier: Apache-2.0
"""Pictures that Pillow reads for us, in processes of its own: the same bytes as in ours, whatever becomes of them."""

import gc
import io
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import stoker
from stoker import _native
from stoker.data import image as pixels
from stoker.data import interpreter
from stoker.data.image_test import encoded, picture, pillow
from stoker.data.loader_feed_test import feed  # noqa: F401  a fixture

Image = pytest.importorskip("PIL.Image")

# (format, modes that it keeps)
FORMATS = [
    ("GIF", ["P", "L"]), ("BMP", ["RGB", "L", "P", "1"]), ("TIFF", ["RGB", "L", "P", "1", "CMYK", "RGBA", "I;16", "F", "LAB"]),
    ("PPM", ["RGB", "L", "1", "I"]), ("ICO", ["RGBA"]), ("AVIF", ["RGB", "RGBA"]), ("JPEG2000", ["RGB", "L", "RGBA"]),
    ("PCX", ["RGB", "L"]), ("TGA", ["RGB", "RGBA", "L"]), ("SGI", ["RGB", "L"]), ("DDS", ["RGB"]),
]  # fmt: skip


def with_mode(mode, seed=0):
    if mode in ("I;16", "I"):
        numbers = np.arange(37 * 29).reshape(29, 37) * 60
        return Image.fromarray(numbers.astype(np.uint16 if mode == "I;16" else np.int32))
    if mode == "F":
        return picture(37, 29, "L", seed).convert("F")
    return picture(37, 29, "CMYK" if mode == "CMYK" else "RGB", seed).convert(mode)


def others(code="", wall_s=30.0):
    """A Pillow of this test's own, whose processes run `code` first."""
    python = [sys.executable]
    if code:
        python += ["-c", f"from stoker.data import pillow_child\n{code}\npillow_child.main()"]
    return _native.feed.Pillow(python, interpreter.environment(), wall_s)


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def awaited(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


@pytest.mark.parametrize("kind, mode", [(kind, mode) for kind, modes in FORMATS for mode in modes])
@pytest.mark.filterwarnings("ignore:.*16-bit gray")
def test_every_format_that_pillow_writes(kind, mode):
    try:
        data = encoded(with_mode(mode), kind)
    except (OSError, KeyError) as error:
        pytest.skip(f"this Pillow writes none: {error}")
    np.testing.assert_array_equal(pixels.decode(data), pillow(data))


def test_sixteen_bits_are_clipped_with_a_warning():
    data = encoded(with_mode("I;16"), "TIFF")
    with pytest.warns(UserWarning, match="16-bit gray"):
        pixels.decode(data, path="deep.tif")


def test_what_pillow_refuses_is_refused_with_its_reason():
    wide = bytearray(encoded(picture(8, 8), "BMP"))
    wide[18:26] = (60000).to_bytes(4, "little") * 2
    bmp = encoded(picture(40, 40), "BMP")
    tiff = encoded(picture(40, 40), "TIFF", compression="tiff_lzw")
    for data, kind, says in [
        (b"<!DOCTYPE html>", "not_image", "Pillow does not know it"),
        (b"\0\0\0\x18ftypheic" + bytes(40), "unsupported", "HEIC pictures are not read natively"),
        (bytes(wide), "too_large", "exceeds limit"),
        (bmp[: len(bmp) // 2], "truncated", "truncated"),
        (tiff[: len(tiff) // 2], None, "Pillow"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n", None, "Ghostscript"),
    ]:
        with pytest.raises(pixels.ImageError, match=says) as raised:
            pixels.decode(data, path="a/b.jpg")
        assert raised.value.path == "a/b.jpg"
        assert kind in (None, raised.value.kind), raised.value


def test_no_process_before_one_is_needed_and_none_after():
    shared = others()
    assert _native.image.decode(encoded(picture(8, 8)), shared)[0].shape == (8, 8, 3)
    assert shared.pids == []
    _native.image.decode(encoded(picture(8, 8), "BMP"), shared)
    (pid,) = shared.pids
    _native.image.decode(encoded(picture(9, 9), "GIF"), shared)
    assert shared.pids == [pid]
    del shared
    gc.collect()
    assert gone(pid)


def test_one_that_was_killed_is_replaced_and_its_picture_made():
    shared, data = others(), encoded(picture(31, 17), "BMP")
    for _ in range(3):
        got = _native.image.decode(data, shared)[0]
        np.testing.assert_array_equal(got, pillow(data))
        os.kill(shared.pids[0], signal.SIGKILL)


CRASHES = """
import os, signal
plain = pillow_child.pixels_of
def pixels_of(data, scaled):
    if b"nasty" in data:
        os.kill(os.getpid(), signal.SIGSEGV)
    return plain(data, scaled)
pillow_child.pixels_of = pixels_of
"""


def test_a_picture_that_crashes_pillow_is_an_error_of_that_picture():
    shared, sound = others(CRASHES), encoded(picture(31, 17), "BMP")
    for _ in range(2):
        with pytest.raises(pixels.ImageError, match="killed by signal 11") as raised:
            _native.image.decode(sound + b"nasty", shared)
        assert raised.value.kind == "corrupt"
        np.testing.assert_array_equal(_native.image.decode(sound, shared)[0], pillow(sound))


@pytest.mark.parametrize(
    "code, says",
    [
        ("import time\npillow_child.pixels_of = lambda *_: time.sleep(1000)", "longer than 1 s"),
        ("pillow_child.MOST_CPU_S = 0\ndef spin(*_):\n    while True: pass\npillow_child.pixels_of = spin", "signal 24"),
        ("pillow_child.pixels_of = lambda *_: pillow_child.limit_memory(1 << 20) or bytes(1 << 28)", "MemoryError"),
        ("pillow_child.PIXELS = 77", "ended in the middle"),
    ],
    ids=["sleep", "spin", "memory", "nonsense"],
)
def test_time_and_memory_are_limited(code, says):
    shared = others(code, wall_s=1.0 if "sleep" in code else 30.0)
    with pytest.raises(pixels.ImageError, match=says):
        _native.image.decode(encoded(picture(8, 8), "BMP"), shared)


def test_without_pillow_the_picture_is_named():
    shared = others("pillow_child.prepare = lambda: 'Pillow, which may know it, is not installed'")
    with pytest.raises(pixels.ImageError, match="BMP pictures are not read natively.*Pillow.*is not installed") as raised:
        _native.image.decode(encoded(picture(8, 8), "BMP"), shared)
    assert raised.value.kind == "unsupported"


def test_without_an_interpreter_it_is_no_fault_of_the_picture():
    with pytest.raises(OSError, match="starting Python for a picture"):
        _native.image.decode(encoded(picture(8, 8), "BMP"), _native.feed.Pillow(["/nowhere/python"], []))


def test_a_fork_has_processes_of_its_own():
    shared, data = others(), encoded(picture(31, 17), "BMP")
    _native.image.decode(data, shared)
    (pid,) = shared.pids
    child = os.fork()
    if child == 0:
        code = 1
        try:
            got = _native.image.decode(data, shared)[0]
            code = 0 if np.array_equal(got, pillow(data)) and pid not in shared.pids else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(_native.image.decode(data, shared)[0], pillow(data))
    assert shared.pids == [pid]


def test_many_bad_pictures_leave_memory_and_descriptors_flat():
    shared = others()
    bad = [b"BM" + bytes(100), b"GIF89a" + bytes(30), b"<html>", b"II*\0" + bytes(60)]

    def held(pid):
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) >> 8, len(os.listdir(f"/proc/{pid}/fd"))  # MiB

    def turns(count):
        for turn in range(count):
            with pytest.raises(pixels.ImageError):
                _native.image.decode(bad[turn % len(bad)], shared)
        return held("self"), held(shared.pids[0])

    before, after = turns(400), turns(4000)
    assert len(shared.pids) == 1
    for (memory, descriptors), (memory_after, descriptors_after) in zip(before, after, strict=True):
        assert memory_after <= memory + 8 and descriptors_after == descriptors


# ---- in a loader


def mixed_folder(root):
    """Every third picture is one of ours; some names lie about what is in them."""
    kinds = [("JPEG", "jpg"), ("GIF", "jpg"), ("BMP", "bmp"), ("PNG", "png"), ("TIFF", "tif"), ("PPM", "ppm"), ("WEBP", "webp")]
    for number in range(21):
        kind, ending = kinds[number % len(kinds)]
        at = root / f"{number % 2}"
        at.mkdir(exist_ok=True, parents=True)
        (at / f"{number}.{ending}").write_bytes(encoded(picture(40 + number, 50, seed=number), kind))
    return root


@pytest.fixture
def folder(torchvision, tmp_path):
    v2 = pytest.importorskip("torchvision.transforms.v2")
    transform = v2.Compose([v2.Resize(32), v2.CenterCrop(24), v2.PILToTensor()])
    return torchvision.datasets.ImageFolder(str(mixed_folder(tmp_path / "mixed")), transform)


def batches_and_stats(folder, **arguments):
    sys.modules["torch"].manual_seed(3)
    loader = stoker.DataLoader(folder, batch_size=4, **arguments)
    explained = loader.explain()
    assert explained.native and "other formats by Pillow" in str(explained)
    got = [batch for _ in range(2) for batch in loader]
    digest, stats = loader.state_dict()["digest"], loader.stats()
    loader.close()
    return got, digest, stats


def check_against_torch(folder, got):
    want = [folder[item] for item in range(len(folder))] * 2
    rows = [(row, label) for pictures, labels in got for row, label in zip(pictures, labels, strict=True)]
    assert len(rows) == len(want)
    for (row, label), (pixels_wanted, label_wanted) in zip(rows, want, strict=True):
        np.testing.assert_array_equal(row.numpy(), pixels_wanted.numpy())
        assert int(label) == label_wanted


def pillow_children():
    """pid → parent, of processes that any of us has started."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if b"stoker.data.pillow_child" not in file.read():
                    continue
            with open(f"/proc/{pid}/stat") as file:
                state, parent = file.read().rsplit(")", 1)[1].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            found[int(pid)] = int(parent)
    return found


@pytest.mark.parametrize("workers", [0, 2])
def test_folders_with_other_formats_are_native(folder, workers):
    before = pillow_children()
    got, _, stats = batches_and_stats(folder, num_workers=workers)
    check_against_torch(folder, got)
    if workers == 0:  # workers tell theirs every 5 ms at most: what comes after the last time is not told
        assert stats.other_formats == 24 and "24 read by Pillow" in str(stats)
    gc.collect()
    assert awaited(lambda: not set(pillow_children()) - set(before))


def test_a_bad_picture_of_another_format_is_named_or_skipped(folder, tmp_path):
    (tmp_path / "mixed" / "0" / "20.webp").write_bytes(b"GIF89a" + bytes(40))
    with pytest.raises(pixels.ImageError, match="20.webp.*GIF") as raised:
        list(stoker.DataLoader(folder, batch_size=4))
    assert raised.value.path.endswith("20.webp")
    loader = stoker.DataLoader(folder, batch_size=4, on_error="skip")
    assert sum(int(batch[2].sum()) for batch in loader) == 20
    assert loader.stats().skipped == 1


def test_workers_that_are_killed_leave_no_pillow(folder):
    loader = stoker.DataLoader(folder, batch_size=2, num_workers=1, persistent_workers=True)
    before = set(pillow_children())
    list(loader)
    (pid,) = set(pillow_children()) - before
    os.kill(pillow_children()[pid], signal.SIGKILL)
    assert awaited(lambda: gone(pid))
    check_against_torch(folder, [batch for _ in range(2) for batch in loader])
    loader.close()


def test_a_trainer_that_is_killed_leaves_no_pillow():
    code = (
        "import io, os, sys\nfrom PIL import Image\nfrom stoker.data import image\n"
        "out = io.BytesIO()\nImage.new('RGB', (9, 9)).save(out, 'BMP')\nimage.decode(out.getvalue())\n"
        "print(*image._others.pids, flush=True)\nsys.stdin.read()"
    )
    trainer = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pid = int(trainer.stdout.readline())
    assert not gone(pid)
    trainer.kill()
    trainer.wait()
    trainer.stdin.close()
    trainer.stdout.close()
    assert awaited(lambda: gone(pid))


def test_feed_groups_read_them_too(folder, feed, monkeypatch):
    feed.add_worker(threads=2)
    got, digest, _ = batches_and_stats(folder, num_workers=1)
    check_against_torch(folder, got)
    monkeypatch.delenv("STOKER_FEED")
    assert batches_and_stats(folder, num_workers=2)[1] == digest


def test_pipes(folder, tmp_path):
    pipe = stoker.data.image_folder(str(tmp_path / "mixed")).decode().resize(32).center_crop(24)
    rows = np.concatenate([batch[0] for batch in pipe.batch(4).numpy()])
    want = np.stack([folder[item][0].numpy() for item in range(len(folder))])
    np.testing.assert_array_equal(rows, want)
