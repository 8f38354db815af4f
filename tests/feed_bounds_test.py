# SPDX-License-Identifier: Apache-2.0
"""A feed group whose samples differ a hundredfold in size, or whose consumers stop reading: memory stays under its budgets, everything
is delivered once with the bytes that it has without a feed group, and nobody else is held up."""

import json
import signal
import sys

import pytest

from feed_test import nothing_is_left, photos, start, token_file  # noqa: F401 - fixtures
from loops import Loop, alone
from waiting import wait_until

MEBI = 1 << 20
BUDGET, WINDOW = 8 * MEBI, 24 * MEBI  # the worker's, the loop's
LARGEST_UNIT = 5 * MEBI  # a batch with one large sample
SKEWED = {"kind": "skewed", "samples": 280, "window_bytes": WINDOW}  # 60 batches of 4 MB behind 10 of 160 KB


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


def test_samples_of_a_hundredfold_skew_stay_under_the_budgets(feed, loops):
    group, told = feed
    loop = loops(group, **SKEWED, wait_at=2)
    loop.hear()
    wait_until(loop.is_idle)  # it looks ahead as far as it may
    loop.go_on()
    last = loop.hear()
    assert (last["digest"], last["taken"]) == (alone(**SKEWED), 70)
    assert last["disagreed"] == last["corrupt"] == 0
    assert WINDOW / 4 < last["held"] <= WINDOW + 3 * LARGEST_UNIT, last  # which are with the worker's two processes, and wait there
    assert max(line["held_bytes"] for line in told()) <= BUDGET + 2 * LARGEST_UNIT


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
    wait_until(lambda: told()[-1]["clients"] >= 1)  # the stalled one is still there; told a few times a second
    assert max(line["held_bytes"] for line in told()) <= BUDGET
    stalled.popen.send_signal(signal.SIGCONT)
    stalled.go_on()
    last = stalled.hear()
    assert (last["digest"], last["taken"]) == (expected, batches)
