# SPDX-License-Identifier: Apache-2.0
"""The server and the agents as a user meets them: homes, starts, ends, deaths, pauses, and who may ask."""

import json
import os
import signal

import pytest

from stoker_home import LIMIT_S, Stoker, leftovers
from waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="instances on this machine need root so far")


def pause(stoker):
    """Its only agent, with all processes of its session."""
    (note,) = (stoker.home / "run/agents").iterdir()
    agent = json.loads(note.read_text())["pid"]
    os.killpg(agent, signal.SIGSTOP)


def test_two_starters_get_one_server(stoker):
    racing = [stoker.start("ps", "--json") for _ in range(4)]
    assert all(process.wait(LIMIT_S) == 0 for process in racing), [process.stderr.read() for process in racing]
    assert (stoker.home / "server.log").read_text().count(" serves ") == 1


def test_server_ends_when_idle_and_is_private(stoker):
    server = stoker.start("server", "--idle", "0.5")
    _, error = server.communicate(timeout=LIMIT_S)
    assert server.returncode == 0, error
    assert not (stoker.home / "run/server.sock").exists()
    assert (stoker.home.stat().st_mode & 0o777) == 0o700


def test_server_says_where_it_answers_and_that_it_has_ended(stoker):
    server = stoker.start("server", "--idle", "0", "--json")
    told = json.loads(server.stdout.readline())
    assert told["pid"] == server.pid and told["socket"] == str(stoker.home / "run/server.sock")
    assert stoker.json("server", "--stop") == {"stopped": True}
    assert server.wait(LIMIT_S) == 0
    assert stoker.json("server", "--stop") == {"stopped": False}


def test_a_folder_that_others_use_is_not_taken_as_home(stoker):
    stoker.home.mkdir(mode=0o755)
    stoker.home.chmod(0o755)
    (stoker.home / "somebody's").touch()
    refused = stoker("ps")
    assert refused.returncode == 125 and "open to others" in refused.stderr
    assert stoker.home.stat().st_mode & 0o777 == 0o755
    (stoker.home / "somebody's").unlink()
    assert stoker("ps").returncode == 0


def test_a_home_that_cannot_be_used_is_told_with_what_to_do(stoker, tmp_path):
    good = stoker.environment["STOKER_HOME"]
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to(tmp_path / "nothing")
    for home, text in (("file", "is no folder; set STOKER_HOME"), ("nowhere", "is a link that leads nowhere; set STOKER_HOME")):
        stoker.environment["STOKER_HOME"] = str(tmp_path / home)
        told = stoker("ps")
        assert told.returncode != 0 and f"{tmp_path / home} {text}" in told.stderr, told.stderr
    stoker.environment["STOKER_HOME"] = good
    assert stoker("ps").returncode == 0
    server = int(next(stoker.home.glob("**/server.lock")).read_text())
    os.kill(server, signal.SIGSTOP)
    told = stoker("ps")
    os.kill(server, signal.SIGCONT)
    assert told.returncode == 75 and f"process {server}) is stopped or very busy" in told.stderr, told.stderr
    assert stoker("server", "--stop").returncode == 0
    table = stoker.home / "jobs.db"
    for beside in stoker.home.glob("jobs.db-*"):
        beside.unlink()
    table.write_text("no table " * 999)
    told = stoker("ps")
    assert told.returncode == 125 and f"{table}: " in told.stderr and "put a copy of it back" in told.stderr, told.stderr
    table.unlink()
    assert stoker("ps").returncode == 0


def test_no_job_begins_in_a_server_that_ends(stoker, script):
    # It would hold the end up for as long as it runs.
    name = stoker.detach(script("import os, signal, time\nsignal.signal(signal.SIGTERM, lambda *_: print('not yet', flush=True))\n"
                                "print('up', flush=True)\nwhile not os.path.exists('/opt/ml/checkpoints/go'): time.sleep(0.05)"))
    stoker.wait_line(name, "up")
    with stoker.start("server", "--stop", "--force") as ending:
        stoker.wait_line(name, "not yet")
        late = stoker("run", script("print('ran')", "late.py"), "--name", "late")
        (stoker.home / "jobs" / name / "checkpoints/go").touch()
        assert ending.wait(LIMIT_S) == 0
    assert late.returncode == 75 and "the server is ending" in late.stderr
    assert not (stoker.home / "jobs/late").exists()
    assert [job["name"] for job in stoker.json("ps", "--all")["jobs"]] == [name]


def test_stopping_the_server_is_refused_while_jobs_run(stoker, script):
    name = stoker.detach(script("import time; print('up', flush=True); time.sleep(600)"))
    stoker.wait_line(name, "up")
    refused = stoker("server", "--stop")
    assert refused.returncode == 75 and "1 active job" in refused.stderr
    assert stoker("server", "--stop", "--force").returncode == 0
    assert stoker.job(name)["phase"] == "stopped"  # a new server knows it from the table


def test_a_job_commands_no_server_that_it_sees(stoker, script, tmp_path):
    other = Stoker(tmp_path / "seen" / "home")
    victim = other.detach(script("import time; print('up', flush=True); time.sleep(600)", "victim.py"))
    other.wait_line(victim, "up")
    # Its own connection, and those of children that end at once, reaped or not.
    path = script("import http.client, os, socket\n"
                  "def connect(how):\n"
                  "    line = socket.socket(socket.AF_UNIX)\n"
                  "    child = 0 if how == 'own' else os.fork()\n"
                  "    if child == 0: line.connect('/opt/ml/input/data/seen/home/run/server.sock')\n"
                  "    if child == 0 and how != 'own': os._exit(0)\n"
                  "    if child: os.waitid(os.P_PID, child, os.WEXITED | (os.WNOWAIT if how == 'zombie' else 0))\n"
                  "    return line\n"
                  "for how in ('own', 'zombie', 'reaped'):\n"
                  "  for ask in ('GET', '/v1/jobs'), ('GET', '/metrics'), ('POST', '/v1/jobs/%s/stop'), ('POST', '/v1/server/stop'):\n"
                  "    line = http.client.HTTPConnection('localhost')\n"
                  "    line.sock = connect(how)\n"
                  "    line.request(ask[0], ask[1], '{}')\n"
                  "    answer = line.getresponse()\n"
                  "    print(answer.status, answer.read().decode())\n" % victim)
    try:
        done = stoker("run", path, "--input", f"seen={tmp_path / 'seen'}")
        refused = [line for line in done.stdout.splitlines() if line]
        assert len(refused) == 12 and done.returncode == 0, done.stderr
        assert all(line.startswith("403 ") for line in refused), refused
        assert all("a process of a job may not ask a stoker server" in line for line in refused[:4]), refused
        assert other.job(victim)["phase"] == "running"
    finally:
        other("stop", victim)
        other("server", "--stop", "--force")


def test_a_long_server_log_makes_room(stoker):
    stoker.home.mkdir(mode=0o700)
    (stoker.home / "server.log").write_bytes(b"x" * (9 << 20))
    assert stoker("ps").returncode == 0
    assert (stoker.home / "server.log").stat().st_size < 1 << 20
    assert (stoker.home / "server.log.1").stat().st_size == 9 << 20


def test_killed_agent_is_the_platforms_fault_and_leaves_nothing(stoker, script):
    name = stoker.detach(script("import time; print('up', flush=True); time.sleep(600)"))
    stoker.wait_line(name, "up")
    (note,) = (stoker.home / "run/agents").iterdir()
    os.kill(json.loads(note.read_text())["pid"], signal.SIGKILL)
    job = stoker.wait(name)
    assert job["phase"] == "failed" and job["state"]["exit_code"] == 125
    assert "InternalServerError: its agent ended with killed by signal 9" in job["state"]["failure_reason"]


def test_jobs_of_a_killed_server_are_failed_by_the_next(stoker, script):
    name = stoker.detach(script("import time; print('up', flush=True); time.sleep(600)"))
    stoker.wait_line(name, "up")
    waiting = stoker.detach(script("print('ran all the same')", "waiting.py"))
    server = int((stoker.home / "run/server.lock").read_text())
    os.kill(server, signal.SIGKILL)
    # The next command starts a server; what waited goes on, what ran is told as the platform's failure.
    assert stoker.wait(waiting)["phase"] == "completed"
    job = stoker.job(name)
    assert job["phase"] == "failed" and "the server was ended while the job ran" in job["state"]["failure_reason"]


def test_a_paused_agent_goes_on_when_its_job_is_to_end(stoker, script):
    name = stoker.detach(script("import time; print('up', flush=True); time.sleep(600)"))
    stoker.wait_line(name, "up")
    pause(stoker)
    assert stoker("stop", name).returncode == 0
    assert stoker.wait(name)["phase"] == "stopped"
    assert not leftovers(stoker.home.parent)["links"]


def test_paused_agents_of_a_killed_server_leave_nothing(stoker, script):
    name = stoker.detach(script("import time; print('up', flush=True); time.sleep(600)"))
    stoker.wait_line(name, "up")
    pause(stoker)
    os.kill(int((stoker.home / "run/server.lock").read_text()), signal.SIGKILL)
    assert stoker.job(name)["phase"] == "failed"
    wait_until(lambda: not (left := leftovers(stoker.home.parent))["links"] and not left["cgroups"])
