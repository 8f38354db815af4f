# SPDX-License-Identifier: Apache-2.0
"""Readers written in Python, given bytes that were changed at random: each answers with data or with an error of damage.

For as many changes as STOKER_DAMAGES says (`make check-all`: 5000); the seed of each is printed when it fails.
"""

import json
import os
import random

import numpy
import pytest

import stoker
from stoker.data import units
from stoker.data.containers import ContainerError
from stoker.data.containers_test import write_mds

DAMAGES = int(os.environ.get("STOKER_DAMAGES", "300"))
pytest.importorskip("PIL.Image")


def damaged(data: bytes, seed: int) -> bytes:
    draw, changed = random.Random(seed), bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 5))):
        at = draw.randrange(len(changed))
        kind = draw.randrange(4)
        if kind == 0:
            changed[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            changed[at : at + 4] = draw.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, draw.getrandbits(32))).to_bytes(4, "little")
        elif kind == 2:
            del changed[at:]
        else:
            changed[at:at] = bytes(draw.randrange(1, 9))
        if not changed:
            break
    return bytes(changed)


@pytest.fixture(scope="module")
def mds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mds") / "mds"
    write_mds(folder, [(bytes([65 + number]) * (3 + number), number) for number in range(5)])
    return folder


@pytest.mark.parametrize("name", ["shard.00000.mds", "index.json"])
def test_mds(mds, tmp_path, name):
    for file in mds.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    whole = (mds / name).read_bytes()
    for seed in range(DAMAGES):
        (tmp_path / name).write_bytes(damaged(whole, seed))
        for image in (None, "image"):
            try:
                source = stoker.data.mds(tmp_path, image=image)
                for number in range(min(len(source), 9)):
                    source[number]
            except (ContainerError, ValueError, FileNotFoundError):
                pass
            except Exception as error:
                pytest.fail(f"seed {seed}, image {image}: {type(error).__name__}: {error}")


def test_samples_in_a_store_are_taken_only_whole(tmp_path):
    """A sample store gives back what was put or nothing, whatever became of its file."""
    from stoker.data.sample_store import Store

    put = {item: numpy.arange(item, item + 20) for item in range(4)}
    store = Store(str(tmp_path / "whole"), 4, 1 << 20)
    for item, sample in put.items():
        store.put(item, sample)
    whole = (tmp_path / "whole").read_bytes()
    for seed in range(DAMAGES):
        path = tmp_path / "damaged"
        path.write_bytes(damaged(whole, seed))
        again = Store(str(path), 4, 1 << 20)
        for item, sample in put.items():
            found = again.get(item)
            assert found is None or numpy.array_equal(found[0], sample), f"seed {seed}"
        again.put(0, put[0])


def test_cursors():
    loader = stoker.DataLoader(list(range(20)), batch_size=2)
    iterator = iter(loader)
    next(iterator)
    whole = json.dumps(iterator.state_dict()).encode()
    for seed in range(DAMAGES):
        try:
            state = json.loads(damaged(whole, seed))
        except ValueError:
            continue
        other = stoker.DataLoader(list(range(20)), batch_size=2)
        try:
            other.load_state_dict(state)
            list(other)
        except ValueError:
            pass
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}; {state}")


def test_units_are_only_read_behind_a_hash():
    # A unit holds a pickle: whoever decodes one has checked where it comes from. What is not even one is refused.
    encoded = units.encode([numpy.arange(3)])
    data = bytearray(encoded.size)
    encoded.write_to(memoryview(data))
    with pytest.raises(ValueError):
        units.decode(b"x" + bytes(data)[1:])
