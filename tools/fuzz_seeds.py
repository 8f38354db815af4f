#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/fuzz_seeds.py CORPUS: what each fuzzer starts from, in CORPUS/NAME_fuzz/: sound inputs and the damaged ones handed to the
project (shared/cases). A fuzzer that begins with nothing does not find its way to a valid picture or archive within minutes.
"""
import gzip
import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import numpy
from PIL import Image

import stoker
import stoker.data

ROOT = pathlib.Path(__file__).resolve().parent.parent
LARGEST = 64 * 1024  # a fuzzer changes a few bytes at a time


GROUPS = [b"train=1xml.p3.2xlarge", b"data=2xml.c5.9xlarge:feed@train", b"a=1xcpus=8,gpus=1,memory=4,price=0.4", b"b=3xhere:aux"]
AGENT = [
    {"seq": 1, "kind": "notice", "text": "x"},
    {"format": "stoker-assignment/1", "job": "j", "hosts": ["algo-1"], "groups": []},
]
FEED = [
    {"code": "data", "message": "m", "position": 3, "item": 4, "fault": {"kind": "corrupt", "path": "/x", "offset": 7}},
    {"leaves": [{"name": "image", "dtype": "uint8", "shape": [2, 2, 3]}]},
    {"workers": [{"address": "algo-2:7171", "threads": 4, "load": 9}], "sizing": []},
]


def reports() -> bytes:
    """What a worker and a client tell the dispatcher, in turns, long enough for it to decide: the fuzzer's lines are a second each."""
    lines = []
    for at in range(1, 13):
        lines.append({"address": "algo-2:7171", "threads": 4, "load": 9, "group": "data", "cores": 3.5, "samples": 700 * at, "cpu_s": 7.0 * at})
        lines.append({"samples": 700 * at, "spare": 9 * at, "wait_s": 1.5 * at, "time_s": 2.0 * at})
    return "\n".join(json.dumps(line) for line in lines).encode()


def main():
    corpus = pathlib.Path(sys.argv[1])
    tars, images = [small_tar()] + handed("tar"), handed("image")
    plans, manifest = plans_and_manifest()
    seeds = {
        "image_decode": pictures() + images,
        "image_jpeg_baseline": jpegs() + images,
        "pipeline_npy": arrays(),
        "pipeline_plan": plans,
        "pipeline_manifest": [manifest],
        "pipeline_tar": tars,
        "pipeline_tar_index": tar_indexes(),
        "pipeline_tfrecord": handed("tfrecord"),
        "pipeline_gunzip": [gzip.compress(tar, mtime=0) for tar in tars[:8]] + [gzip.compress(b"a") + gzip.compress(b"b")],
        "control_group_spec": GROUPS,
        "http_message": [b"/v1/jobs?active=1", b"/v1/jobs/last/logs?group=a%2Fb&follow=1"],
        "agent_protocol": [json.dumps(one).encode() for one in AGENT],
        "feed_protocol": [json.dumps(one).encode() for one in FEED] + [b"algo-1:7170", b"[::1]:80", bytes(16 * 3), reports()],
    }
    for fuzzer, inputs in seeds.items():
        folder = corpus / f"{fuzzer}_fuzz"
        folder.mkdir(parents=True, exist_ok=True)
        for data in inputs:
            if len(data) <= LARGEST:
                (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
        print(f"{fuzzer}_fuzz: {len(list(folder.iterdir()))} seeds")


def pattern(size, mode="RGB"):
    random = numpy.random.default_rng(size[0])
    noise = random.integers(0, 256, (size[1], size[0], 3), numpy.uint8)
    smooth = Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC, (0, 0, max(1, size[0] // 4), max(1, size[1] // 4)))
    return smooth.convert(mode)


def saved(image, format, **options):
    out = io.BytesIO()
    image.save(out, format, **options)
    return out.getvalue()


def jpegs():
    made = []
    for size in ((8, 8), (33, 47), (64, 40)):
        for sampling in (0, 1, 2):
            for more in ({}, {"optimize": True}, {"progressive": True}, {"restart_marker_blocks": 2}):
                made.append(saved(pattern(size), "JPEG", quality=85, subsampling=sampling, **more))
    return made + [saved(pattern((40, 24), mode), "JPEG") for mode in ("L", "CMYK")]


def pictures():
    made = jpegs()
    for mode in ("RGB", "L", "P", "RGBA", "1"):
        made.append(saved(pattern((21, 13), mode), "PNG"))
    return made + [saved(pattern((21, 13)), "WEBP", lossless=lossless) for lossless in (False, True)]


def arrays():
    made = []
    for value in (numpy.zeros((3, 4), "<f4"), numpy.zeros((5,), ">i2"), numpy.asfortranarray(numpy.zeros((2, 3))),
                  numpy.zeros((2, 0, 3), "u1")):  # fmt: skip
        out = io.BytesIO()
        numpy.save(out, value)
        made.append(out.getvalue())
    return made


def plans_and_manifest():
    plans = []
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "a").mkdir()
        (pathlib.Path(folder) / "a" / "x.jpg").write_bytes(saved(pattern((64, 64)), "JPEG"))
        source = stoker.data.image_folder(folder)
        sized = source.decode().random_resized_crop(32)
        for pipe in (sized, sized.horizontal_flip().normalize((0.5,) * 3, (0.2,) * 3), source.decode().resize((16, 16))):
            plans.append(plan_of(pipe.batch(2)))
        manifest = stoker.data.source.image_folder(folder).bytes()
    plans.append(plan_of(stoker.data.arrays(numpy.zeros((4, 3)), numpy.arange(4)).batch(2)))
    return plans, manifest


def plan_of(pipe) -> bytes:
    return json.dumps(pipe.explain().plan, sort_keys=True, separators=(",", ":")).encode()


def small_tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("0.jpg", "0.cls", "1.jpg", "1.cls"):
            member = tarfile.TarInfo(name)
            member.size = 1
            tar.addfile(member, io.BytesIO(b"3"))
    return out.getvalue()


def tar_indexes():
    """As they are kept in the cache, which is made for a shard that has not been changed just now."""
    with tempfile.TemporaryDirectory() as folder:
        shard = pathlib.Path(folder) / "a.tar"
        shard.write_bytes(small_tar())
        os.utime(shard, (1e9, 1e9))
        os.environ["XDG_CACHE_HOME"] = folder
        stoker.data.webdataset(shard)
        return [path.read_bytes() for path in pathlib.Path(folder, "stoker", "indexes").rglob("*") if path.is_file()]


def handed(kind):
    """The cases of that kind, where the project's shared folder is; else none."""
    for at in (ROOT / "shared/cases", ROOT.parent / "shared/cases"):
        if not (at / "make_cases.py").exists():
            continue
        with tempfile.TemporaryDirectory() as out:
            subprocess.run([sys.executable, str(at / "make_cases.py"), "--out", out], check=True, capture_output=True)
            rows = json.loads((at / "manifest.json").read_text())["cases"]
            paths = [pathlib.Path(out) / row["path"] for row in rows if row["kind"] == kind]
            return [path.read_bytes() for path in paths if path.is_file()]
    return []


if __name__ == "__main__":
    main()
