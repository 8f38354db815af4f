# SPDX-License-Identifier: Apache-2.0
"""The feed as processes: workers, dispatcher and clients over loopback and as own children. Whatever is killed, paused, cut or
damaged, the digest is the same and nothing is left behind."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import numpy
import pytest

from program import address_of, binary
from waiting import wait_until

PIL_Image = pytest.importorskip("PIL.Image")
from stoker import _native

BATCH = 16
BATCHES = 40
TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    random = numpy.random.default_rng(0)
    for i in range(24):
        folder = root / "ab"[i % 2]
        folder.mkdir(exist_ok=True)
        pixels = numpy.kron(random.integers(0, 255, (9, 12, 3), dtype=numpy.uint8), numpy.ones((12, 12, 1), numpy.uint8))
        PIL_Image.fromarray(pixels).save(folder / f"{i}.jpg")
    return root


def make_plan(root, blur_seed=0):
    manifest, _, _ = _native.pipeline.open_image_folder(os.fsencode(root), False, False)
    plan = {
        "format": "stoker-plan/1",
        "kind": "native",
        "source": {"kind": "image_folder", "root": str(root), "manifest": manifest.hash, "items": manifest.items},
        "ops": [
            {"op": "decode_rgb"},
            {"op": "random_resized_crop", "size": [64, 64], "scale": [0.08, 1.0], "ratio": [0.75, 4 / 3]},
            {"op": "horizontal_flip", "p": 0.5},
        ],
        "seed": blur_seed,
        "output": "uint8",
        "libraries": json.loads(_native.pipeline.native_libraries("13")),
    }
    return _native.pipeline.Plan.parse(json.dumps(plan)).json


@pytest.fixture(scope="module")
def plan(photos):
    return make_plan(photos)


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return str(path)


class Process:
    """One of our servers; its log is read until it says where it listens."""

    def __init__(self, *arguments):
        self.popen = subprocess.Popen([binary(), *arguments], stderr=subprocess.PIPE, text=True)
        self.log = []
        self.address = address_of(self.popen, self.log.append)
        self.reader = threading.Thread(target=lambda: self.log.extend(self.popen.stderr))
        self.reader.start()

    def signal(self, number):
        self.popen.send_signal(number)

    def end(self):
        if self.popen.poll() is None:
            self.popen.kill()
        code = self.popen.wait()
        self.reader.join()
        self.popen.stderr.close()
        return code


@pytest.fixture
def start(token_file):
    running = []

    def start(kind, *more, listen="127.0.0.1:0"):
        running.append(Process(kind, "--listen", listen, "--token-file", token_file, *more))
        return running[-1]

    yield start
    for process in running:
        process.end()


def open_client(plan, **options):
    options.setdefault("timeout_s", 5.0)
    return _native.feed.FeedClient.open(plan, token=TOKEN, window_bytes=2 << 20, **options)


def children(count):
    return [[binary(), "feed-worker", "--threads", "1"]] * count


def wait_ready(client, count):
    ready = lambda: sum(e["ready"] for e in client.stats()["endpoints"])
    wait_until(lambda: ready() >= count, lambda: json.dumps(client.stats()["endpoints"]))


def read_all(client, at=lambda i: None, count=BATCHES, ahead=12):
    pushed = 0
    for i in range(count):
        while pushed < min(count, i + ahead):
            positions = numpy.arange(pushed * BATCH, (pushed + 1) * BATCH)
            client.push(pushed, positions, positions * 5 % 24)
            pushed += 1
        at(i)
        batch = client.next(30.0)
        assert batch is not None and batch.id == i
        image, label = batch.leaves
        assert image.shape == (BATCH, 3, 64, 64) and label.shape == (BATCH,)
    stats = client.stats()
    assert stats["in_order"] and stats["samples"] == count * BATCH
    return stats["digest"]


@pytest.fixture(scope="module")
def digest(plan, photos):
    producer = _native.pipeline.Producer.open(_native.pipeline.Plan.parse(plan), b"")
    total = 0
    plan_hash = _native.pipeline.Plan.parse(plan).hash
    for i in range(BATCHES):
        positions = numpy.arange(i * BATCH, (i + 1) * BATCH)
        items = positions * 5 % 24
        leaves = producer.produce(positions, items)
        total += int(_native.feed.rows_term(positions, items, plan_hash, list(leaves)), 16)
    return f"{total % (1 << 128):032x}"


@pytest.fixture(autouse=True)
def nothing_is_left():
    def descriptors():
        return sorted(
            target for fd in os.listdir("/proc/self/fd") if (target := read_link(fd)) and not target.startswith("pipe")
        )

    def read_link(fd):
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/self/fd/{fd}").split(":")[0]

    def own_children():
        found = set()
        for task in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError):  # a thread that ends meanwhile
                found |= {int(pid) for pid in Path(f"/proc/self/task/{task}/children").read_text().split()}
        return found

    descriptors_before, children_before = descriptors(), own_children()
    yield
    assert own_children() <= children_before
    assert descriptors() == descriptors_before


def test_one_two_and_seven_workers(start, plan, digest):
    workers = [start("feed-worker", "--threads", "1").address for _ in range(7)]
    for count in (1, 2, 7):
        client = open_client(plan, workers=workers[:count])
        assert read_all(client) == digest
        client.close()


def test_own_children(plan, digest):
    for count in (1, 2):
        client = open_client(plan, children=children(count))
        assert read_all(client) == digest
        stats = client.stats()
        assert stats["children_cpu_s"] > 0
        client.close()


def test_children_are_killed_and_paused(plan, digest):
    client = open_client(plan, children=children(2), deadline_s=0.4, audit=True)
    paused = []

    def disturb(i):
        if i in (5, 20):
            wait_ready(client, 2)
            pids = [int(e["name"].split()[1]) for e in client.stats()["endpoints"] if e["ready"]]
            os.kill(pids[0], signal.SIGKILL if i == 5 else signal.SIGSTOP)
            paused.append(pids[0])

    assert read_all(client, disturb) == digest
    stats = client.stats()
    client.close()
    assert len(paused) == 2 and stats["lost"] >= 1


def test_child_that_always_dies_says_why(plan):
    client = open_client(plan, children=[["/bin/sh", "-c", "echo no such luck >&2; exit 3"]])
    client.push(0, numpy.arange(4), numpy.arange(4))
    with pytest.raises(_native.feed.FeedError) as caught:
        client.next(20.0)
    message = json.loads(caught.value.args[0])["message"]
    assert caught.value.args[1] and "exit status 3" in message and "no such luck" in message
    client.close()


def test_workers_are_killed_paused_added_and_removed(start, plan, digest):
    a, b = start("feed-worker", "--threads", "1"), start("feed-worker", "--threads", "1")
    dispatcher = start("feed-dispatcher")
    c, paused = None, False

    def disturb(i):
        nonlocal c, paused
        if i == 3:
            wait_ready(client, 2)
            b.signal(signal.SIGSTOP)
            paused = True
        # Not before somebody else was asked for what it had; all that is ahead may have been there already.
        if paused and i >= 15 and (client.stats()["hedged"] > 0 or i == 30):
            b.signal(signal.SIGCONT)
            paused = False
        if i == 15:
            c = start("feed-worker", "--threads", "1", "--dispatcher", dispatcher.address)
        if i == 22:
            a.signal(signal.SIGKILL)
        if i == 30:
            b.signal(signal.SIGTERM)

    client = open_client(plan, workers=[a.address, b.address], dispatcher=dispatcher.address)
    assert read_all(client, disturb) == digest
    stats = client.stats()
    client.close()
    assert stats["hedged"] > 0 and stats["lost"] >= 1
    assert b.popen.wait(timeout=6) == 0  # drained


def test_dispatcher_dies_and_comes_back_unnoticed(start, plan, digest):
    dispatcher = start("feed-dispatcher")
    address = dispatcher.address
    start("feed-worker", "--threads", "1", "--dispatcher", address)
    late = []

    def disturb(i):
        if i == 5:
            dispatcher.end()
        if i == 20:
            start("feed-dispatcher", listen=address)
            late.append(start("feed-worker", "--threads", "1", "--dispatcher", address))
        if i == 21:
            wait_ready(client, 2)  # it hears of the new one while it reads on

    client = open_client(plan, dispatcher=address)
    assert read_all(client, disturb) == digest
    client.close()


class Proxy:
    """Forwards to a worker; flips one byte, or cuts, once so many bytes have come back."""

    def __init__(self, target, after, action):
        self.target, self.after, self.action, self.done = target, after, action, 0
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.server.getsockname()[1]
        self.open = []
        self.threads = [threading.Thread(target=self.serve)]
        self.threads[0].start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                near = self.server.accept()[0]
                host, port = self.target.rsplit(":", 1)
                far = socket.create_connection((host, int(port)))
                self.open += [near, far]
                for source, sink, back in ((near, far, False), (far, near, True)):
                    self.threads.append(threading.Thread(target=self.pump, args=(source, sink, back)))
                    self.threads[-1].start()

    def pump(self, source, sink, back):
        seen = 0
        with contextlib.suppress(OSError):
            while data := bytearray(source.recv(65536)):
                if back and not self.done and seen + len(data) > self.after:
                    self.done = 1
                    if self.action == "cut":
                        break
                    data[min(len(data) - 1, self.after - seen)] ^= 4
                seen += len(data)
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        with contextlib.suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self.threads[0].join()
        for end in self.open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self.threads[1:]:
            thread.join()
        for end in self.open:
            end.close()


@pytest.mark.parametrize("action,after", [("cut", 500_000), ("flip", 500_000), ("flip", 20), ("flip", 250)])
def test_wire_is_cut_or_damaged(start, plan, digest, action, after):
    worker = start("feed-worker", "--threads", "1")
    proxy = Proxy(worker.address, after, action)
    client = open_client(plan, workers=[proxy.address])
    assert read_all(client) == digest
    stats = client.stats()
    client.close()
    proxy.close()
    assert proxy.done and (after < 500_000 or stats["lost"] == 1)
    assert stats["corrupt"] == (action == "flip" and after == 500_000)


def test_other_libraries_are_refused(start, photos):
    plan = json.loads(make_plan(photos))
    plan["libraries"]["libjpeg"] = "turbo-1.0"
    worker = start("feed-worker", "--threads", "1")
    client = open_client(json.dumps(plan, sort_keys=True, separators=(",", ":")), workers=[worker.address])
    client.push(0, numpy.arange(4), numpy.arange(4))
    with pytest.raises(_native.feed.FeedError, match="libjpeg"):
        client.next(20.0)
    client.close()


def test_damaged_file_is_named(start, photos, tmp_path):
    root = tmp_path / "damaged"
    shutil.copytree(photos, root)
    victim = sorted((root / "a").iterdir())[0]
    victim.write_bytes(victim.read_bytes()[:300])
    worker = start("feed-worker", "--threads", "1")
    client = open_client(make_plan(root), workers=[worker.address])
    client.push(0, numpy.arange(12), numpy.arange(12))
    with pytest.raises(_native.feed.FeedError) as caught:
        client.next(20.0)
    described = json.loads(caught.value.args[0])
    assert not caught.value.args[1]
    assert described["fault"]["path"] == str(victim) and described["position"] == 0 and described["worker"] == worker.address
    client.close()


def test_batches_outlive_the_client(plan):
    client = open_client(plan, children=children(1))
    kept = []
    for i in range(90):  # more than there are slots with descriptors
        client.push(i, numpy.arange(4) + 4 * i, numpy.arange(4))
        kept.append(client.next(20.0).leaves[0])
    sums = [int(one.sum()) for one in kept]
    client.close()
    del client
    assert [int(one.sum()) for one in kept] == sums


def test_waiting_costs_nothing(start, plan):
    worker = start("feed-worker", "--threads", "1")
    client = open_client(plan, workers=[worker.address])
    read_all(client, count=2, ahead=2)
    worker.signal(signal.SIGSTOP)
    client.push(2, numpy.arange(4), numpy.arange(4))
    before = time.process_time()
    assert client.next(1.0) is None
    assert time.process_time() - before < 0.05
    worker.signal(signal.SIGCONT)
    assert client.next(20.0).id == 2
    client.close()
