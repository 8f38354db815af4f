# SPDX-License-Identifier: Apache-2.0
"""Jobs in a STOKER_HOME whose disk is full, or nearly: none is stuck, and nothing is lost once there is room."""

import json
import os
import signal
import subprocess

import pytest

from waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="instances on this machine need root so far")


def test_with_little_room_left_no_job_is_stuck_and_none_stays_as_it_was(stoker, script):
    stoker.home.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(stoker.home)], check=True)
    small = ("--cpu-scale", "0.3", "--group", "train=1xcpus=1,memory=1")
    records = lambda names: {name: json.loads((stoker.home / "jobs" / name / "record.json").read_text())["phase"] for name in names}
    try:
        assert stoker("run", script("print('ok')"), *small, "--name", "before").returncode == 0
        filler = stoker.home / "filler"
        with open(filler, "wb", buffering=0) as file:
            room = os.statvfs(stoker.home)
            file.write(bytes(room.f_bavail * room.f_frsize - 300_000))
        assert stoker("run", script("raise SystemExit(3)"), *small, "--name", "fails").returncode == 3
        stoker.detach(script("import time; print('up', flush=True); time.sleep(600)"), *small, "--name", "long")
        stoker.wait_line("long", "up")
        stoker.detach(script("while True: print('y' * 1000, flush=True)", "chatty.py"), *small, "--name", "chatty")
        assert stoker.wait("chatty")["phase"] == "failed"  # nothing more could be printed
        reasons = {name: stoker.job(name)["state"]["failure_reason"] for name in ("fails", "chatty")}
        assert f"no space is left at {stoker.home}, where its log is" in reasons["chatty"] and "no space" not in reasons["fails"], reasons
        refused = stoker("run", script("print('never')", "never.py"), *small)
        assert refused.returncode == 125 and "No space left on device; make room" in refused.stderr, refused.stderr
        assert stoker("stop", "long").returncode == 0
        phases = {"before": "completed", "fails": "failed", "long": "stopped", "chatty": "failed"}
        assert {job["name"]: job["phase"] for job in stoker.json("ps", "--all")["jobs"]} == phases
        filler.unlink()
        (stoker.home / "jobs/chatty/logs/train/algo-1.log").unlink()
        wait_until(lambda: records(phases) == phases, lambda: str(records(phases)))
        assert stoker("run", script("print('ok')"), *small).returncode == 0
        assert stoker("server", "--stop").returncode == 0
        after = {job["name"]: job["phase"] for job in stoker.json("ps", "--all")["jobs"]}  # the next server reads its table
        assert {name: after[name] for name in phases} == phases
    finally:
        stoker("server", "--stop", "--force")
        subprocess.run(["umount", str(stoker.home)], check=True)


@pytest.fixture
def small_home(stoker):
    """8 MB of disk for all that stoker keeps."""
    stoker.home.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(stoker.home)], check=True)
    yield
    stoker("server", "--stop", "--force")
    subprocess.run(["umount", str(stoker.home)], check=True)


def fill(disk):
    filler = disk / "filler"
    with open(filler, "wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(bytes(4096))
    return filler


def test_what_became_of_a_job_outlives_the_server_although_the_disk_was_full(small_home, stoker, script, tmp_path):
    go = tmp_path / "signals"
    go.mkdir()
    waits = script("import os, time; print('up', flush=True)\nwhile not os.path.exists('/opt/ml/input/data/in/go'): time.sleep(0.05)")
    name = stoker.detach(waits, "--input", f"in={go}")
    stoker.wait_line(name, "up")
    filler = fill(stoker.home)
    (go / "go").touch()
    assert stoker.wait(name)["phase"] == "completed"
    refused = stoker("server", "--stop")
    assert refused.returncode == 75, refused.stderr
    assert f"what became of {name} could not be written down yet" in refused.stderr and "--force" in refused.stderr
    server = int(next(stoker.home.glob("**/server.lock")).read_text())
    os.kill(server, signal.SIGTERM)
    wait_until(lambda: "told to end again" in (stoker.home / "server.log").read_text(), lambda: "the server says nothing")
    filler.unlink()
    wait_until(lambda: not os.path.exists(f"/proc/{server}"), lambda: "the server goes on")
    assert stoker.job(name)["phase"] == "completed"


def test_a_job_that_filled_the_disk_can_be_removed(small_home, stoker, script):
    fills = script("file = open('/opt/ml/model/m', 'wb', 0)\nwhile True: file.write(bytes(4096))", "fills.py")
    assert stoker("run", fills, "--name", "fills").returncode == 1
    removed = stoker("rm", "fills")
    assert removed.returncode == 0, removed.stderr
    assert stoker.json("ps", "--all")["jobs"] == []
    assert stoker("run", script("print('ok')", "again.py")).returncode == 0
    assert stoker("server", "--stop").returncode == 0
    assert [job["phase"] for job in stoker.json("ps", "--all")["jobs"]] == ["completed"]


def test_a_full_disk_keeps_no_job_from_being_stopped(small_home, stoker, script):
    loud = script("print('y' * 2_000_000)", "loud.py")
    assert stoker("run", loud, "--name", "loud").returncode == 0
    name = stoker.detach(script("import time; print('up', flush=True); time.sleep(600)"))
    stoker.wait_line(name, "up")
    filler = fill(stoker.home)
    done = stoker("stop", name)
    assert done.returncode == 0, done.stderr
    assert stoker.job(name)["phase"] == "stopped"
    refused = stoker("run", script("print('never')"))
    assert refused.returncode == 125 and ("disk is full" in refused.stderr or "No space left" in refused.stderr), refused.stderr
    removed = stoker("rm", "loud")  # makes room where there is none to write that down
    assert removed.returncode == 0, removed.stderr
    assert "loud" not in {job["name"] for job in stoker.json("ps", "--all")["jobs"]}
    assert stoker("run", script("print('ok')", "again.py")).returncode == 0
    filler.unlink()
    log = stoker.home / "server.log"
    wait_until(lambda: "the job table is written again" in log.read_text(), log.read_text)
    assert stoker("server", "--stop").returncode == 0
    assert stoker.job(name)["phase"] == "stopped"  # the next server reads its table
