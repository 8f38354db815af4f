# SPDX-License-Identifier: Apache-2.0
"""RandomApply, RandomChoice and RandomOrder of torchvision as containers of a plan.

All that is in one must be ops of the same place in a plan, and leave the same kind of sample whatever is chosen.
"""

from stoker.data.lowering_values import NotExact, flatten, probability


def random_apply(ops, t) -> None:
    _place(ops, [t.transforms], lambda branches: {"op": "random_apply", "p": probability(t.p), "ops": branches[0]})


def random_choice(ops, t) -> None:
    weights = [1.0] * len(t.transforms) if t.p is None else [float(x) for x in t.p]
    op = {"op": "random_choice", "weights": weights}
    _place(ops, [[inner] for inner in t.transforms], lambda branches: {**op, "branches": branches})


def random_order(ops, t) -> None:
    _place(ops, [[inner] for inner in t.transforms], lambda branches: {"op": "random_order", "branches": branches})


def _place(ops, lists, make) -> None:
    """Lowers each list of transforms by itself."""
    branches, is_late = [], set()
    for transforms in lists:
        inner = ops.inside()
        for transform in transforms:
            for leaf in flatten(transform):
                try:
                    inner.add(leaf)
                except NotExact as reason:
                    raise NotExact(f"{type(leaf).__name__} in it: {reason}") from None
        if inner.kind() != ops.kind():
            raise NotExact("a conversion in it may or may not happen")
        if inner.early and inner.late:
            raise NotExact("it mixes ops on pictures with ops on tensors")
        if inner.early or inner.late:
            is_late.add(bool(inner.late))
        branches.append(inner.early + inner.late)
    if len(is_late) > 1:
        raise NotExact("it mixes ops on pictures with ops on tensors")
    if is_late:
        ops.place(make(branches), is_late == {True})
