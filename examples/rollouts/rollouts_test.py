# SPDX-License-Identifier: Apache-2.0
"""The example learns, and the same whoever simulates. tests/rollouts_job_test.py runs it as a job."""
import importlib.util
import os
import subprocess
import sys

import pytest

FOLDER = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture
def learner(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location("rollouts_learner", os.path.join(FOLDER, "learner.py"))
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


@pytest.fixture
def start(learner):
    started = []

    def start(count):
        simulators = learner.Simulators(0)
        command = [sys.executable, os.path.join(FOLDER, "simulate.py"), "--learner", "127.0.0.1", "--port", str(simulators.port)]
        started.extend(subprocess.Popen(command) for _ in range(count))
        return simulators, started[-count:]

    yield start
    for one in started:
        one.kill()
        one.wait()


def test_it_learns_the_same_with_one_simulator_and_with_three_of_which_one_dies(learner, start, capsys):
    alone, _ = start(1)
    weights, means = learner.learn(alone, 8)
    assert means[-1] > 5 * means[0]
    three, processes = start(3)
    for _ in processes:
        assert three.arrived.acquire(timeout=60)
    three.play([(weights, 0)] * 9)
    processes[0].kill()
    assert learner.learn(three, 8) == (weights, means)
    assert "a simulator is gone" in capsys.readouterr().out
