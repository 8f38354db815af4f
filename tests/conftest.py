# SPDX-License-Identifier: Apache-2.0
"""What the tests of jobs share: a home with its server, after which nothing may be left, and a script to run."""

import shutil
import tempfile
from pathlib import Path

import pytest

from stoker_home import Stoker, leftovers


@pytest.fixture
def stoker():
    # Not pytest's tmp_path: a socket's path is short, and that of a home under /tmp shows in what a job leaves.
    home = Path(tempfile.mkdtemp(prefix="stoker-test-"))
    program = Stoker(home / "home")
    try:
        yield program
    finally:
        ended = program("server", "--stop", "--force")
        after = leftovers(home)
        logs = {str(path): path.read_text(errors="replace")[-2000:] for path in home.glob("home/jobs/*/run/*.log")}
        shutil.rmtree(home)
    assert ended.returncode == 0, ended.stderr
    assert not any(after.values()), (after, logs)


@pytest.fixture
def script(tmp_path):
    def write(text: str, name: str = "train.py") -> Path:
        folder = tmp_path / "code"
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_text(text)
        return path

    return write
