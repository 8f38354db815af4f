# SPDX-License-Identifier: Apache-2.0
"""A job that goes on from another's checkpoint, as docs/guide/jobs.md shows it (script and command lines are the page's own), or from
a state that was taken outside of jobs."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import stoker as package
from stoker.data.fluent_test import photos  # noqa: F401  (a fixture)

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


PICTURES = """
import json, sys
import stoker

folder, then, now, steps = sys.argv[1:]
loader = stoker.data.image_folder(folder).shuffle(seed=1).decode().random_resized_crop(16).batch(4).numpy(workers=1)
if then != "-":
    loader.load_state_dict(json.load(open(then)))
for step, _ in enumerate(loader, 1):
    if step == int(steps):
        break
state = loader.state_dict()
json.dump(state, open(now, "w"))
print("digest", state["samples"], state["digest"], flush=True)
"""


def test_a_state_of_pictures_goes_into_a_job_and_out_of_it_again(stoker, script, photos, tmp_path):  # noqa: F811
    """The folder has another path in a job, which is no part of what the state is of."""
    path = script(PICTURES)

    def here(*words):
        done = subprocess.run([sys.executable, str(path), str(photos), *words], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    begun, ended = tmp_path / "begun/state.json", tmp_path / "ended.json"
    begun.parent.mkdir()
    here("-", str(begun), "2")
    ran = stoker(
        "run", path, "--name", "in", "--cpu-scale", "0.4", "--group", "train=1xcpus=1,memory=1", "--group", "data=1xcpus=1,memory=1:feed",
        "--input", f"photos={photos}", "--input", f"ck={begun.parent}", "--",
        "/opt/ml/input/data/photos", "/opt/ml/input/data/ck/state.json", "/opt/ml/checkpoints/state.json", "1",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    done = stoker.home / "jobs/in/checkpoints/state.json"
    assert here(str(done), str(ended), "0") == here("-", str(ended), "0")
