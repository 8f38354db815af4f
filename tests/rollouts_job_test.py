# SPDX-License-Identifier: Apache-2.0
"""A feed group that runs a command of its own: examples/rollouts as a job gives the weights that it gives alone."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="instances on this machine need root so far")

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "rollouts"
GROUPS = ("--cpu-scale", "0.4", "--group", "learn=1xcpus=1,memory=1", "--group", "sims=2xcpus=1,memory=1:feed")


def weights(output: str) -> str:
    return next(line for line in output.splitlines() if line.startswith("weights") or " weights" in line).split("weights", 1)[1]


def test_simulators_of_a_feed_group_help_a_learner(stoker):
    alone = subprocess.run(
        [sys.executable, EXAMPLE / "learner.py", "--local", "1", "--generations", "4"], capture_output=True, text=True, timeout=120
    )
    assert alone.returncode == 0, alone.stderr
    done = stoker("run", EXAMPLE / "learner.py", *GROUPS, "--entry", "sims=simulate.py", "--", "--generations", 4)
    assert done.returncode == 0, done.stdout + done.stderr
    assert weights(done.stdout) == weights(alone.stdout)
    # They end when the learner has closed its connections, which may be before or after its process is gone.
    played = re.findall(r"algo-\d+ played (\d+) episodes", stoker("logs", "last", "--group", "sims").stdout)
    assert len(played) == 2 and sum(map(int, played)) > 0, played


def test_an_entry_that_is_not_there_is_refused_before_anything_runs(stoker):
    refused = stoker("run", EXAMPLE / "learner.py", *GROUPS, "--entry", "sims=simulator.py")
    assert refused.returncode == 127 and "there is no 'simulator.py' in the code folder" in refused.stderr
    refused = stoker("run", EXAMPLE / "learner.py", *GROUPS, "--entry", "simulators=simulate.py")
    assert refused.returncode == 64 and "there is no such group" in refused.stderr


def test_a_program_that_is_nowhere_is_named_with_where_it_was_looked_for(stoker):
    done = stoker("run", EXAMPLE / "learner.py", *GROUPS, "--entry", "sims=no-such-simulator -n 4")
    assert done.returncode == 1, done.stderr
    assert "there is no program 'no-such-simulator' in the code folder nor in PATH (" in done.stderr and "/usr/bin" in done.stderr
