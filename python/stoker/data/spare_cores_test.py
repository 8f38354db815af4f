# SPDX-License-Identifier: Apache-2.0
import os

import pytest

import stoker
from stoker.data import spare_cores
from stoker.data.feed_stats import SpareStats


class Plain:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index


@pytest.fixture(autouse=True)
def by_default(monkeypatch):
    monkeypatch.delenv(spare_cores.VARIABLE, raising=False)


def options_of(native=False, **arguments):
    return spare_cores.options(stoker.DataLoader(Plain(), **arguments), native, lambda: "/bin/stoker")


def test_the_argument_counts_before_the_variable(monkeypatch):
    monkeypatch.delenv(spare_cores.VARIABLE, raising=False)
    assert spare_cores.wanted(None) is None and spare_cores.wanted(0) == 0 and spare_cores.wanted(1.5) == 1.5
    monkeypatch.setenv(spare_cores.VARIABLE, "0")
    assert spare_cores.wanted(None) == 0 and spare_cores.wanted(2) == 2
    monkeypatch.setenv(spare_cores.VARIABLE, "auto")
    assert spare_cores.wanted(None) is None


@pytest.mark.parametrize("given", [True, "1", [1]])
def test_what_is_no_number_of_cores_is_refused(given):
    with pytest.raises(TypeError, match="spare_cores is a number of cores"):
        stoker.DataLoader(Plain(), spare_cores=given)


@pytest.mark.parametrize("given", [-1, float("nan"), float("inf")])
def test_what_is_no_possible_number_of_cores_is_refused(given):
    with pytest.raises(ValueError, match="spare_cores is a number of cores from 0"):
        stoker.DataLoader(Plain(), spare_cores=given)


@pytest.mark.parametrize("told", ["many", "-1", "nan"])
def test_a_variable_that_is_no_number_is_refused_by_its_name(monkeypatch, told):
    monkeypatch.setenv(spare_cores.VARIABLE, told)
    for feed in ("", "tcp://127.0.0.1:1"):  # where the loader is made, with a feed group and without
        monkeypatch.setenv("STOKER_FEED", feed)
        with pytest.raises(ValueError, match="STOKER_SPARE_CORES"):
            stoker.DataLoader(Plain())
        with pytest.raises(ValueError, match="STOKER_SPARE_CORES"):
            stoker.data.range(4).numpy(workers=0)
    stoker.DataLoader(Plain(), spare_cores=1)  # the argument counts before it


def test_native_batches_have_one_process_with_a_thread_per_core(monkeypatch):
    monkeypatch.delenv(spare_cores.VARIABLE, raising=False)
    monkeypatch.setattr(spare_cores, "own_cores", lambda: 5.5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(8))
    told = options_of(native=True)
    (command,) = told["spare"]
    assert command[:4] == ["/bin/stoker", "feed-worker", "--threads", "6"]
    assert told["spare_cores"] == 5.5 and told["spare_measured"]
    assert options_of(native=True, spare_cores=0) == {}


def test_python_has_no_more_processes_than_workers_were_asked_for(monkeypatch):
    monkeypatch.setattr(spare_cores, "own_cores", lambda: 5.5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(8))
    assert [len(options_of(num_workers=count)["spare"]) for count in (0, 1, 4, 9)] == [1, 1, 4, 6]
    fixed = options_of(num_workers=4, spare_cores=2)
    assert len(fixed["spare"]) == 2 and not fixed["spare_measured"]


def test_there_are_no_more_than_the_cores_that_it_may_run_on(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3})
    for native in (True, False):
        assert options_of(native=native, num_workers=9, spare_cores=10**9)["spare_cores"] == 2
    assert options_of(native=True, spare_cores=10**9)["spare"][0][3] == "2"
    assert len(options_of(num_workers=9, spare_cores=10**9)["spare"]) == 2


def test_ranks_of_one_machine_share_its_cores(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    alone = spare_cores.own_cores()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert spare_cores.own_cores() == pytest.approx(alone / 4)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "none")
    assert spare_cores.own_cores() == alone


def test_the_line_says_what_they_made_and_what_they_do():
    assert "12 samples; 0.5 cores now" in SpareStats("part", "", 0.5, 12, 1.0).line()
    assert "3 samples; they step back, the trainer waits for cores" in SpareStats("short", "", 0.0, 3, 1.0).line()
    assert "they take no part: no program" in SpareStats("ended", "no program", 0.0, 0, 0.0).line()
