# SPDX-License-Identifier: Apache-2.0
"""Jobs as a user runs them: the real program, server and agents in a home of their own, and nothing left after each test."""

import json
import os
import shutil
import signal
import subprocess

import pytest

from stoker_home import LIMIT_S, leftovers

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="instances on this machine need root so far")

ONE = ("--group", "train=1xcpus=1,memory=1")


def test_exit_code_output_and_arguments_are_the_users_own(stoker, script):
    path = script("import sys; print('args', sys.argv[1:]); sys.exit(int(sys.argv[1]))")
    done = stoker("run", path, "--", "7", "--epochs=2")
    assert done.returncode == 7
    assert done.stdout == "args ['7', '--epochs=2']\n"
    job = stoker.job(done.stderr.split()[2])
    assert job["phase"] == "failed"
    assert job["state"]["failure_reason"].startswith("AlgorithmError: exit code 7")
    assert "AlgorithmError: exit code 7" in done.stderr


def test_hyperparameters_are_variables_a_file_and_arguments(stoker, script):
    path = script("import os, sys; print(sys.argv[1:], os.environ['SM_HP_LR'], os.environ['SM_HPS']); print(open('/opt/ml/input/config/hyperparameters.json').read())")
    given = [word for text in ("lr=0.1", "batch-size=64", "fast=true") for word in ("--hyperparameter", text)]
    done = stoker("run", path, *given, "--", "--lr", "0.2")
    assert done.returncode == 0, done.stderr
    arguments, file = done.stdout.splitlines()
    assert arguments == ("['--batch-size', '64', '--fast', 'True', '--lr', '0.1', '--lr', '0.2'] 0.1 "
                         '{"batch-size":64,"fast":true,"lr":0.1}')
    assert json.loads(file) == {"lr": "0.1", "batch-size": "64", "fast": "true"}
    refused = stoker("run", path, "--hyperparameter", "lr")
    assert refused.returncode == 64 and "expected NAME=VALUE" in refused.stderr


@pytest.mark.parametrize("name", ["-a.py", "-e.sh"])
def test_a_scripts_name_is_no_option(stoker, tmp_path, name):
    path = tmp_path / name
    path.write_text("print('ran')" if name.endswith(".py") else "echo ran")
    done = stoker("run", path)
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr


def test_failure_file_becomes_the_reason(stoker, script):
    path = script("open('/opt/ml/output/failure', 'w').write('the data is upside down'); raise SystemExit(1)")
    done = stoker("run", path, "--json")
    job = json.loads(done.stdout)
    assert done.returncode == 1
    assert "AlgorithmError: the data is upside down" in job["state"]["failure_reason"]


def test_failure_text_may_be_long_and_broken(stoker, script):
    path = script("open('/opt/ml/output/failure', 'wb').write(b'x' + 'ä'.encode() * 5000 + b'\\xff'); raise SystemExit(1)")
    done = stoker("run", path, "--name", "broken")
    assert done.returncode == 1 and "AlgorithmError: xää" in done.stderr
    assert stoker("server", "--stop").returncode == 0
    assert "xää" in stoker.job("broken")["state"]["failure_reason"]  # the next server reads its table


def test_a_failure_file_that_is_no_text_hides_nothing(stoker, script):
    path = script("open('/opt/ml/output/failure', 'wb').write(b'bad\\0\\xff\\x1b[2J' + bytes(range(256))); raise SystemExit(3)")
    done = stoker("run", path, "--name", "binary")
    assert done.returncode == 3
    assert r"AlgorithmError: bad\x00\xff\x1b[2J" in done.stderr and ", exit code: 3 (train/algo-1)" in done.stderr
    assert stoker("server", "--stop").returncode == 0
    assert ", exit code: 3 " in stoker.job("binary")["state"]["failure_reason"]  # the next server reads its table


def test_signals_end_with_128_and_their_number(stoker, script):
    done = stoker("run", script("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    # PID 1 of the instance is ours, so a script can kill itself.
    assert done.returncode == 128 + signal.SIGKILL


def test_what_cannot_run_is_refused_with_the_shells_codes(stoker, script):
    assert stoker("run", "/no/such/script.py").returncode == 127
    tool = script("", "tool")
    assert stoker("run", tool).returncode == 126
    assert stoker("run", tool, "--no-such-option").returncode == 64
    refused = stoker("run", script(""), "--group", "a=1xhere:feed")
    assert refused.returncode == 64 and "every group has a role" in refused.stderr


def test_a_job_that_can_never_fit_is_refused_at_once(stoker, script):
    refused = stoker("run", script(""), "--fewer-gpus", "--group", "train=4xml.p4d.24xlarge")
    assert refused.returncode == 64
    assert "can never start" in refused.stderr and "--cpu-scale 0." in refused.stderr
    assert stoker.json("ps", "--all")["jobs"] == []


def test_ten_jobs_at_once_queue_and_run(stoker, script):
    path = script("import sys; print('job', sys.argv[1])")
    running = [stoker.start("run", path, "--", i) for i in range(10)]
    for i, process in enumerate(running):
        out, error = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, error
        assert out.decode() == f"job {i}\n"
    jobs = stoker.json("ps", "--all")["jobs"]
    assert len(jobs) == 10 and all(job["phase"] == "completed" for job in jobs)
    # Each takes the whole machine, so no two may overlap.
    spans = sorted((job["state"]["placed_ms"], job["state"]["over_ms"]) for job in jobs)
    assert all(ended <= began for (_, ended), (began, _) in zip(spans, spans[1:]))


def test_waiting_job_says_for_what_and_can_be_stopped(stoker, script):
    path = script("import time; print('up', flush=True); time.sleep(600)")
    first = stoker.detach(path)
    second = stoker.detach(path)
    assert f"(held by {first})" in stoker.job(second)["waiting_for"]
    assert stoker("stop", second).stdout == f"{second} stopped\n"
    stoker.wait_line(first, "up")
    assert stoker("stop", first).returncode == 0
    assert stoker.job(first)["state"]["exit_code"] == 128 + signal.SIGTERM


def test_stop_takes_several_and_says_each_that_fails(stoker, script):
    path = script("import time; print('up', flush=True); time.sleep(600)")
    small = ("--cpu-scale", "0.1", "--group", "train=1xcpus=1")
    first, second, third = (stoker.detach(path, *small) for _ in range(3))
    for name in (first, second, third):
        stoker.wait_line(name, "up")
    done = stoker("stop", "none", first, "neither", second, first)
    assert done.stdout == f"{first} stopped\n{second} stopped\n" and done.returncode == 64
    assert ["none" in line or "neither" in line for line in done.stderr.splitlines()] == [True, True], done.stderr
    assert stoker.job(third)["phase"] == "running"
    told = stoker.json("stop", "last", third)["stopped"]
    assert [(job["name"], job["phase"]) for job in told] == [(third, "stopped")]


def test_stop_kills_after_the_grace(stoker, script):
    path = script("import signal, time\nsignal.signal(signal.SIGTERM, lambda *_: print('no', flush=True))\n"
                  "print('up', flush=True)\nwhile True: time.sleep(1)")
    name = stoker.detach(path, "--grace", 1)
    stoker.wait_line(name, "up")
    assert stoker("stop", name).returncode == 0
    state = stoker.job(name)["state"]
    (host,) = state["hosts"]
    assert host["killed"] and host["exit_code"] == 128 + signal.SIGKILL
    assert host["ended_ms"] - state["outcome_ms"] >= 990  # not before the grace was over
    assert stoker("logs", name).stdout == "up\nno\n"


def test_interrupt_stops_the_job(stoker, script):
    process = stoker.start("run", script("import time; print('up', flush=True); time.sleep(600)"))
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130  # as a shell says it, whatever the script made of its TERM
    assert stoker.json("ps", "--all")["jobs"][0]["phase"] == "stopped"


def test_a_reader_that_leaves_is_told_that_the_job_goes_on(stoker, script):
    process = stoker.start("run", script("import time\nwhile True: print('up', flush=True); time.sleep(0.05)"))
    assert process.stdout.readline() == b"up\n"
    process.stdout.close()
    assert b"detached; the job goes on" in process.stderr.read()
    assert process.wait(LIMIT_S) == 130
    assert stoker("stop", "last").returncode == 0


def test_second_interrupt_detaches(stoker, script):
    process = stoker.start("run", script("import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                                         "print('up', flush=True)\ntime.sleep(600)"), "--grace", "2")
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGINT)
    for line in process.stderr:
        if b"stopping" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    (job,) = stoker.json("ps", "--all")["jobs"]
    assert stoker.wait(job["name"])["phase"] == "stopped"


def test_following_a_queued_job_says_what_it_waits_for(stoker, script):
    whole = ("--cpu-scale", "1", "--group", f"train=1xcpus={os.cpu_count()},memory=1")
    path = script("import time; print('up', flush=True); time.sleep(600)")
    first, second = stoker.detach(path, *whole), stoker.detach(path, *whole)
    stoker.wait_line(first, "up")
    with stoker.start("logs", "-f", second) as follow:
        assert b"queued: " in follow.stderr.readline()
        stoker("stop", first)
        assert follow.stdout.readline() == b"up\n"
        stoker("stop", second)


def test_notices_are_told_while_the_job_goes_on(stoker, script):
    path = script("import os, time\n"
                  "if os.fork() == 0:\n"
                  "    for _ in range(64): x = locals().get('x', []) + [bytearray(b'x') * (64 << 20)]\n"
                  "    os._exit(0)\n"
                  "os.wait(); print('up', flush=True); time.sleep(600)")
    with stoker.start("run", path, *ONE) as run:
        assert run.stdout.readline() == b"up\n"
        with stoker.start("logs", "-f", "last") as follow:
            for process in run, follow:
                assert any(b"the kernel has killed a process" in line for line in process.stderr)
            assert "train/algo-1: out of memory" in stoker("ps").stdout
            stoker("stop", "last")
            assert b"the kernel has killed a process" not in run.communicate(timeout=LIMIT_S)[1], "told once"


def test_errors_are_json_on_wish(stoker, script):
    for command in (["logs", "no-such-job"], ["stop", "no-such-job"], ["advise", "no-such-job"], ["run", "/no/such/script.py"]):
        told = json.loads(stoker(*command, "--json").stderr)["error"]
        assert told["message"] and told["kind"] == "not_found", told


def test_stokers_own_folder_is_reached_through_no_input(stoker, script, tmp_path):
    around = tmp_path / "by another name"
    around.symlink_to(stoker.home.parent)
    look = script("import os; print(sorted(os.listdir('/opt/ml/input/data/a/' + os.environ['INSIDE'])), flush=True)")
    done = stoker("run", look, "--name", "looks", "--input", f"a={around}", "--env", f"INSIDE={stoker.home.name}")
    assert done.returncode == 0 and "[]" in done.stdout, done.stdout + done.stderr
    for inside in ("", "jobs", "run", "jobs/looks"):
        refused = stoker("run", look, "--input", f"a={stoker.home / inside}")
        assert refused.returncode == 64 and "is in stoker's own folder" in refused.stderr and "jobs/JOB/model" in refused.stderr, refused.stderr
    again = stoker("run", look, "--input", f"a={stoker.home / 'jobs/looks/model'}", "--env", "INSIDE=.")
    assert again.returncode == 0, again.stderr


def test_what_is_no_name_of_a_job_is_no_request(stoker):
    for command in (["rm", ""], ["rm", "../x"], ["stop", "a/b"], ["logs", ""], ["advise", "a?b"], ["compare", "a", ""], ["top", ""]):
        done = stoker(*command)
        assert done.returncode == 64 and "names have letters, digits and '-'; `stoker ps --all`" in done.stderr, (command, done.stderr)


def test_what_is_typed_wrong_is_json_on_wish(stoker, script):
    path = str(script(""))
    for command in (["run"], ["run", path, "--no-such"], ["run", path, "--grace", "nan"], ["no-such"], ["logs"], ["stop"],
                    ["advise"], ["compare", "one"], ["ps", "what"], ["server", "--idle"], ["run", path, "--input", "x"],
                    ["logs", "a", "b"], ["run", path, "--env", os.fsdecode(b"X=\xff")], []):
        plain = stoker(*command)
        assert plain.returncode == 64 and not plain.stdout, command
        done = stoker(*command, "--json")
        told = json.loads(done.stderr)["error"]  # one object and nothing else
        assert done.returncode == 64 and told["kind"] == "invalid" and told["message"] and not done.stdout, (command, told)


def test_the_scripts_arguments_need_two_dashes(stoker, script):
    done = stoker("run", script(""), "--epochs", "2")
    assert done.returncode == 64 and "not expected: --epochs 2; " in done.stderr and "come after `--`" in done.stderr


def test_help_is_a_command_too_and_says_what_is_typed(stoker):
    help_text = stoker("help")
    assert help_text.returncode == 0 and help_text.stdout == stoker("--help").stdout and "compare" in help_text.stdout
    for command in ("run", "compare", "rm"):
        told = stoker("help", command)
        assert told.returncode == 0 and told.stdout == stoker(command, "--help").stdout
    assert "JOB..." in stoker("help", "compare").stdout and " x 2" not in stoker("help", "compare").stdout
    unknown = stoker("help", "no-such")
    assert unknown.returncode == 64 and "there is no command 'no-such'" in unknown.stderr
    one = stoker("compare", "one")
    assert one.returncode == 64 and "compare takes 2 to 16 jobs, and was given 1" in one.stderr
    agent = stoker("agent", "--help")
    assert agent.returncode == 0 and not agent.stderr and agent.stdout.startswith("stoker agent: ")


def test_rm_takes_ended_jobs_off_the_list_and_frees_their_names(stoker, script):
    path = script("print('one')")
    assert stoker("run", "--name", "one", path).returncode == 0
    taken = stoker("run", "--name", "one", path)
    assert taken.returncode == 64 and "`stoker rm one`" in taken.stderr
    running = stoker.detach(script("import time; print('up', flush=True); time.sleep(600)", "blocker.py"))
    stoker.wait_line(running, "up")
    refused = stoker("rm", running, "one")
    assert refused.returncode == 75 and f"`stoker stop {running}`" in refused.stderr
    assert [job["name"] for job in stoker.json("ps", "--all")["jobs"]] == [running]
    assert not (stoker.home / "jobs" / "one").exists()
    stoker("stop", running)
    shutil.rmtree(stoker.home / "jobs" / running)
    for command in ("logs", "advise"):
        gone = stoker(command, running)
        assert gone.returncode == 64 and "is gone" in gone.stderr and f"`stoker rm {running}`" in gone.stderr
    refused = stoker("rm", running[:-1])
    assert refused.returncode != 0 and f"did you mean {running}?" in refused.stderr
    assert stoker.json("rm", "last", "last") == {"removed": [running]}
    assert stoker.json("ps", "--all")["jobs"] == []
    assert stoker("run", "--name", "one", path).stdout == "one\n"


def test_logs_are_complete_to_the_last_byte(stoker, script):
    path = script("import os\nline = b'x' * 99 + b'\\n'\nblock = line * 1000\n"
                  "for _ in range(200): os.write(1, block)\nos.write(2, b'the very end')\nos._exit(3)\n")
    process = stoker.start("run", path)
    out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 3
    assert len(out) == 20_000_000 + len("the very end") and out.endswith(b"the very end")
    name = stoker.json("ps", "--all")["jobs"][0]["name"]
    with stoker.start("logs", name) as again:
        assert again.stdout.read() == out
    with stoker.start("logs", "-f", "last") as again:
        assert again.stdout.read() == out


def test_long_lines_of_groups_are_complete_too(stoker, script):
    # Longer than what is read at once, so that no end of a line is in sight, and bytes that are no text.
    path = script("import os\nos.write(1, b'a' * 1_000_000 + b'\\n' + bytes(range(256)) + b'\\nthe very end')\n")
    name = stoker.detach(path)
    lines = [json.loads(line)["line"] for line in stoker("logs", "-f", "--json", name).stdout.splitlines()]
    assert "".join(lines).count("a") == 1_000_000 + 1 and lines[-1] == "the very end"
    assert stoker("logs", "--json", name).stdout.splitlines()[-1].endswith('"the very end"}')


def test_logs_that_cannot_be_printed_are_an_error(stoker, script):
    name = stoker.detach(script("import time; print('up', flush=True); time.sleep(600)"))
    stoker.wait_line(name, "up")
    with open("/dev/full", "w") as full:
        for command in (["logs", "-f", name], ["logs", "-f", "--json", name]):
            done = subprocess.run([stoker.binary, *command], env=stoker.environment, stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=LIMIT_S)
            assert done.returncode not in (0, 64) and "No space left" in done.stderr
    # Nor may the closed descriptor become the server's socket, into which the log would then go.
    closed = subprocess.run(["/bin/sh", "-c", '"$0" logs -f "$1" >&-', stoker.binary, name], env=stoker.environment,
                            stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
    assert closed.returncode != 0 and "Bad file descriptor" in closed.stderr
    stoker("stop", name)


def test_words_that_json_cannot_carry_are_refused(stoker, script):
    done = stoker("run", "--env", os.fsdecode(b"X=\xff"), script(""))
    assert done.returncode == 64 and "is not UTF-8" in done.stderr


def test_logs_of_groups_are_told_apart(stoker, script):
    path = script("import os; print('I am', os.environ['SM_CURRENT_INSTANCE_GROUP'])")
    small = "cpus=1,memory=1"
    done = stoker("run", path, "--cpu-scale", "0.3", "--group", f"a=2x{small}", "--group", f"b=1x{small}")
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    hosts = {host["name"]: host["group"] for host in stoker.json("ps", "--all")["jobs"][0]["state"]["hosts"]}
    assert lines == sorted(f"[{group}/{host}] I am {group}" for host, group in hosts.items())
    assert stoker("logs", "last", "--group", "b").stdout == "I am b\n"
    told = [json.loads(line) for line in stoker("logs", "last", "--json").stdout.splitlines()]
    assert {(line["group"], line["host"]) for line in told} == {(group, host) for host, group in hosts.items()}
    assert stoker("logs", "last", "--group", "c").returncode == 64


HELPER = """
import os, sys, time
if os.environ['SM_CURRENT_INSTANCE_GROUP'] == 'help':
    print('helping', flush=True)
    time.sleep(600)
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("code", [0, 5])
def test_helpers_end_with_the_training_however_it_ends(stoker, script, code):
    small = "cpus=1,memory=1"
    done = stoker("run", script(HELPER), "--cpu-scale", "0.3", "--group", f"train=1x{small}", "--group",
                  f"help=1x{small}:aux", "--", code)
    assert done.returncode == code, done.stderr
    hosts = {host["group"]: host for host in stoker.json("ps", "--all")["jobs"][0]["state"]["hosts"]}
    assert hosts["help"]["exit_code"] == 128 + signal.SIGTERM and hosts["help"]["ended_ms"] >= hosts["train"]["ended_ms"]


def test_feed_group_ends_with_the_training(stoker, script):
    small = "cpus=1,memory=1"
    path = script("import os; print(os.environ['STOKER_FEED'], len(open(os.environ['STOKER_FEED_TOKEN_FILE']).read()) > 30)")
    done = stoker("run", path, "--cpu-scale", "0.3", "--group", f"train=1x{small}", "--group", f"data=1x{small}:feed")
    assert done.returncode == 0, done.stderr
    job = stoker.json("ps", "--all")["jobs"][0]
    trainer = next(host["name"] for host in job["state"]["hosts"] if host["group"] == "train")
    assert f"[train/{trainer}] {trainer}:7170 True\n" in done.stdout


def test_each_group_that_is_fed_has_its_own_dispatcher(stoker, script):
    # One that lived with another group would be gone when that group ends first.
    small = "cpus=1,memory=1"
    path = script("import os; print(os.environ.get('STOKER_FEED'), 'STOKER_FEED_TOKEN_FILE' in os.environ)")
    done = stoker("run", path, "--cpu-scale", "0.3", "--group", f"a=1x{small}", "--group", f"b=1x{small}", "--group",
                  f"c=1x{small}", "--group", f"data=1x{small}:feed@a,b")
    assert done.returncode == 0, done.stderr
    hosts = {host["group"]: host["name"] for host in stoker.json("ps", "--all")["jobs"][0]["state"]["hosts"]}
    assert sorted(done.stdout.splitlines()) == sorted(
        [f"[a/{hosts['a']}] {hosts['a']}:7170 True", f"[b/{hosts['b']}] {hosts['b']}:7170 True", f"[c/{hosts['c']}] None False"]
        + [line for line in done.stdout.splitlines() if line.startswith("[data/")])
    worker = json.loads(next(stoker.home.glob(f"jobs/*/run/{hosts['data']}.json")).read_text())
    assert sorted(worker["feed"]["dispatchers"]) == sorted(f"{hosts[group]}:7170" for group in "ab")


def test_inputs_environment_and_code(stoker, script, tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.txt").write_text("picture")
    path = script("import os, helper\nprint(open(os.environ['SM_CHANNEL_PHOTOS'] + '/a.txt').read(), os.environ['COLOUR'],"
                  " helper.VALUE, os.path.exists('/opt/ml/code/.git'))")
    script("VALUE = 42", "helper.py")
    (path.parent / ".git").mkdir()
    done = stoker("run", path, "--input", f"photos={tmp_path / 'pictures'}", "--env", "COLOUR=red")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "picture red 42 False\n"
    assert ".git/" in done.stderr


def test_changed_code_does_not_change_a_job_that_waits(stoker, script):
    blocker = stoker.detach(script("import time; print('up', flush=True); time.sleep(600)", "blocker.py"))
    path = script("print('before')")
    waiting = stoker.detach(path)
    path.write_text("print('after')")
    stoker("stop", blocker)
    assert stoker.wait(waiting)["phase"] == "completed"
    assert stoker("logs", waiting).stdout == "before\n"


def test_names(stoker, script):
    path = script("print('x')")
    assert stoker("run", path, "--name", "alpha-1").returncode == 0
    assert stoker("run", path, "--name", "alpha-2").returncode == 0
    assert stoker("run", path, "--name", "beta").returncode == 0  # behind them in the alphabet
    again = stoker("run", path, "--name", "alpha-1")
    assert again.returncode == 64 and "already a job named 'alpha-1'" in again.stderr
    assert stoker("logs", "alpha-1").returncode == 0
    ambiguous = stoker("logs", "alpha")
    assert ambiguous.returncode == 64 and "alpha-1, alpha-2; type more of it" in ambiguous.stderr
    assert stoker("logs", "nothing").returncode == 64


def test_options_out_of_range_are_refused(stoker, script):
    for command, option in (("run", "--cpu-scale"), ("run", "--grace"), ("server", "--cpu-scale"), ("server", "--idle")):
        for number in ("-1", "nan", "-nan", "inf", "-inf", "infinity", "1e999", "1e300", "x", ""):
            done = stoker(command, *([script("")] if command == "run" else []), option, number)
            assert done.returncode == 64 and f"{option}: '{number}' is not a number from" in done.stderr, done.stderr
    for price in ("nan", "inf"):
        done = stoker("run", script(""), "--group", f"a=1xcpus=1,price={price}")
        assert done.returncode == 64 and f"'{price}' is not a number from" in done.stderr, done.stderr


def test_a_pipe_among_the_telemetry_holds_nobody(stoker, script):
    path = script("import os; os.mkfifo('/opt/ml/telemetry/loader-1.jsonl')")
    assert stoker("run", path).returncode == 0
    compared = stoker("compare", "last", "last")
    assert compared.returncode == 64 and "no measured steps" in compared.stderr


def test_leftovers_would_be_seen(stoker, script):
    name = stoker.detach(script("import time; print('up', flush=True); time.sleep(600)"))
    stoker.wait_line(name, "up")
    seen = leftovers(stoker.home.parent)
    assert seen["processes"] and seen["links"] and seen["cgroups"]
    stoker("stop", name)
    left = leftovers(stoker.home.parent)
    assert len(left["processes"]) <= 1 and not left["links"] and not left["cgroups"]  # the server may be named by its home


def test_a_script_that_has_paused_itself_hears_a_stop(stoker, script):
    name = stoker.detach(script("import os, signal\nsignal.signal(signal.SIGTERM, lambda *_: os._exit(7))\n"
                                "print('up', flush=True); os.kill(os.getpid(), signal.SIGSTOP)"))
    stoker.wait_line(name, "up")
    assert stoker("stop", name).returncode == 0
    job = stoker.wait(name)
    assert job["phase"] == "stopped" and job["state"]["hosts"][0]["exit_code"] == 7 and not job["state"]["hosts"][0]["killed"]
