# SPDX-License-Identifier: Apache-2.0
"""Where a loader stands, as a small dictionary for a training checkpoint. docs/formats/cursor.md is its format."""

import re
from dataclasses import dataclass

from stoker.data.epochs import EpochSeeds

FORMAT = "stoker-cursor/1"
SEQUENTIAL, FULL, EXPLICIT = "sequential/1", "feistel8-philox/1", "explicit/1"
_WORD = 1 << 64  # numbers are below this
_EPOCHS = 1 << 32  # epochs are, and so many that positions of the epoch after it are below 2^63
_POSITIONS = 1 << 63
EXPLICIT_STRIDE = 1 << 40  # positions of an explicit order: epoch * 2^40 + index
_FIXED = ("items", "batch_size", "drop_last", "order")


@dataclass
class Cursor:
    """The next batch to hand over. `finished`: the epoch has been read to its end, the next iter() begins another."""

    seeds: EpochSeeds
    batch: int = 0
    finished: bool = False
    samples: int = 0
    digest: str = "0" * 32
    skipped: str = ""  # explicit orders: hash of the indices before `batch`

    def to_state(self, shape: dict, plan_hash: str, plan_name: str, libraries: dict) -> dict:
        return {
            "format": FORMAT,
            "plan": plan_hash,
            "name": plan_name,
            "libraries": libraries,
            **shape,
            "seed": self.seeds.plan,
            "order_seed": self.seeds.order,
            "epoch": self.seeds.epoch,
            "batch": self.batch,
            "finished": self.finished,
            "samples": self.samples,
            "digest": self.digest,
            "skipped": self.skipped,
        }


def check_is_state(state) -> None:
    """Refuses what is taken for a state by mistake: a missing one would silently start over."""
    if state is None or state == {}:
        raise ValueError(f"{state!r} is no loader's state: is it missing in the checkpoint? To start over, do not load one")
    if isinstance(state, (str, bytes)):
        raise ValueError("a text is no loader's state: json.loads() it first")
    if not isinstance(state, dict):
        raise ValueError(f"a loader's state is a dict, not {type(state).__name__}")


def from_state(state: dict, shape: dict) -> Cursor:
    """Checks that the state belongs to a loader of this shape; names every difference."""
    if state.get("format") != FORMAT:
        raise ValueError(f"not a loader's state: its format is {state.get('format')!r}, not {FORMAT!r}")
    different = [f"{key} is {shape[key]!r}, was {state.get(key)!r}" for key in _FIXED if state.get(key) != shape[key]]
    if different:
        raise ValueError("this state is of another loader: " + "; ".join(different))
    stride = EXPLICIT_STRIDE if shape["order"] == EXPLICIT else max(shape["items"] or 0, 1)
    epochs = max(min(_EPOCHS, _POSITIONS // stride - 1), 1)
    check_fields(state, seed=_WORD, order_seed=_WORD, epoch=epochs, batch=_WORD, finished=None, samples=_WORD)
    if not re.fullmatch("[0-9a-f]{32}", str(state.get("digest"))) or not isinstance(state.get("skipped"), str):
        raise ValueError("this state is damaged: digest or skipped is not what a loader writes")
    if not all(isinstance(state.get(name), str) for name in ("plan", "name")) or not isinstance(state.get("libraries"), dict):
        raise ValueError("this state is damaged: plan, name or libraries is missing")
    most = -(-shape["items"] // (shape["batch_size"] or 1)) if shape["items"] is not None and shape["order"] != EXPLICIT else _WORD
    if state["batch"] > most:
        raise ValueError(f"this state is damaged: batch {state['batch']} of {most}")
    seeds = EpochSeeds(state["seed"], state["order_seed"], state["epoch"])
    return Cursor(seeds, state["batch"], state["finished"], state["samples"], state["digest"], state["skipped"])


def check_fields(state: dict, **limits) -> None:
    """Each field is there: a bool where the limit is None, else a whole number from 0 to below the limit."""
    for name, limit in limits.items():
        value = state.get(name)
        if limit is None:
            sound = isinstance(value, bool)
        else:
            sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < limit
        if not sound:
            raise ValueError(f"this state is damaged: {name} is {value!r}")
