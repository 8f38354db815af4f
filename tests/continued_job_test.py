# SPDX-License-Identifier: Apache-2.0
"""A job that goes on from another's checkpoint, as docs/guide/jobs.md shows it: script and command lines are the page's own."""

import os
import re
import shlex
from pathlib import Path

import pytest

import stoker as package

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="instances on this machine need root so far")

GUIDE = Path(__file__).resolve().parent.parent / "docs/guide/jobs.md"


def test_a_job_goes_on_where_another_stood(stoker, script):
    section = re.search(r"\n## Going on from another job\n(.*?)\n## ", GUIDE.read_text(), re.DOTALL)[1]
    text, lines = re.search(r"```python\n(.*?)```\n```\n(.*?)```", section, re.DOTALL).groups()
    path, given = script(text), []
    for line in lines.splitlines():
        words = shlex.split(line.replace("$HOME/.local/share/stoker", str(stoker.home)))
        assert words[:3] == ["stoker", "run", "train.py"]
        done = stoker("run", path, *words[3:])
        assert done.returncode == 0, done.stderr
        given.append(done.stdout.splitlines())
    whole = package.data.range(20).shuffle(seed=1).batch(4).numpy(workers=0)
    assert [len(one) for one in given] == [2, 3] and sum(given, []) == [str(batch.tolist()) for batch in whole]
    kept = [(stoker.home / "jobs" / name / "checkpoints/state.json").read_text() for name in ("first", "second")]
    assert kept[0] != kept[1]
