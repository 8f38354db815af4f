# SPDX-License-Identifier: Apache-2.0
"""The three published jobs of mixed machines, made small: machines, batch, and what is done to a picture.

Pictures are random bytes in memory, as in two of the published examples. `accelerator_ms` is not here: it depends on the machine that
measures (price_performance.py).
"""
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    name: str  # vCPUs of the machine with the accelerator + of the helpers
    trainer: str  # instance type
    helper: str
    helpers: int
    cores: tuple[float, float]  # of the trainer, of each helper
    side: int  # pictures are [side, side, 3]
    batch: int
    blurs: int  # GaussianBlur(11), each with a sigma of its own
    dilate: bool = False
    flip: bool = False


KINDS = {
    kind.name: kind
    for kind in (
        # PyTorch, MNIST and heavy preprocessing
        Kind("8+36", "ml.p3.2xlarge", "ml.c5.9xlarge", 1, (8 * 0.04, 36 * 0.04), 28, 512, 1),
        # Ray, ten blurs of 224 x 224
        Kind("4+16", "ml.g5.xlarge", "ml.c5.4xlarge", 1, (4 * 0.088, 16 * 0.088), 224, 16, 10),
        # TensorFlow, ResNet50 behind dilation, blur and augmentation of 32 x 32
        Kind("96+144", "ml.p4d.24xlarge", "ml.c5.18xlarge", 2, (96 * 0.0075, 72 * 0.0075), 32, 512, 1, dilate=True, flip=True),
    )
}
PICTURES = 4096  # of 224 x 224: 64, over and over


def pictures(kind: Kind):
    """(uint8 [N, side, side, 3], int64 [N])"""
    import numpy

    count = PICTURES if kind.side < 100 else 64
    draw = numpy.random.default_rng(0)
    images = draw.integers(0, 256, (count, kind.side, kind.side, 3), dtype=numpy.uint8)
    return images, numpy.arange(count, dtype=numpy.int64) % 10
