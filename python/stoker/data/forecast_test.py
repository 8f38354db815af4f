# SPDX-License-Identifier: Apache-2.0
"""How fast a loop would be with so many helpers: from recorded measurements, and what explain() says of it."""

import json
from dataclasses import replace

import pytest

import stoker
from stoker.data.explain import Explanation
from stoker.data.feed_stats import FeedStats, SpareStats
from stoker.data.forecast import RECEIVE_S, SEND_S, forecasts
from stoker.data.stages import Work
from stoker.data.telemetry import Meter


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr("stoker.data.forecast._native.feed.allowed_cpu", lambda: 4.0)


def meter_of(step_s, wait_s, cpu_s):
    """Of 100 steps of 10 samples."""
    meter = Meter(10)
    meter.samples, meter.step_samples, meter.steps = 1000, 1000, 100
    meter.step_s, meter.wait_s, meter.step_cpu_s = step_s, wait_s, cpu_s
    return meter


def alone(cpu_s, bytes_each=0, **more):
    stages = [{"name": "dataset", "cpu_s": cpu_s}]
    told = {"samples": 1000, "read_bytes": 0, "made_bytes": 1000 * bytes_each, "busy_s": cpu_s, "cpu_s": cpu_s, "stages": stages}
    return Work.of(more.pop("hands", 2), more.pop("inline", False), [told], **more)


def fed(supply_per_s, workers, bytes_each=0, starved_s=0.0, client_cpu_s=0.0):
    sizing = [{"group": "data", "workers": workers, "wanted": workers, "supply_per_s": supply_per_s, "reason": ""}]
    return Work(feed=FeedStats([], sizing, 0, bytes_received=1000 * bytes_each, starved_s=starved_s), client_cpu_s=client_cpu_s)


def test_helpers_make_what_their_cores_allow_until_the_loop_binds():
    # 8 ms of CPU a sample; the loop's own 1 ms a sample, of which 0.5 are CPU.
    found = forecasts(meter_of(3.0, 2.0, 0.5), alone(8.0), (1, 2, 8), cores=2)
    assert [one.per_s for one in found] == pytest.approx([250, 500, 1000])
    assert [one.binds for one in found] == ["the helpers (1)", "the helpers (2)", "the training loop"]
    assert found[0].limits == pytest.approx({"the helpers (1)": 250, "the training loop": 1000, "this machine's cores (4)": 8000})
    (like_here,) = forecasts(meter_of(3.0, 2.0, 0.5), alone(8.0), 1)
    assert like_here.per_s == pytest.approx(500) and like_here.cores == 4


def test_a_loop_beside_workers_that_fill_its_cores_is_said_to_be_slowed():
    # 11.5 s of CPU want 2.9 s of the four cores, also where a slow start made it 5 s: longer than the loop, and than four workers.
    for hands, step_s, loop in ((4, 3.0, " (slowed here by making samples)"), (4, 5.0, " (slowed here by making samples)"), (2, 5.0, "")):
        (one,) = forecasts(meter_of(step_s, step_s - 2, 3.5), alone(8.0, hands=hands), 8)
        assert one.binds == f"the training loop{loop}" and one.per_s == pytest.approx(500)
    assert "the training loop" in forecasts(meter_of(3.0, 1.0, 11.9), alone(2.0, inline=True, hands=0), 8)[0].limits


def test_spare_cores_of_this_machine_come_on_top_of_the_helpers():
    # 8 ms of CPU a sample; 0.5 of the loop's own, which leaves 3.6 cores less that.
    meter, work = meter_of(3.0, 2.0, 0.5), alone(8.0)
    (left,) = forecasts(meter, work, 1, cores=2, spare=None)
    assert left.per_s == pytest.approx((250 * 0.008 + 3.6) / 0.0085) and left.binds == "the helpers (1) and spare cores"
    assert left.per_s - 250 == pytest.approx((3.6 - left.per_s * 0.0005) / 0.008)
    (one,) = forecasts(meter, work, 1, cores=2, spare=1.0)
    assert one.per_s == pytest.approx(250 + 125)
    (busy,) = forecasts(meter_of(3.0, 2.9, 39.0), work, 1, cores=2, spare=None)  # a loop that leaves none
    assert busy.limits["the helpers (1)"] == pytest.approx(250)


def test_of_a_fed_loop_spare_cores_count_where_they_took_part():
    work = fed(400.0, 2)
    assert forecasts(meter_of(5.0, 4.5, 0.4), work, 1, spare=None)[0].binds == "the helpers (1)"
    work = replace(work, feed=replace(work.feed, spare=SpareStats("part", cores=1.0, samples=100, cpu_s=0.5)))
    (found,) = forecasts(meter_of(5.0, 4.5, 0.4), work, 1, spare=None)
    assert found.per_s == pytest.approx((200 * 0.005 + 3.6) / 0.0054) and found.binds == "the helpers (1) and spare cores"


def test_sending_and_receiving_cost_by_the_byte():
    mega = 1_000_000
    (one,) = forecasts(meter_of(3.0, 2.9, 0.5), alone(8.0, mega), 1, cores=1)
    assert one.limits["the helpers (1)"] == pytest.approx(1 / (0.008 + mega * SEND_S))
    assert one.limits["the thread that receives"] == pytest.approx(1 / (mega * RECEIVE_S))
    assert one.limits["this machine's cores (4)"] == pytest.approx(4 / (0.0005 + mega * RECEIVE_S))
    (slow,) = forecasts(meter_of(3.0, 2.9, 0.5), alone(8.0, mega), 64, link=200e6)
    assert slow.binds == "the link (200 MB/s)" and slow.per_s == pytest.approx(200)


@pytest.mark.parametrize(
    "work", [alone(0.5, inline=True, hands=0), alone(0.5, here=True), alone(9.0, client_cpu_s=0.5)], ids=["inline", "threads", "workers"]
)
def test_what_this_process_did_for_its_samples_is_not_its_own(work):
    # 0.7 s of CPU, of which 0.5 went into making samples or taking them over from own workers.
    (one,) = forecasts(meter_of(3.0, 2.9, 0.7), work, 1)
    assert one.limits["this machine's cores (4)"] == pytest.approx(4 / 0.0002)


def test_of_a_fed_loop_more_helpers_are_as_those_that_there_are():
    found = forecasts(meter_of(5.0, 4.5, 0.4), fed(400.0, 2, bytes_each=1000, client_cpu_s=0.1), (1, 2, 20))
    assert [one.per_s for one in found] == pytest.approx([200, 400, 2000])
    assert [one.binds for one in found] == ["the helpers (1)", "the helpers (2)", "the training loop"]
    assert found[0].limits["this machine's cores (4)"] == pytest.approx(10_000)
    assert found[0].limits["the thread that receives"] == pytest.approx(10_000) and found[0].cores is None


def test_a_link_that_was_waited_for_bounds_any_number_of_helpers():
    # 100 MB came in 2 s of which all were waited for.
    found = forecasts(meter_of(2.0, 1.9, 0.1), fed(5000.0, 2, bytes_each=100_000, starved_s=2.0), (1, 8))
    assert [one.binds for one in found] == ["the link (50 MB/s)"] * 2 and found[1].per_s == pytest.approx(500)
    (faster,) = forecasts(meter_of(2.0, 1.9, 0.1), fed(5000.0, 2, bytes_each=100_000, starved_s=2.0), 1, link=1e9)
    assert faster.binds == "the helpers (1)"


@pytest.mark.parametrize("helpers,more", [(0, {}), (True, {}), (1.5, {}), ([], {}), ([1, -1], {}), (1, {"cores": 0}), (1, {"link": -3}), (1, {"cores": "many"})])
def test_questions_that_make_no_sense_are_refused(helpers, more):
    with pytest.raises((ValueError, TypeError)):
        forecasts(meter_of(3.0, 2.0, 0.5), alone(8.0), helpers, **more)
    with pytest.raises(ValueError, match="cores= is for a loader without a feed group"):
        forecasts(meter_of(3.0, 2.0, 0.5), fed(400.0, 2), 1, cores=2)


def test_what_was_not_measured_is_not_answered():
    with pytest.raises(RuntimeError, match="nothing has been measured yet"):
        forecasts(Meter(10), alone(8.0), 1)
    with pytest.raises(RuntimeError, match="has not been told yet"):
        forecasts(meter_of(3.0, 2.0, 0.5), Work(2), 1)
    with pytest.raises(RuntimeError, match="dispatcher has not told yet"):
        forecasts(meter_of(3.0, 2.0, 0.5), fed(0.0, 1), 1)


torch = pytest.importorskip("torch")


def quiet(dataset):
    """A loader without spare cores that some batches were taken of."""
    import stoker

    loader = stoker.DataLoader(dataset, batch_size=2, num_workers=1, spare_cores=0)
    for _ in loader:
        pass
    return loader


def test_explain_tells_of_helpers_once_something_is_measured():
    import stoker
    from stoker.data import loader_data_test as data

    loader = stoker.DataLoader(data.Spinning(60), batch_size=2, num_workers=1)
    assert loader.explain().forecasts == []
    with pytest.raises(RuntimeError, match="some batches were taken"):
        loader.explain(helpers=2)
    for _ in loader:
        pass
    told = loader.explain()
    assert [one.helpers for one in told.forecasts] == [1, 2, 4, 8] and "with feed helpers of 4 cores:" in str(told)
    (two,) = loader.explain(helpers=2, cores=0.1).forecasts
    assert two.binds == "the helpers (2) and spare cores" and 10 < two.limits[two.binds] < 2100  # 2 ms of CPU a sample at least
    (two,) = quiet(data.Spinning(60)).explain(helpers=2, cores=0.1).forecasts
    assert two.binds == "the helpers (2)" and 10 < two.per_s < 100.5
    assert told.to_dict()["forecasts"][1]["helpers"] == 2 and json.dumps(told.to_dict())
    with pytest.raises(NotImplementedError, match="not for iterable datasets"):
        stoker.DataLoader(data.Stream(4)).explain(helpers=1)


def test_one_is_told_in_the_singular():
    told = [str(one) for one in forecasts(meter_of(3.0, 2.0, 0.5), alone(8.0), (1, 2), cores=1)]
    assert "1 helper:" in told[0] and "2 helpers:" in told[1]
    explained = lambda cores: str(Explanation(True, "", forecasts=forecasts(meter_of(3.0, 2.0, 0.5), alone(8.0), 1, cores=cores)))
    assert "of 1 core:" in explained(1) and "of 2 cores:" in explained(2) and "of 0.5 cores:" in explained(0.5)


def test_who_asks_too_early_is_told_what_was_given():
    with pytest.raises(RuntimeError, match=r"explain\(cores=\) needs"):
        stoker.DataLoader([1, 2]).explain(cores=4)
    with pytest.raises(RuntimeError, match=r"explain\(helpers=, link=\) needs"):
        stoker.DataLoader([1, 2]).explain(helpers=1, link=1e9)
