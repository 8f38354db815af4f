# SPDX-License-Identifier: Apache-2.0
"""A running job seen live: `stoker top`, on a terminal too, and Prometheus' text by `stoker metrics` and by the socket."""

import fcntl
import http.client
import os
import pty
import select
import socket
import struct
import subprocess
import termios
import time

import pytest

from stoker_home import LIMIT_S

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="instances on this machine need root so far")

# Reads epoch after epoch until it is stopped.
TRAIN = """
import time
import numpy, stoker

class Squares:
    def __len__(self): return 400
    def __getitem__(self, index):
        end = time.thread_time() + 0.002
        while time.thread_time() < end: pass
        return numpy.full((64, 64), index, dtype=numpy.float32), index

loader = stoker.DataLoader(Squares(), batch_size=4, shuffle=True, num_workers=2)
print("begins", flush=True)
while True:
    for images, labels in loader: time.sleep(0.01)
"""
MACHINE = "cpus=1,memory=1"


def wait_for(what, found):
    """The first true answer of `found`, looked for until then."""
    deadline = time.monotonic() + LIMIT_S
    while not (answer := found()):
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
    return answer


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self._path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


def on_terminal(program, *arguments):
    """The program on a terminal of 60 columns, the terminal's two ends, and its settings before."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 60, 0, 0))
    before = termios.tcgetattr(theirs)
    started = subprocess.Popen([program.binary, *arguments], env=program.environment, stdin=theirs, stdout=theirs, stderr=theirs,
                               start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))  # fmt: skip
    return started, ours, theirs, before


def read_until(terminal, wanted: bytes) -> bytes:
    got, deadline = b"", time.monotonic() + LIMIT_S
    while wanted not in got:
        ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
        assert ready, got
        got += os.read(terminal, 65536)
    return got


def test_a_fed_job_is_seen_while_it_runs(stoker, script):
    quiet = stoker("top")
    assert quiet.returncode == 0 and "no active jobs" in quiet.stderr and quiet.stdout == "", quiet
    name = stoker.detach(script(TRAIN), "--name", "watched", "--cpu-scale", "0.4", "--group", f"train=1x{MACHINE}",
                         "--group", f"data=1x{MACHINE}:feed")  # fmt: skip

    def live():
        (job,) = stoker.json("top", name, "--once")["jobs"]
        assert job["phase"] in ("queued", "preparing", "running"), job
        groups = {group["group"]: group for group in job["groups"]}
        known = groups["train"]["steps_per_s"] and groups["data"]["samples_per_s"] and groups["data"]["wanted"]
        return known and groups["data"]["sent_bytes_per_s"] and groups

    groups = wait_for("rates are known", live)
    train, data = groups["train"], groups["data"]
    assert 0 < train["cpu_percent"] and train["cpu_percent_max"] == 100 and 0 < train["memory_bytes"] < train["memory_limit_bytes"]
    assert 0 <= train["waiting"] <= 1 and train["received_bytes_per_s"] > 0 and train["accelerator"] is None, train
    assert train["lost"] == train["damaged"] == 0 and train["errors"] == {}, train
    assert data["running"] == 1 and data["why"] and data["queue_bytes"] >= 0, data
    (host,) = data["hosts"]
    assert host["phase"] == "running" and len(host["workers"]) == 1 and host["workers"][0]["clients"] >= 1, host

    shown = stoker("top", name)  # no terminal: once
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith(f"{name} · running ") and "data:feed" in shown.stdout and " wanted: " in shown.stdout

    text = stoker("metrics").stdout
    assert f'stoker_loader_steps_total{{job="{name}",group="train",instance="algo-' in text
    assert "# TYPE stoker_feed_worker_samples_total counter\n" in text and 'stoker_jobs{phase="running"} 1\n' in text
    connection = UnixConnection(stoker.home / "run" / "server.sock")
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    assert answer.status == 200 and answer.getheader("content-type") == "text/plain; version=0.0.4; charset=utf-8"
    assert b"stoker_feed_workers_wanted{" in answer.read()
    connection.close()

    for end in (b"q", b"\x03"):
        top, ours, theirs, before = on_terminal(stoker, "top", "--every", "0.2")
        screen = read_until(ours, b"data:feed")
        screen += read_until(ours, b"data:feed")  # drawn again
        assert b"\x1b[?1049h" in screen and b"\x1b[2J" not in screen.partition(b"\x1b[2J")[2], screen
        os.write(ours, end)
        after = read_until(ours, b"\x1b[?1049l")
        assert b"\x1b[?25h" in after
        assert top.wait(LIMIT_S) == 0
        assert termios.tcgetattr(theirs)[3] == before[3]
        os.close(ours)
        os.close(theirs)

    stoker("stop", name)
    over = stoker("top", name)
    assert over.returncode == 0 and "stopped" in over.stdout, over
    unknown = stoker("top", "nobody")
    assert unknown.returncode == 64 and "nobody" in unknown.stderr, unknown
