# SPDX-License-Identifier: Apache-2.0
"""Some schedules of tests/feed_chaos.py; tools/check --all runs thousands, from other seeds each time."""

import pytest

import feed_chaos
from program import binary

SCHEDULES = 48


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    binary()
    return str(tmp_path_factory.mktemp("chaos"))


@pytest.fixture(scope="module")
def hits():
    return set()


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_the_stream_is_the_same_whatever_happens(seed, folder, hits):
    _, kinds, problem = feed_chaos.run_seed(seed, folder)
    assert not problem, problem
    hits.update(kinds)


def test_every_kind_of_fault_has_hit(hits):
    assert hits == set(feed_chaos.KINDS)
