# SPDX-License-Identifier: Apache-2.0
"""What do 10^9 bytes of batches (64 x 224 x 224 x 3, float32) cost from a feed worker to a client over loopback TCP?

transport_tcp.py says who is measured.
"""
import transport_tcp

NEEDS = transport_tcp.NEEDS
NEEDS_PICTURES = False
UNIT, SCALE = "s/GB", 1.0


def contestants(run):
    return transport_tcp.contestants(run, "float32")


def verdict(best):
    yield from transport_tcp.verdict(best, wanted=1.3, wanted_of_defaults=10)
