# SPDX-License-Identifier: Apache-2.0
"""What holds a fed loop up is named: the link where it is too slow for what the workers could make, and the workers where they are."""

import json
import os
import subprocess
import sys

import pytest

from bad_wires import Wires
from feed_test import start, token_file  # noqa: F401 - fixtures
from program import binary

# Takes batches until it is known what binds.
LOOP = """
import json, sys, time
import numpy, stoker

class Pictures:
    def __init__(self, spin_s): self.spin_s = spin_s
    def __len__(self): return 1_000_000
    def __getitem__(self, index):
        end = time.thread_time() + self.spin_s
        while time.thread_time() < end: pass
        return numpy.full(50_000, index % 251, numpy.uint8)

loader = stoker.DataLoader(Pictures(float(sys.argv[1])), batch_size=4)
for taken, batch in enumerate(loader):
    if taken % 5 == 4 and (stats := loader.stats()).binds and stats.feed.sizing: break
print(json.dumps({**stats.to_dict(), "text": str(stats)}))
"""
SLOW = 2_000_000  # bytes a second


@pytest.fixture
def wire():
    wires = Wires()
    yield wires.add()
    wires.close()


def run_loop(start, wire, token_file, tmp_path, spin_s):  # noqa: F811
    dispatcher = start("feed-dispatcher")
    worker = start("feed-worker", "--dispatcher", dispatcher.address, "--advertise", wire.address, "--threads", "1", "--python", sys.executable)
    wire.target = worker.address
    script = tmp_path / "loop.py"
    script.write_text(LOOP)
    feed = {"STOKER_FEED": dispatcher.address, "STOKER_FEED_TOKEN_FILE": token_file, "STOKER_BIN": binary(), "STOKER_SPARE_CORES": "0"}
    done = subprocess.run([sys.executable, script, str(spin_s)], env={**os.environ, **feed}, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_link_that_is_too_slow_is_named(start, wire, token_file, tmp_path):  # noqa: F811
    wire.slow(600, SLOW)
    stats = run_loop(start, wire, token_file, tmp_path, 0)
    assert stats["binds"].startswith("the link ("), stats
    assert stats["limits"][stats["binds"]] * 50_000 < 2 * SLOW
    assert stats["slack"][next(name for name in stats["limits"] if name.startswith("feed workers (1)"))] > 0.5
    assert stats["waiting"] > 0.5 and "at most by the link (" in stats["text"]


def test_workers_that_are_too_slow_are_named(start, wire, token_file, tmp_path):  # noqa: F811
    stats = run_loop(start, wire, token_file, tmp_path, 0.01)
    assert stats["binds"] == "feed workers (1)", stats
