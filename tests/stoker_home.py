# SPDX-License-Identifier: Apache-2.0
"""The real program in a home of its own, as a user types it, and what is left of its jobs on the machine."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from program import binary

LIMIT_S = 120


class Stoker:
    """The command line in one STOKER_HOME."""

    def __init__(self, home: Path):
        self.home = home
        self.binary = binary()
        self.environment = {**os.environ, "STOKER_HOME": str(home)}

    def start(self, *arguments, **options):
        return subprocess.Popen([self.binary, *map(str, arguments)], env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **options)

    def __call__(self, *arguments):
        return subprocess.run([self.binary, *map(str, arguments)], env=self.environment, capture_output=True, text=True,
                              timeout=LIMIT_S)

    def json(self, *arguments):
        done = self(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def detach(self, *arguments) -> str:
        done = self("run", "--detach", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def job(self, name) -> dict:
        return next(job for job in self.json("ps", "--all")["jobs"] if job["name"] == name)

    def wait(self, name) -> dict:
        """Until it is over: a followed log ends when the job has."""
        self("logs", "-f", name)
        return self.job(name)

    def wait_line(self, name, line):
        with self.start("logs", "-f", name) as follow:
            for text in follow.stdout:
                if text.decode().strip().endswith(line):
                    follow.kill()
                    return
            pytest.fail(f"{name} ended without printing {line!r}")


def running() -> list:
    """The command lines of all processes of this machine that have not ended."""
    commands = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            commands.append(command)
    return commands


def leftovers(home: Path) -> dict:
    """What of this home's jobs is still on the machine: processes, mounts, bridges, control groups."""
    processes = [command for command in running() if str(home) in command]
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(home) in line]
    assignments = [json.loads(path.read_text()) for path in home.glob("home/jobs/*/run/*.json")]
    bridges = {assignment["network"]["bridge"] for assignment in assignments}
    links = sorted(bridges & set(os.listdir("/sys/class/net")))
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob("**/stoker/*") if any(name in path.name for name in bridges)]
    return {"processes": processes, "mounts": mounts, "links": links, "cgroups": groups}
