# SPDX-License-Identifier: Apache-2.0
"""A training job fed by another machine: the same samples as alone, also when a data machine is killed, and figures after it."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="instances on this machine need root so far")

TRAIN = """
import random, sys, time
import numpy, stoker

class Squares:
    def __len__(self): return 96
    def __getitem__(self, index):
        end = time.thread_time() + 0.02
        while time.thread_time() < end: pass
        return numpy.full((64, 64), index, dtype=numpy.float32), index * index + int(numpy.random.randint(1000))

loader = stoker.DataLoader(Squares(), batch_size=4, shuffle=False, num_workers=2)
random.seed(7)
seen = []
for epoch in range(2):
    for images, labels in loader:
        seen += [int(image[0, 0]) for image in images]
        print("step", len(seen), flush=True)
        if len(sys.argv) > 1 and len(seen) >= int(sys.argv[1]): sys.exit(9)
assert seen == list(range(96)) * 2, seen
print("digest", loader.state_dict()["digest"], flush=True)
"""
MACHINE = "cpus=1,memory=1"
BASE = ("--cpu-scale", "0.4", "--group", f"train=1x{MACHINE}")


def digest(output: str) -> str:
    return next(line.split()[-1] for line in output.splitlines() if "digest" in line)


def feed_workers(home: Path) -> list:
    """Host pids of the feed workers of this home's running instances: an agent of this home is among their ancestors."""
    def parent(pid):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    def is_ours(pid):
        while pid > 1:
            if str(home).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                return True
            pid = parent(pid)
        return False

    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"feed-worker" in (folder / "cmdline").read_bytes().split(b"\0")[:2] and is_ours(int(folder.name)):
                found.append(int(folder.name))
        except OSError:  # it has ended
            continue
    return found


def test_samples_are_the_same_alone_fed_and_with_every_feed_worker_killed(stoker, script):
    path = script(TRAIN)
    alone = stoker("run", path, "--name", "alone", *BASE)
    assert alone.returncode == 0, alone.stdout + alone.stderr
    fed = stoker("run", path, "--name", "fed", *BASE, "--group", f"data=1x{MACHINE}:feed")
    assert fed.returncode == 0, fed.stdout + fed.stderr
    assert digest(fed.stdout) == digest(alone.stdout)

    with stoker.start("run", path, "--name", "hurt", *BASE, "--group", f"data=2x{MACHINE}:feed") as hurt:
        output, killed = "", 0
        for line in hurt.stdout:
            output += line.decode()
            if b"step 24" in line:
                for worker in feed_workers(stoker.home):
                    os.kill(worker, signal.SIGKILL)
                    killed += 1
        told = hurt.stderr.read().decode()
        assert hurt.wait() == 0, output + told
    assert digest(output) == digest(alone.stdout)
    assert killed == 2 and "the feed worker ended with code 137 and was started again" in told, (killed, told)
    assert any("was started again" in notice for notice in stoker.json("compare", "alone", "hurt")["jobs"][1]["notices"])

    rows = stoker.json("compare", "alone", "fed")["jobs"]
    assert rows[0]["speedup"] == 1 and rows[1]["step_ms"] > 0 and 0 < rows[1]["share_of_bound"] < 2
    assert {group["name"] for group in rows[1]["groups"]} == {"train", "data"}
    advice = stoker.json("advise", "alone")
    assert advice["job"] == "alone" and advice["binds"] in ("data", "trainer") and advice["summary"]
    # A sample spins for 20 ms of CPU. More where it was disturbed, hardly less by the clock's grain.
    assert advice["data_cpu_ms_per_sample"] > 15 and advice["step_ms"] > 0
    told = stoker("advise", "alone")
    assert told.returncode == 0 and advice["summary"] in told.stdout


# Each of two groups draws its own samples; in the middle each waits until it may go on.
TWO = TRAIN.replace("random.seed(7)", """import os
group = os.environ["SM_CURRENT_INSTANCE_GROUP"]
random.seed(group)""").replace("        if len(sys.argv)", """        if len(seen) == 48:
            while not os.path.exists("/opt/ml/input/data/orders/go"): time.sleep(0.05)
        if len(sys.argv)""")


def test_one_worker_feeds_two_groups_of_a_job_at_the_same_time(stoker, script, tmp_path):
    orders = tmp_path / "orders"
    orders.mkdir()
    (tmp_path / "orders" / "go").touch()
    two = ("--cpu-scale", "0.4", "--group", f"a=1x{MACHINE}", "--group", f"b=1x{MACHINE}", "--input", f"orders={orders}")
    path = script(TWO)
    alone = stoker("run", path, *two)
    assert alone.returncode == 0, alone.stdout + alone.stderr
    digests = lambda output: sorted(re.findall(r"\[(\w+)/algo-\d+\] digest (\w+)", output))  # hosts' numbers are drawn for each job
    expected = digests(alone.stdout)
    assert len(expected) == 2 and expected[0][1] != expected[1][1], alone.stdout

    (orders / "go").unlink()
    with stoker.start("run", path, "--name", "fed", *two, "--group", f"data=1x{MACHINE}:feed@a,b") as fed:
        output, half_way = "", set()
        for line in fed.stdout:
            output += line.decode()
            if b"] step 48" in line:
                half_way.add(line.split(b"/")[0])
            if half_way == {b"[a", b"[b"}:
                (orders / "go").touch()
        assert fed.wait() == 0, output + fed.stderr.read().decode()
    assert digests(output) == expected
    (worker,) = (stoker.home / "jobs" / "fed").glob("telemetry/*/feed-*.jsonl")
    assert max(json.loads(line)["clients"] for line in worker.read_text().splitlines()) == 2


def test_data_group_goes_with_a_training_that_fails(stoker, script):
    done = stoker("run", script(TRAIN), *BASE, "--group", f"data=1x{MACHINE}:feed", "--", 8)
    assert done.returncode == 9, done.stdout + done.stderr
    state = stoker.json("ps", "--all")["jobs"][0]["state"]
    ended = {host["group"]: host for host in state["hosts"]}
    assert (ended["data"]["released_ms"] - ended["train"]["ended_ms"]) / 1000 < 10
