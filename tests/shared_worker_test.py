# SPDX-License-Identifier: Apache-2.0
"""One feed worker serves several training processes at once, each with a plan of its own."""

import json
import sys

import pytest

from feed_bounds_test import loop_over, loops
from feed_test import nothing_is_left, photos, start, token_file  # noqa: F401 - fixtures
from loops import alone
from waiting import wait_until


@pytest.mark.parametrize("kinds", [("draws", "draws"), ("draws", "pictures"), ("pictures", "pictures")], ids="-and-".join)
def test_a_worker_serves_two_plans_at_the_same_time(start, token_file, loops, photos, tmp_path, monkeypatch, kinds):  # noqa: F811
    monkeypatch.setenv("STOKER_TELEMETRY_DIR", str(tmp_path))
    dispatcher = start("feed-dispatcher")
    worker = start("feed-worker", "--dispatcher", dispatcher.address, "--threads", "1", "--python", sys.executable)
    monkeypatch.delenv("STOKER_TELEMETRY_DIR")
    asked = [{**loop_over(kind, photos), "seed": number} for number, kind in enumerate(kinds)]
    expected = [alone(**one) for one in asked]
    assert expected[0] != expected[1]
    both = [loops((dispatcher.address, token_file), **one, wait_at=20) for one in asked]
    for loop in both:
        assert loop.hear()["taken"] == 20
    telemetry = tmp_path / f"feed-{worker.popen.pid}.jsonl"
    wait_until(lambda: json.loads(telemetry.read_text().split("\n")[-2])["clients"] == 2)
    for loop in both:
        loop.go_on()
    last = [loop.hear() for loop in both]
    assert [one["digest"] for one in last] == expected and [one["taken"] for one in last] == [150, 150]
