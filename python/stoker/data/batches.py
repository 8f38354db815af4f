# SPDX-License-Identifier: Apache-2.0
"""Transforms of whole batches, such as torchvision's MixUp and CutMix, behind a loader whose samples stay native.

    loader = stoker.DataLoader(dataset, 64, collate_fn=stoker.data.batch_transform(v2.MixUp(num_classes=10)))

As a plain `collate_fn` they would be Python that only Python workers can run. Here the samples are made and stacked as they
would be without, and the transform runs on the training process when the batch is handed over. Its random numbers are a
function of the plan's seed and the position of the batch's first sample: the same with any workers, and after a resume.
"""

from contextlib import contextmanager

from stoker.data import seeding

_BATCHES = 1 << 63  # positions of samples end below: batches draw other numbers than any sample


class BatchTransform:
    """What batch_transform() makes. Called as a collate_fn elsewhere (torch's loader), it stacks and transforms."""

    def __init__(self, transform):
        self.transform = transform

    def __call__(self, samples):
        from torch.utils.data import default_collate

        return self.transform(*default_collate(samples))

    def __repr__(self):
        return f"batch_transform({self.transform!r})"

    def apply(self, batch, seed: int, first: int):
        """`batch`: what the default collate makes, a list of leaves. `first`: position of its first sample."""
        with _seeded(seed, first):
            return self.transform(*batch)


def batch_transform(transform) -> BatchTransform:
    """For `collate_fn=`: `transform(images, labels)` of each stacked batch, once, on the training process.

    It must return new tensors and leave those it is given as they are.
    """
    if not callable(transform):
        raise TypeError(f"a batch's transform is called with its leaves (images, labels), and {transform!r} cannot be called")
    return BatchTransform(transform)


@contextmanager
def _seeded(seed: int, first: int):
    with seeding.kept_generators():
        seeding.seed_generators(seed, first | _BATCHES)
        yield
