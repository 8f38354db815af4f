# SPDX-License-Identifier: Apache-2.0
"""Random parameters have torchvision's distributions: thousands of draws of ours beside thousands of its get_params().

Seeds are fixed, so each test gives the same verdict whenever it runs. Its bounds would be passed by chance once in
some ten thousand seeds.
"""

import json
import math

import numpy
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
from torchvision import transforms as v1
from torchvision.transforms import functional

from stoker import _native

DRAWS = 4000
WIDTH, HEIGHT = 90, 61


def ours(op):
    """What the op did to each of DRAWS samples of WIDTH x HEIGHT, or None."""
    size = {"op": "resize", "size": [HEIGHT, WIDTH]}
    plan = {
        "format": "stoker-plan/1", "kind": "native", "seed": 11, "output": "uint8",
        "source": {"kind": "files", "root": "/", "manifest": "0" * 64, "items": DRAWS},
        "ops": [{"op": "decode_rgb"}, size, op], "libraries": json.loads(_native.pipeline.native_libraries("13")),
    }
    parsed = _native.pipeline.Plan.parse(json.dumps(plan))
    drawn = [json.loads(parsed.parameters(p, p, WIDTH, HEIGHT))[2]["did"] for p in range(DRAWS)]
    return [did[0] if did else None for did in drawn]


def theirs(draw):
    torch.manual_seed(17)
    return [draw() for _ in range(DRAWS)]


def same_distribution(a, b):
    """Kolmogorov and Smirnov's test of two samples."""
    a, b = numpy.sort(numpy.asarray(a, float)), numpy.sort(numpy.asarray(b, float))
    points = numpy.concatenate([a, b])
    apart = abs(numpy.searchsorted(a, points, "right") / len(a) - numpy.searchsorted(b, points, "right") / len(b)).max()
    assert apart < 2.23 * math.sqrt(1 / len(a) + 1 / len(b)), apart


def same_counts(a, b):
    """The chi-square test of two samples of cells (rows of integers); rare cells are counted together."""
    cells, of = numpy.unique(numpy.concatenate([a, b]), axis=0, return_inverse=True)
    of = of.reshape(-1)
    counts = numpy.stack([numpy.bincount(x, minlength=len(cells)) for x in (of[: len(a)], of[len(a) :])]).astype(float)
    rare = counts.sum(0) < 20
    counts = numpy.concatenate([counts[:, ~rare], counts[:, rare].sum(1, keepdims=True)], 1)
    counts = counts[:, counts.sum(0) > 0]
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
    chi_square, free = ((counts - expected) ** 2 / expected).sum(), counts.shape[1] - 1
    assert free > 5 and chi_square < free + 4 * math.sqrt(2 * free), (chi_square, free)


def test_random_crop():
    drawn = ours({"op": "random_crop", "size": [58, 85], "padding": [4, 3, 4, 3]})
    padded = torch.zeros(3, HEIGHT + 6, WIDTH + 8)
    reference = theirs(lambda: v1.RandomCrop.get_params(padded, (58, 85)))
    a = numpy.array([(did["top"] + 3, did["left"] + 4) for did in drawn])
    b = numpy.array([(top, left) for top, left, _, _ in reference])
    assert a.min(0).tolist() == [0, 0] and a.max(0).tolist() == [9, 13]
    same_counts(a, b)


def test_random_affine():
    limits = {"degrees": [-40.0, 25.0], "translate": [0.2, 0.1], "scale": [0.7, 1.4], "shear": [-10.0, 12.0, -4.0, 6.0]}
    drawn = numpy.array([did["matrix"] for did in ours({"op": "random_affine", **limits})])

    def matrix():
        angle, translations, scale, shear = v1.RandomAffine.get_params(*limits.values(), [WIDTH, HEIGHT])
        return functional._get_inverse_affine_matrix([WIDTH * 0.5, HEIGHT * 0.5], angle, translations, scale, shear)

    reference = numpy.array(theirs(matrix))
    for a, b in zip(drawn.T, reference.T, strict=True):
        same_distribution(a, b)
    same_distribution(*(numpy.arctan2(m[:, 3], m[:, 0]) for m in (drawn, reference)))
    same_distribution(*(m[:, 0] * m[:, 4] - m[:, 1] * m[:, 3] for m in (drawn, reference)))


def test_random_perspective():
    drawn = ours({"op": "random_perspective", "p": 0.7, "distortion": 0.4})
    matrices = numpy.array([did["matrix"] for did in drawn if did])
    assert abs(len(matrices) / DRAWS - 0.7) < 4 * math.sqrt(0.21 / DRAWS)
    draw = v1.RandomPerspective.get_params
    reference = numpy.array(theirs(lambda: functional._get_perspective_coeffs(*draw(WIDTH, HEIGHT, 0.4))))
    for a, b in zip(matrices.T, reference.T, strict=True):
        same_distribution(a, b)
    # Where the corners come from says more than coefficients do, one by one.
    for corner in numpy.array([(0, 0), (WIDTH, 0), (WIDTH, HEIGHT), (0, HEIGHT)], float):
        for axis in range(2):
            same_distribution(_mapped(matrices, corner)[axis], _mapped(reference, corner)[axis])


def _mapped(matrices, point):
    x, y = point
    a, b, c, d, e, f, g, h = matrices.T
    w = g * x + h * y + 1
    return (a * x + b * y + c) / w, (d * x + e * y + f) / w


@pytest.mark.parametrize("scale, ratio", [([0.02, 0.33], [0.3, 3.3]), ([0.3, 0.9], [0.2, 0.4])])
def test_random_erasing(scale, ratio):
    """The second asks for boxes that often do not fit, so that tries are used up."""
    drawn = ours({"op": "random_erasing", "p": 1.0, "scale": scale, "ratio": ratio, "value": [0.0]})
    picture = torch.zeros(3, HEIGHT, WIDTH)
    reference = theirs(lambda: v1.RandomErasing.get_params(picture, scale, ratio, [0.0])[:4])
    a = numpy.array([(did["top"], did["left"], did["height"], did["width"]) for did in drawn if did])
    b = numpy.array([box for box in reference if box != (0, 0, HEIGHT, WIDTH)])
    assert abs(len(a) - len(b)) < 5 * math.sqrt(DRAWS / 2)
    for x, y in zip(a.T, b.T, strict=True):
        same_distribution(x, y)
    same_counts(a // 12, b // 12)
    assert numpy.all(a[:, 0] + a[:, 2] <= HEIGHT) and numpy.all(a[:, 1] + a[:, 3] <= WIDTH)
    happens = sum(did is not None for did in ours({"op": "random_erasing", "p": 0.25, "scale": [0.02, 0.1], "ratio": [0.5, 2.0], "value": [0.0]}))
    assert abs(happens / DRAWS - 0.25) < 4 * math.sqrt(0.1875 / DRAWS)
