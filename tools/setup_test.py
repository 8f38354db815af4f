# SPDX-License-Identifier: Apache-2.0
"""What tools/setup says when something is missing, on a machine made of links to a few programs."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent
NEEDED = "bash cat cut awk dirname df env flock id mkdir mktemp rm sed sha256sum tail tr".split()


@pytest.fixture
def machine(tmp_path):
    """A source folder, and a PATH on which there is neither compiler nor interpreter nor package manager."""
    (tmp_path / "bin").mkdir()
    for name in NEEDED:
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    (tmp_path / "source" / "tools").mkdir(parents=True)
    for file in [TOOLS / "setup", *TOOLS.glob("*.txt")]:
        shutil.copy(file, tmp_path / "source" / "tools")
    return tmp_path


def program(machine, name, text):
    path = machine / "bin" / name
    path.unlink(missing_ok=True)
    path.write_text("#!/bin/sh\n" + text + "\n")
    path.chmod(0o755)


def set_up(machine, **environment):
    return subprocess.run(
        [machine / "source" / "tools" / "setup"], env={"PATH": str(machine / "bin"), **environment}, capture_output=True, text=True
    )


def test_a_missing_compiler_is_named(machine):
    done = set_up(machine)
    assert done.returncode == 1
    assert "setup: missing: a C++ compiler (g++)" in done.stderr
    assert "install g++ 12 or newer" in done.stderr


def test_an_interpreter_without_headers_is_named(machine):
    for name in ("g++", "cmake", "ninja"):
        program(machine, name, "exit 0")
    done = set_up(machine, PYTHON=str(machine / "bin" / "nothing"))
    assert done.returncode == 1
    assert "setup: missing: Python 3.11 or newer with its headers" in done.stderr


def test_a_step_that_takes_long_is_told_of_and_leaves_nothing_behind(machine):
    program(machine, "dpkg-query", "exit 1")
    program(machine, "id", "echo 0")
    program(machine, "df", "echo Filesystem; echo x 1 1 9999999 1% /")
    # It goes on until it has been told of twice, and then fails.
    program(machine, "apt-get", f'until [ "$(grep -c still: {machine}/told)" -ge 2 ]; do sleep 0.05; done; echo no mirror; exit 3')
    for name in ("sleep", "grep"):
        (machine / "bin" / name).symlink_to(shutil.which(name))
    with open(machine / "told", "w") as told:
        done = subprocess.run(
            [machine / "source" / "tools" / "setup"],
            env={"PATH": str(machine / "bin"), "SETUP_TELL_S": "0.2"}, stdout=told, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    lines = (machine / "told").read_text().splitlines()
    assert re.fullmatch("setup: … still: apt-get update, [0-9]+ s", lines[-1]) and len(lines) >= 4, lines
    assert done.returncode == 1 and "no mirror" in done.stderr and "setup: failed: apt-get update" in done.stderr
    # Standard error has come to its end, so whoever might hold it, such as a sleep, is gone too.


def test_a_full_disk_is_named_with_what_is_free(machine):
    program(machine, "dpkg-query", "exit 1")  # nothing is installed
    program(machine, "id", "echo 0")
    program(machine, "df", "echo Filesystem; echo x 1 1 2048 1% /")
    done = set_up(machine)
    assert done.returncode == 1
    assert "setup: missing: disk space" in done.stderr and "2 MB are free" in done.stderr
    assert "g++ cmake ninja-build" in done.stdout  # what would have been installed


def test_a_user_without_rights_is_told_whom_to_ask(machine):
    program(machine, "dpkg-query", "exit 1")
    program(machine, "id", "echo 1000")
    done = set_up(machine)
    assert done.returncode == 1
    assert "setup: missing: permission to install g++" in done.stderr
    assert "apt-get install --no-install-recommends g++" in done.stderr
