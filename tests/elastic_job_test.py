# SPDX-License-Identifier: Apache-2.0
"""A feed group of 1..2 instances: it grows while the training loop waits, shrinks when the loop gets slow, and the loop sees nothing of
it but its speed."""

import json
import os
import re
import signal

import pytest
from waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="instances on this machine need root so far")

# Takes as many samples as it is told to, or until it is told to end, at the speed that it is told.
TRAIN = """
import os, random, sys, time
import numpy, stoker

class Squares:
    def __len__(self): return 100_000
    def __getitem__(self, index):
        end = time.thread_time() + 0.01
        while time.thread_time() < end: pass
        print("made", index, flush=True)
        return numpy.full((64, 64), index, dtype=numpy.float32), index * index + int(numpy.random.randint(1000))

def told(what): return os.path.exists("/opt/ml/input/data/orders/" + what)

last = int(sys.argv[1]) if len(sys.argv) > 1 else None
loader = stoker.DataLoader(Squares(), batch_size=4, shuffle=False, num_workers=2)
random.seed(7)
taken = 0
for images, labels in loader:
    assert [int(image[0, 0]) for image in images] == list(range(taken, taken + 4))
    taken += 4
    if taken == last or told("end"): break
    time.sleep(0.5 if told("slow") else 0)
print("taken", taken, "digest", loader.state_dict()["digest"], flush=True)
"""
LIMIT_S = 300
MACHINE = "cpus=1,memory=1,price=1"
BASE = ("--cpu-scale", "0.4", "--group", f"train=1x{MACHINE}")


def samples_made(path) -> int:
    """As the last whole line of a worker's telemetry says; the worker may be writing another one."""
    lines = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return json.loads(lines[-1])["samples"] if lines else 0


def test_feed_group_grows_and_shrinks_and_delivers_the_same(stoker, script, tmp_path):
    orders = tmp_path / "orders"
    orders.mkdir()
    path = script(TRAIN)
    elastic = (*BASE, "--group", f"data=1..2x{MACHINE}:feed", "--input", f"orders={orders}")
    name = stoker.detach(path, "--name", "elastic", *elastic)
    followed = stoker.start("logs", "-f", name)

    def job():
        found = stoker.job(name)
        assert found["phase"] in ("queued", "preparing", "running"), found
        return found

    def extra(phase):
        return [host for host in job()["state"]["hosts"] if host["extra"] and host["phase"] == phase]

    grown = wait_until(lambda: job()["state"]["resizes"], lambda: "the group does not grow", LIMIT_S)[0]
    assert (grown["group"], grown["from"], grown["to"]) == ("data", 1, 2) and "the loop waits" in grown["reason"]
    assert job()["state"]["sizes"]["data"]["wanted"] >= 2
    wait_until(lambda: extra("running"), lambda: "the added instance does not run", LIMIT_S)
    assert ":feed(2)" in stoker("ps").stdout and "data 1 to 2 instances: the loop waits" in stoker("ps").stdout
    # It makes samples before the loop gets slow.
    telemetry = stoker.home / "jobs" / name / "telemetry" / "algo-3"
    wait_until(lambda: any(samples_made(path) > 0 for path in telemetry.glob("feed-*")), lambda: "it makes no samples", LIMIT_S)

    (orders / "slow").touch()
    shrunk = wait_until(lambda: job()["state"]["resizes"][1:], lambda: "the group does not shrink", LIMIT_S)[0]
    assert (shrunk["from"], shrunk["to"]) == (2, 1) and "does not wait" in shrunk["reason"]
    (given_back,) = wait_until(lambda: extra("released"), lambda: "the instance is not given back", LIMIT_S)
    assert given_back["exit_code"] == 0 and not given_back["killed"], given_back
    (orders / "end").touch()
    ended = stoker.wait(name)
    assert ended["phase"] == "completed" and not ended["state"]["notices"], ended
    # It went as it was told to, and is no loss.
    folder = stoker.home / "jobs" / name
    assert not any(b"is gone" in log.read_bytes() for log in [*folder.glob("run/*.log"), *folder.glob("logs/*/*.log")])
    assert not any(re.search(rb'"lost":[1-9]', told.read_bytes()) for told in (folder / "telemetry").rglob("loader-*"))
    # The log of an instance that came later and was drained is whole, followed or read again.
    own = [line.decode() for line in (stoker.home / "jobs" / name / "logs" / "data" / "algo-3.log").read_bytes().splitlines(True)]
    assert own and own[-1].endswith("\n") and any(line.startswith("made ") for line in own), own[-3:]
    prefix = "[data/algo-3] "
    with followed:
        told = followed.stdout.read().decode().splitlines(True)
    again = stoker("logs", name).stdout.splitlines(True)
    for lines in (told, again):
        assert [line[len(prefix):] for line in lines if line.startswith(prefix)] == own

    there_s = (given_back["released_ms"] - given_back["given_ms"]) / 1000
    assert ended["cost"] == pytest.approx((2 * ended["billed_seconds"] + there_s) / 3600)
    record = json.loads((stoker.home / "jobs" / name / "record.json").read_text())
    assert record["state"]["resizes"] == [grown, shrunk]

    words = next(line.split() for line in stoker("logs", name).stdout.splitlines() if " digest " in line)
    taken, digest = words[words.index("taken") + 1], words[-1]
    made = {int(line.rpartition(" ")[2]) for line in again if "] made " in line}
    assert set(range(int(taken))) - made == set(), "who made a sample has logged it"
    fixed = stoker("run", path, "--name", "fixed", *BASE, "--group", f"data=2x{MACHINE}:feed", "--", taken)
    assert fixed.returncode == 0, fixed.stdout + fixed.stderr
    assert f"taken {taken} digest {digest}" in fixed.stdout
    rows = stoker.json("compare", name, "fixed")["jobs"]
    count = {group["name"]: group["count"] for group in rows[0]["groups"]}
    assert count["train"] == 1 and 1 < count["data"] < 2


def test_only_a_feed_group_may_grow(stoker, script):
    refused = stoker("run", script(TRAIN), "--group", f"train=1..2x{MACHINE}")
    assert refused.returncode == 64 and "only a feed group can grow and shrink" in refused.stderr, refused.stderr


def test_an_added_instance_that_is_lost_is_a_notice_and_another_comes(stoker, script):
    name = stoker.detach(script(TRAIN), *BASE, "--group", f"data=1..2x{MACHINE}:feed")

    def state():
        return stoker.job(name)["state"]

    def running(host):
        return any(one["name"] == host and one["phase"] == "running" for one in state()["hosts"])

    wait_until(lambda: running("algo-3"), lambda: "the group does not grow", LIMIT_S)
    agent = json.loads((stoker.home / "run" / "agents" / f"{name}.algo-3").read_text())
    os.kill(agent["pid"], signal.SIGKILL)
    wait_until(lambda: running("algo-4"), lambda: "no other one comes", LIMIT_S)
    (notice,) = state()["notices"]
    assert notice.startswith("data/algo-3, which had been added, is gone: its agent ended"), notice
    stopped = stoker("stop", name)
    assert stopped.returncode == 0, stopped.stderr
    assert stoker.job(name)["phase"] == "stopped"
