# SPDX-License-Identifier: Apache-2.0
"""What engines have in common that make batches ahead and serve one iterator after the other."""

import weakref

WINDOW_BYTES = 256 << 20
SLICE_S = 0.25  # how long a wait goes without looking at signals


class KeptEngine:
    """num_workers hands. `release` keeps it for the next iterator where `keeps`; else it ends."""

    eager = True
    over = False

    def __init__(self, recipe, loader, plan, meter, convert, keeps: bool):
        self.meter = meter
        self.plan = plan
        self.keeps = keeps
        self.busy = True
        self.taken = 0
        self.use = 0  # which iterator has it: numbers of those that came one after the other
        self._given_up = None  # the use whose iterator was closed while a thread of it waits here
        self._submitted = None  # the first position of what was pushed last, by this iterator
        self._recipe = recipe
        self._loader_of = weakref.ref(loader)  # which owns us
        self._hands = loader.num_workers
        self._convert = convert

    @property
    def _loader(self):
        return self._loader_of()

    def acquire(self, convert) -> None:
        """For another iterator."""
        self.busy = True
        self.use += 1
        self._submitted = None
        self._convert = convert

    def window(self) -> int:
        return (self._loader.prefetch_factor or 2) * self._hands

    def give_up(self, use: int) -> None:
        self._given_up = use  # which may be over: the next one's is another
