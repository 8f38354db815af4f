# SPDX-License-Identifier: Apache-2.0
"""Waiting for what another process will do."""

import time


def wait_until(holds, otherwise=lambda: "waited in vain", seconds=120):
    """The first true answer of holds(), asked until then; else fails with what otherwise() says."""
    deadline = time.monotonic() + seconds
    while not (answer := holds()):
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.01)
    return answer
