# SPDX-License-Identifier: Apache-2.0
"""Random numbers of Python code, as a function of the plan's seed and the sample's position.

A worker seeds `random`, `numpy.random` and torch before every sample (before every unit, for datasets that fetch a
whole batch at once), so what a dataset draws does not depend on which worker draws it, nor on how many there are.
docs/formats/unit.md says how the seeds are derived.
"""

import hashlib
import random
import struct
import sys
from contextlib import contextmanager

_PERSON = b"stoker-seed/1"
_U64 = (1 << 64) - 1


def seeds_at(seed: int, position: int):
    """(seed of random, four words for NumPy, seed of torch) of the sample at `position`."""
    raw = hashlib.blake2b(struct.pack("<QQ", seed & _U64, position & _U64), digest_size=40, person=_PERSON).digest()
    words = struct.unpack_from("<4I", raw, 16)
    return int.from_bytes(raw[:16], "little"), words, int.from_bytes(raw[32:], "little") >> 1


def seed_generators(seed: int, position: int) -> None:
    """Seeds the global generators of every library that is loaded."""
    of_random, of_numpy, of_torch = seeds_at(seed, position)
    random.seed(of_random)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(of_numpy)
    torch = sys.modules.get("torch")
    if torch is not None:
        # The CPU generator alone: torch.manual_seed would queue a call per device until one is initialised.
        torch.default_generator.manual_seed(of_torch)


@contextmanager
def kept_generators():
    """Gives the global generators back as they were: for samples made on the training process's own thread."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    of_random = random.getstate()
    of_numpy = numpy.random.get_state() if numpy is not None else None
    of_torch = torch.default_generator.get_state() if torch is not None else None
    try:
        yield
    finally:
        random.setstate(of_random)
        if of_numpy is not None:
            numpy.random.set_state(of_numpy)
        if of_torch is not None:
            torch.default_generator.set_state(of_torch)
