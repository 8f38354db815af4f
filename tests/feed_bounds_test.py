# SPDX-License-Identifier: Apache-2.0
"""A feed group one of whose consumers stops reading: the worker's memory stays under its budget, nobody else is held up, and everything
is delivered once with the bytes that it has without a feed group."""

import json
import signal
import sys

import pytest

from feed_test import nothing_is_left, photos, start, token_file  # noqa: F401 - fixtures
from loops import Loop, alone

MEBI = 1 << 20
BUDGET = 8 * MEBI  # the worker's


@pytest.fixture
def loops():
    begun = []
    yield lambda *feed, **asked: begun.append(Loop(*feed, **asked)) or begun[-1]
    for loop in begun:
        loop.end()


@pytest.fixture
def feed(start, token_file, tmp_path, monkeypatch):  # noqa: F811
    """A dispatcher with one worker: (its address, the token), and what the worker has told last."""
    monkeypatch.setenv("STOKER_TELEMETRY_DIR", str(tmp_path))
    dispatcher = start("feed-dispatcher")
    worker = start(
        "feed-worker", "--dispatcher", dispatcher.address, "--threads", "2", "--budget-mb", str(BUDGET // MEBI), "--python", sys.executable
    )  # fmt: skip
    monkeypatch.delenv("STOKER_TELEMETRY_DIR")
    path = tmp_path / f"feed-{worker.popen.pid}.jsonl"
    return (dispatcher.address, token_file), lambda: [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def loop_over(kind: str, photos) -> dict:  # noqa: F811
    return {"kind": kind, "samples": 600} if kind == "draws" else {"kind": kind, "root": str(photos), "epochs": 25, "seed": 3}


@pytest.mark.parametrize("stall", ["loop", "process"])
@pytest.mark.parametrize("kind", ["draws", "pictures"])  # a Python plan and a native one
def test_a_consumer_that_stops_reading_harms_nobody(feed, loops, photos, kind, stall):  # noqa: F811
    group, told = feed
    asked = loop_over(kind, photos)
    expected, batches = alone(**asked), 150
    stalled = loops(group, **asked, wait_at=3)
    stalled.hear()
    if stall == "process":  # its thread that receives too
        stalled.popen.send_signal(signal.SIGSTOP)
    other = loops(group, **asked)
    last = other.hear()
    assert (last["digest"], last["taken"]) == (expected, batches)
    assert told()[-1]["clients"] >= 1  # the stalled one is still there
    assert max(line["held_bytes"] for line in told()) <= BUDGET
    stalled.popen.send_signal(signal.SIGCONT)
    stalled.go_on()
    last = stalled.hear()
    assert (last["digest"], last["taken"]) == (expected, batches)
