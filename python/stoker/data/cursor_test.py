# SPDX-License-Identifier: Apache-2.0
"""A state whose numbers no loader writes is refused when it is loaded, whatever the loader."""

import itertools

import numpy
import pytest

import stoker

MAKERS = {
    "shuffled": lambda: stoker.DataLoader(range(10), batch_size=3, shuffle=True),
    "sequential": lambda: stoker.DataLoader(range(10), batch_size=3),
    "sampler": lambda: stoker.DataLoader(range(10), batch_size=2, sampler=[1, 2, 3, 4]),
    "batch sampler": lambda: stoker.DataLoader(range(10), batch_sampler=[[1, 2], [3, 4]]),
    "arrays": lambda: stoker.DataLoader(stoker.data.arrays(numpy.arange(10)), batch_size=3, shuffle=True),
    "pipe": lambda: stoker.data.range(10).shuffle(seed=1).batch(3).numpy(workers=0),
    "chain": lambda: stoker.data.range(10).shuffle(seed=1).repeat(3).batch(3).numpy(workers=0),
    "windows": lambda: stoker.data.range(10).filter(lambda i: i % 2).batch(3).numpy(workers=0),
}
NUMBERS = ("seed", "order_seed", "epoch", "batch", "samples", "rows")
WRONG = (-1, 2**64, 2**70, 1.5, True, None, "1")


@pytest.fixture(params=MAKERS)
def made(request):
    return MAKERS[request.param]


def state_of(made):
    loader = made()
    next(iter(loader))
    return loader.state_dict()


def test_numbers_that_are_none_are_named(made):
    state = state_of(made)
    for name in set(NUMBERS) & set(state):
        for value in WRONG:
            with pytest.raises(ValueError, match=f"^this state is damaged: {name} is "):
                made().load_state_dict({**state, name: value})


@pytest.mark.parametrize("finished", [False, True])
def test_an_epoch_is_loaded_and_run_or_refused(made, finished):
    """Positions of the epoch, and of the one after it, are below 2^63."""
    state = {**state_of(made), "batch": 0, "skipped": "", "finished": finished}
    if "rows" in state:
        state["rows"] = 0
    for epoch in (2**22, 2**23 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1):
        loader = made()
        try:
            loader.load_state_dict({**state, "epoch": epoch})
        except ValueError as error:
            assert str(error) == f"this state is damaged: epoch is {epoch}"
            assert epoch > 2**22
            continue
        assert epoch < 2**32
        assert len(list(itertools.islice(loader, 2))) == 2 and loader.state_dict()["epoch"] == epoch + finished
        list(loader)
