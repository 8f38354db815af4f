# SPDX-License-Identifier: Apache-2.0
"""Every op of a pipe names itself and the argument that it cannot use, when it is called."""

import inspect

import numpy
import pytest

import stoker
from stoker.data.fluent_ops import PictureOps

PIPE = stoker.data.range(4)
SOUND = {  # what an op needs to be called at all
    "random_resized_crop": {"size": 8},
    "resize": {"size": 8},
    "center_crop": {"size": 8},
    "random_crop": {"size": 8},
    "pad": {"padding": 1},
    "random_rotation": {"degrees": 3},
    "random_affine": {"degrees": 3},
    "adjust": {"what": "hue", "value": 0.1},
    "gaussian_blur": {"kernel": 3},
    "normalize": {"mean": 0.5, "std": 0.5},
    "random_apply": {"ops": lambda p: p.horizontal_flip()},
    "random_choice": {"branches": [lambda p: p.horizontal_flip()]},
    "random_order": {"branches": [lambda p: p.horizontal_flip()]},
}
FLAGS = ("pad_if_needed", "expand")  # taken for their truth
OPS = [(name, method) for name, method in vars(PictureOps).items() if not name.startswith("_")]
ARGUMENTS = [(name, one) for name, method in OPS for one in inspect.signature(method).parameters if one not in ("self", *FLAGS)]


@pytest.mark.parametrize("name", [name for name, _ in OPS])
def test_sound_arguments_are_taken(name):
    assert str(getattr(PIPE, name)(**SOUND.get(name, {})).stages[-1]).startswith({"decode": "decode_rgb"}.get(name, name))


@pytest.mark.parametrize("bad", ["x", object(), {"a": 1}, float("nan"), ["x", "y"]], ids=repr)
@pytest.mark.parametrize("name, argument", ARGUMENTS)
def test_what_is_wrong_is_told_with_op_and_argument(name, argument, bad):
    with pytest.raises((ValueError, TypeError)) as told:
        getattr(PIPE, name)(**{**SOUND.get(name, {}), argument: bad})
    text = str(told.value)
    assert text.startswith(f"{name}(): ") and argument in text, text


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda p: p.color_jitter(brightness="x"), r"color_jitter\(\): brightness should be a number, or \(from, to\), but got 'x'"),
        (lambda p: p.horizontal_flip(p=2), r"horizontal_flip\(\): p: must be in \[0.0, 1.0\]; given was p=2.0"),
        (lambda p: p.pad((1, 2, 3)), r"pad\(\): padding should be a whole number, \(x, y\) or .*, but got \(1, 2, 3\)"),
        (lambda p: p.pad(()), r"pad\(\): padding should be"),
        (lambda p: p.center_crop(0), r"center_crop\(\): size should be a whole number from 1 on, but got 0"),
        (lambda p: p.resize(), r"resize\(\): give size="),
        (lambda p: p.random_choice([]), r"random_choice\(\): branches should be a list of functions of a pipe, but got \[\]"),
        (lambda p: p.random_apply(lambda q: q.map(str)), r"random_apply\(\): ops should add native ops"),
        (lambda p: p.random_apply(lambda q: None), r"random_apply\(\): ops should add native ops .* gave None"),
        (lambda p: p.random_apply(lambda q: q.color_jitter(hue=3)), r"color_jitter\(\): hue: must be .*\[-0.5, 0.5\]"),
    ],
)
def test_ranges_and_counts_too(call, text):
    with pytest.raises((ValueError, TypeError), match=text):
        call(PIPE)


@pytest.mark.parametrize(
    "method, arguments",
    [
        ("shuffle", {"seed": "x"}),
        ("shuffle", {"block": 0}),
        ("take", {"count": 1.5}),
        ("skip", {"count": -1}),
        ("repeat", {"times": 0}),
        ("seed", {"seed": "x"}),
        ("cache", {"place": "x"}),
        ("cache", {"budget_bytes": 0}),
        ("shard", {"rank": 2, "world": 2}),
        ("shard", {"world": "x", "rank": 0}),
        ("batch", {"size": 0}),
        ("batch", {"collate": "x", "size": 1}),
        ("map_batches", {"size": 0, "function": str}),
        ("prefetch", {"batches": 0}),
        ("filter", {"how": "x", "function": str}),
    ],
)
def test_so_do_the_other_methods(method, arguments):
    with pytest.raises((ValueError, TypeError), match=rf"^{method}\(\): {next(iter(arguments))} should be .*, but got"):
        getattr(PIPE, method)(**arguments)


def test_numbers_of_numpy_are_numbers():
    one = numpy.float32(0.5)
    assert PIPE.color_jitter(one, hue=one).stages == PIPE.color_jitter(0.5, hue=0.5).stages
    assert PIPE.normalize(numpy.array([0.5] * 3), one).stages[-1].fields == {"op": "normalize", "mean": [0.5] * 3, "std": [0.5]}
    assert PIPE.pad(numpy.int64(2)).stages == PIPE.pad(2).stages == PIPE.pad((2, 2)).stages
