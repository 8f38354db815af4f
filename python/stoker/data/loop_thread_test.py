# SPDX-License-Identifier: Apache-2.0
"""Time that a training loop is blocked is told apart from time in which it computes or waits for cores. No times are asserted:
the clocks are given."""

import threading
import time

import pytest

from stoker.data.loop_thread import LoopThread


class Clocks:
    def __init__(self, monkeypatch):
        self.cpu_s = self.delayed_s = 0.0
        monkeypatch.setattr("stoker.data.loop_thread.time.thread_time", lambda: self.cpu_s)
        monkeypatch.setattr("stoker.data.loop_thread._Delay.read_s", lambda _: self.delayed_s)


@pytest.fixture
def clocks(monkeypatch):
    return Clocks(monkeypatch)


def test_what_is_neither_cpu_nor_waiting_for_a_core_is_blocked(clocks):
    loop = LoopThread()
    loop.entered(0.0)
    loop.handed_over(1.0, True)
    clocks.cpu_s, clocks.delayed_s = 0.2, 0.3
    loop.entered(2.0)  # after a second: 0.2 CPU, 0.3 in the queue
    clocks.cpu_s, clocks.delayed_s = 0.3, 0.9
    loop.entered(2.7)  # again, after a timeout within next()
    loop.handed_over(3.0, False)
    assert loop.blocked_s == pytest.approx(0.5) and loop.cpu_s == pytest.approx(0.3)
    loop.entered(9.0)
    loop.handed_over(10.0, True)  # the first of the next epoch ends no step
    assert loop.blocked_s == pytest.approx(0.5) and loop.cpu_s == pytest.approx(0.3)


def test_a_step_that_another_thread_began_is_left_out(clocks):
    loop = LoopThread()
    held = threading.Barrier(2)
    other = threading.Thread(target=lambda: (loop.handed_over(1.0, True), held.wait(), held.wait()))
    other.start()
    held.wait()
    loop.entered(5.0)
    loop.handed_over(6.0, False)
    held.wait()
    other.join()
    assert (loop.blocked_s, loop.cpu_s) == (0.0, 0.0)
    loop.entered(7.0)
    loop.handed_over(8.0, False)
    assert loop.blocked_s == pytest.approx(1.0)


def refused(*_):
    raise PermissionError


# "0 0 0" is said for every thread by kernels that keep no such account.
@pytest.mark.parametrize("what, by", [("open", refused), ("pread", refused), ("pread", lambda *_: b"0 0 0\n")], ids=["no file", "no bytes", "zeros"])
def test_where_the_kernel_does_not_tell_nothing_counts_as_blocked(what, by, monkeypatch):
    monkeypatch.setattr(f"stoker.data.loop_thread.os.{what}", by)
    loop = LoopThread()
    loop.handed_over(time.monotonic(), True)
    time.sleep(0.01)
    loop.entered(time.monotonic())
    loop.handed_over(time.monotonic(), False)
    assert loop.blocked_s == 0.0


@pytest.mark.parametrize("told", [(0.5, None), (None, 0.5)])
def test_a_step_of_which_the_kernel_tells_one_end_is_not_known_either(clocks, told):
    loop = LoopThread()
    clocks.delayed_s = told[0]
    loop.handed_over(1.0, True)
    clocks.delayed_s = told[1]
    loop.entered(2.0)
    loop.handed_over(3.0, False)
    assert loop.blocked_s == 0.0
