# SPDX-License-Identifier: Apache-2.0
"""How long from the command to the first line of a job that does nothing, on a cluster that is up?

Measured as the peers' script measures itself: from the start of the command (`stoker run`, `srun`, `ray job submit`) to
the moment at which the user's script prints. CPU is the client's. Also what `stoker --help` and `stoker ps` take. An item
is one command; wall time is the median of its repeats.
"""
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import harness
import measure

NEEDS = ["torch", "ray"]
NEEDS_PICTURES = False
UNIT, SCALE, BY = "ms", 1e3, "wall_s_per_item"

PEERS = [("torch", "python"), ("torch", "srun"), ("ray", "ray_job")]  # environment, variant of startup.py


def set_up():
    """Slurm comes from the distribution, when it may be installed."""
    if not shutil.which("slurmctld"):
        harness.install("slurm-wlm", "munge")


def per_command(d):
    versions = d.get("version") or " ".join(f"{k} {v}" for k, v in d.get("versions", {}).items() if v)
    floor = d["variant"] == "python"
    return {
        "who": "bound/python" if floor else f"{d['peer']}/{d['variant']}",
        "version": versions,
        "items": d["repeats"],
        "cpu_s_per_item": d["client_cpu_s_min"],
        "wall_s_per_item": d["first_line_s_median"],
        "rss_mb": None,
        "note": f"min {d['first_line_s_min']} s, whole command median {d['command_s_median']} s",
    }


def contestants(run):
    listed = []
    for who, variant in (("stoker/exact", "run"), ("stoker/help", "help"), ("stoker/ps", "ps")):
        listed.append(harness.ours(run, who, "first_line.py", 1, "--variant", variant))
    for venv, variant in PEERS:
        listed.append(harness.peer(run, venv, "startup.py", 1, variant, per_command))
    return listed


def verdict(best):
    for who, limit_ms in (("stoker/exact", 100), ("stoker/help", 20), ("stoker/ps", 20)):
        row = best.get((who, 1))
        if row:
            yield f"{who}: {row.wall_s_per_item * 1e3:.1f} ms (wanted: under {limit_ms} ms)"


def timed(command, environment, folder):
    """(seconds to the script's print or to the end, seconds in all, CPU of the client, output)."""
    before, start = os.times(), time.time()
    done = subprocess.run(
        command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    end, after = time.time(), os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    if done.returncode != 0:
        sys.exit(f"exit {done.returncode}: {(done.stderr or done.stdout)[-400:]}")
    printed = re.findall(r"FIRST_LINE ([0-9.]+)", done.stdout)
    return (max(map(float, printed)) if printed else end) - start, end - start, cpu, done.stdout


def main():
    args = measure.parse(variant="run", repeats=10)
    program = str(harness.ROOT / ".venv" / "bin" / "stoker")
    home = tempfile.mkdtemp(prefix="stoker-bench-")
    environment = {**os.environ, "STOKER_HOME": home, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("XDG_RUNTIME_DIR", None)
    script = os.path.join(home, "noop", "user.py")
    os.makedirs(os.path.dirname(script))
    with open(script, "w") as file:
        file.write("import os, time; os.write(1, b'FIRST_LINE %.6f\\n' % time.time())\n")
    commands = {
        "run": [program, "run", script, "--cpu-scale", "0.2", "--group", "one=1xml.m5.large"],
        "help": [program, "--help"],
        "ps": [program, "ps"],
    }
    try:
        if args.variant != "help":
            timed(commands["run"], environment, home)  # the server is up from here on
        taken = [timed(commands[args.variant], environment, home) for _ in range(args.repeats)]
        if args.variant == "run" and "FIRST_LINE" not in taken[0][3]:
            sys.exit("the job's line did not come: " + taken[0][3][-400:])
    finally:
        subprocess.run([program, "server", "--stop"], env=environment, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)
    first, whole, cpu = ([row[i] for row in taken] for i in range(3))
    note = f"min {min(first) * 1e3:.1f} ms, whole command median {statistics.median(whole) * 1e3:.1f} ms"
    measure.emit({
        "items": len(taken), "cpu_s_per_item": min(cpu), "wall_s_per_item": statistics.median(first), "note": note
    })


if __name__ == "__main__":
    main()
