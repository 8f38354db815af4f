# SPDX-License-Identifier: Apache-2.0
"""A dataset that knows nothing of torch, for tests that must not import it."""

import numpy


class Plain:
    def __len__(self):
        return 10

    def __getitem__(self, i):
        return numpy.full((3,), i), i
