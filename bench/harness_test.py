# SPDX-License-Identifier: Apache-2.0
"""The harness with contestants that only print."""
import json
import sys

import harness
import pytest


def printing(who, values, workers=1):
    """A contestant whose rounds print one of `values` each, by a counter file's length."""
    text = json.dumps({"version": "1", "items": 10, "cpu_s_per_item": 0.5, "wall_s_per_item": 0.25})
    return harness.Contestant(who, workers, [sys.executable, "-c", f"print({text!r})"], lambda d: {**d, **values})


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "ROOT", tmp_path)
    return harness.Run("question", rounds=2)


def test_rounds_are_written_as_lines_and_compared_by_minima(run, tmp_path, capsys):
    rows, missing = harness.take_turns(run, [printing("stoker/exact", {}), printing("peer/x", {"cpu_s_per_item": 1.5})])
    lines = [json.loads(line) for line in (tmp_path / "build/bench/question.jsonl").read_text().splitlines()]
    assert [line["who"] for line in lines] == ["stoker/exact", "peer/x"] * 2
    assert set(lines[0]) == {
        "question", "who", "workers", "version", "items", "cpu_s_per_item", "wall_s_per_item", "rss_mb", "note"
    }
    harness.print_table(harness.minima(rows), missing, 1e3, "ms")
    assert "3.00x" in capsys.readouterr().out


def test_minimum_of_a_measure_is_taken_over_all_rounds(run):
    row = harness.Row("question", "a", 1, "1", 1, 2.0, 5.0, 10, "")
    other = harness.Row("question", "a", 1, "1", 1, 3.0, 4.0, 20, "")
    best = harness.minima({("a", 1): [row, other]})[("a", 1)]
    assert (best.cpu_s_per_item, best.wall_s_per_item, best.rss_mb) == (2.0, 4.0, 20)


def test_a_peer_without_environment_or_answer_is_missing_not_zero(run):
    silent = harness.Contestant("peer/silent", 1, [sys.executable, "-c", "import sys; sys.exit('no luck')"], dict)
    absent = harness.Contestant("peer/absent", 1, ["x"], dict, missing="environment x")
    rows, missing = harness.take_turns(run, [silent, absent])
    assert rows == {}
    assert missing[("peer/absent", 1)] == "environment x"
    assert "no luck" in missing[("peer/silent", 1)]
