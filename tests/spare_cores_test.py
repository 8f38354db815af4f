# SPDX-License-Identifier: Apache-2.0
"""Spare cores of the trainer's machine help a feed group that is too slow: the samples are the same with them, without them and
when they are killed or stopped, they step back when the training needs its cores, and nothing of them is left."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bad_wires import Wires
from feed_test import photos, start, token_file  # noqa: F401 - fixtures
from program import binary

# Takes batches and does what it is told on the way; then says how far it came and what it saw.
LOOP = """
import glob, hashlib, json, os, random, resource, signal, sys, threading, time
import numpy, stoker

class Pictures:
    def __len__(self): return 1_000_000
    def __getitem__(self, index):
        end = time.thread_time() + 0.002
        while time.thread_time() < end: pass
        return numpy.full(20_000, (index + numpy.random.randint(7)) % 251, numpy.uint8)

def helpers():  # pids of own children
    told = "".join(open(path).read() for path in glob.glob("/proc/self/task/*/children"))
    return [int(pid) for pid in told.split()]

def spin():  # without the interpreter's lock
    block = bytes(1 << 22)
    while burning: hashlib.sha256(block)

random.seed(7)  # the base of what samples draw
what, root, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
if what == "few": resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
if root:
    loader = stoker.data.image_folder(root).repeat(100_000).shuffle(seed=3).decode().random_resized_crop(64).batch(4).numpy(workers=1)
else:
    loader = stoker.DataLoader(Pictures(), batch_size=4, shuffle=False)
began, seen, threads, burning = time.monotonic(), [], [], False
for taken, batch in enumerate(loader, 1):
    spare = loader.stats().feed.spare
    if what == "take" and taken == last: break
    if what == "help" and spare.samples >= 40: break
    if what == "any" and spare.samples > 0: break
    if what == "few":  # the window fills while it takes nothing
        while taken == 1 and spare.state == "part" and spare.samples < 120 and time.monotonic() < began + 60:
            time.sleep(0.1)
            spare = loader.stats().feed.spare
        if taken == 40: break
    if what in ("kill", "stop"):
        if not seen and spare.samples >= 20:
            seen, when = helpers(), (taken, spare.samples)
            for pid in seen: os.kill(pid, signal.SIGKILL if what == "kill" else signal.SIGSTOP)
        if seen and taken >= when[0] + 40 and (what == "stop" or spare.samples > when[1] + 20): break
    if what == "busy":
        if not seen and spare.samples > 0:
            seen.append(spare.state)
            burning = True
            threads = [threading.Thread(target=spin, daemon=True) for _ in range(2 * os.cpu_count())]
            for thread in threads: thread.start()
        elif len(seen) == 1 and spare.cores == 0:
            seen.append(spare.state)
            burning = False
            for thread in threads: thread.join()
            before = spare.samples
        elif len(seen) == 2 and spare.samples > before and spare.cores > 0:
            seen.append(spare.state)
            break
    if time.monotonic() - began > 300: sys.exit(f"it took too long: {loader.stats()}")
digest, stats = loader.state_dict()["digest"], loader.stats()
print(json.dumps({"taken": taken, "digest": digest, "spare": vars(stats.feed.spare), "seen": seen, "text": str(stats), "fed": sum(one.samples for one in stats.feed.workers)}))
"""
SLOW = 200_000  # bytes a second


@pytest.fixture
def run(start, token_file, tmp_path):  # noqa: F811
    """Runs the loop, fed by a worker behind a link that is slow, but for taking what was taken before."""
    wires = Wires()
    wire = wires.add()
    dispatcher = start("feed-dispatcher")
    worker = start("feed-worker", "--dispatcher", dispatcher.address, "--advertise", wire.address, "--threads", "1", "--python", sys.executable)
    wire.target = worker.address
    script = tmp_path / "loop.py"
    script.write_text(LOOP)

    def run(what, root="", last=0, spare="auto"):
        wire.slow(3600 if what != "take" else 0, SLOW)
        feed = {"STOKER_FEED": dispatcher.address, "STOKER_FEED_TOKEN_FILE": token_file, "STOKER_BIN": binary()}
        command = [sys.executable, script, what, str(root), str(last)]
        done = subprocess.run(command, env={**os.environ, **feed, "STOKER_SPARE_CORES": spare}, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr
        assert not left(token_file)
        return json.loads(done.stdout)

    yield run
    wires.close()


def left(token_file) -> list:  # noqa: F811
    """Processes of a loader whose feed had this token."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if token_file.encode() in (folder / "environ").read_bytes() and b"--fd" in (folder / "cmdline").read_bytes():
                found.append((folder / "cmdline").read_bytes())
        except OSError:
            continue
    return found


@pytest.mark.parametrize("native", [True, False], ids=["native", "python"])
def test_the_same_samples_with_spare_cores_and_without(run, photos, native):  # noqa: F811
    root = photos if native else ""
    helped = run("help", root, spare="1")
    assert helped["spare"]["state"] == "part" and helped["spare"]["cpu_s"] > 0 and helped["fed"] > 0
    assert "spare cores of the trainer: " in helped["text"]
    alone = run("take", root, helped["taken"], spare="0")
    assert alone["digest"] == helped["digest"]
    assert alone["spare"]["state"] == "off" and alone["spare"]["samples"] == 0 and "spare cores of the trainer: " not in alone["text"]


@pytest.mark.parametrize("native", [True, False], ids=["native", "python"])
@pytest.mark.parametrize("what", ["kill", "stop"])
def test_a_spare_worker_that_is_killed_or_stopped_is_not_missed(run, photos, what, native):  # noqa: F811
    root = photos if native else ""
    hurt = run(what, root, spare="1")
    assert len(hurt["seen"]) == 1
    assert hurt["digest"] == run("take", root, hurt["taken"], spare="0")["digest"]


def test_spare_cores_take_next_to_no_descriptors_of_the_trainer(run):
    few = run("few", spare="1")
    assert few["spare"]["state"] == "part" and few["spare"]["samples"] >= 120, few
    assert few["digest"] == run("take", "", few["taken"], spare="0")["digest"]


@pytest.mark.parametrize("native", [True, False], ids=["native", "python"])
def test_next_to_nothing_of_a_core_and_more_cores_than_there_are_is_what_can_be_had(run, photos, native):  # noqa: F811
    root = photos if native else ""
    least = run("any", root, spare="1e-9")
    assert least["digest"] == run("take", root, least["taken"], spare="0")["digest"]
    assert run("any", root, spare="1e9")["spare"]["cores"] <= os.cpu_count()


def test_they_step_back_when_the_training_uses_its_cores_and_come_back(run):
    told = run("busy")
    first, second, third = told["seen"]
    assert first == third == "part" and second in ("busy", "short", "paused"), told
    assert told["digest"] == run("take", "", told["taken"], spare="0")["digest"]
