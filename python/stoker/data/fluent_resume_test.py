# SPDX-License-Identifier: Apache-2.0
"""Resuming pipes: at every batch, again and again, with another number of workers or ranks, whatever the pipe is made of."""

import itertools
import json
import random

import numpy
import pytest

import stoker
from stoker.data.fluent_test import own_cache, photos, same  # noqa: F401  (fixtures)


def noisy(i):
    return i, random.random()


def any_pipe(seed: int, pictures):
    """A pipe drawn by a seed, of every kind of step that a state must bring back."""
    draw = random.Random(seed)
    if draw.random() < 0.3:
        pipe = pictures.shuffle(seed).decode().random_resized_crop(8).horizontal_flip()
        if draw.random() < 0.4:
            pipe = pipe.map(lambda sample: (*sample, random.random()))
        if draw.random() < 0.4:
            pipe = pipe.repeat(2)
    else:
        pipe = stoker.data.range(draw.randint(1, 40))
        for _ in range(draw.randint(0, 3)):
            pipe = draw.choice([
                lambda p: p.shuffle(draw.randint(0, 9)), lambda p: p.take(draw.randint(1, 30)), lambda p: p.skip(draw.randint(0, 2)),
                lambda p: p.repeat(draw.randint(1, 3)),
            ])(pipe)  # fmt: skip
        pipe = pipe.map(noisy)
        kind = draw.random()
        if kind < 0.3:
            pipe = pipe.filter(lambda sample: sample[0] % draw_modulus != 0)
        elif kind < 0.5:
            pipe = pipe.flat_map(lambda sample: [(*sample, j) for j in range(sample[0] % 4)])
    return pipe.batch(draw.randint(1, 7), drop_last=draw.random() < 0.3)


draw_modulus = 3


def stream(loader, epochs: int) -> list:
    return [list(loader) for _ in range(epochs)]


@pytest.mark.parametrize("seed", range(48))
def test_a_state_at_every_batch_brings_back_the_rest(photos, seed):  # noqa: F811
    pipe = any_pipe(seed, stoker.data.image_folder(photos))
    expected = list(itertools.chain(*stream(pipe.numpy(workers=0), 2)))
    loader, at = pipe.numpy(workers=0), 0
    for _ in range(2):
        for batch in loader:
            assert same(batch, expected[at])
            at += 1
            state = json.loads(json.dumps(loader.state_dict()))
            assert len(json.dumps(state)) < 1024
            resumed = pipe.numpy(workers=0)
            resumed.load_state_dict(state)
            assert resumed.state_dict()["batch"] == state["batch"]
            rest = list(resumed)
            if at + len(rest) < len(expected):
                rest += list(resumed)
            assert same(rest, expected[at:])


@pytest.mark.parametrize("seed", range(100, 124))
def test_a_resume_of_a_resume_ends_with_the_digest_of_one_pass(photos, seed, monkeypatch):  # noqa: F811
    monkeypatch.setenv("STOKER_AUDIT", "1")
    draw = random.Random(seed)
    pipe = any_pipe(seed, stoker.data.image_folder(photos))
    whole = pipe.numpy(workers=0)
    expected = list(whole)
    digest, got = whole.state_dict()["digest"], []
    state = pipe.numpy(workers=0).state_dict()
    while not state.get("finished"):
        loader = pipe.numpy(workers=0)
        loader.load_state_dict(state)
        iterator = iter(loader)
        got += list(itertools.islice(iterator, draw.randint(1, 3)))
        if len(got) == len(expected):
            assert next(iterator, None) is None
        state = json.loads(json.dumps(loader.state_dict()))
    assert same(got, expected) and state["digest"] == digest


@pytest.mark.parametrize("kind", ["native", "python", "filtered"])
def test_another_number_of_workers_goes_on(photos, kind):  # noqa: F811
    source = stoker.data.image_folder(photos).shuffle(4)
    pipe = {
        "native": source.decode().random_resized_crop(8).batch(3),
        "python": source.decode().random_resized_crop(8).map(lambda s: (*s, random.random())).batch(3),
        "filtered": stoker.data.range(40).shuffle(1).map(noisy).filter(lambda s: s[0] % 3).batch(4),
    }[kind]
    expected, got, state = list(pipe.numpy(workers=0)), [], pipe.numpy(workers=0).state_dict()
    for workers in (2, 0, 1, 3):
        loader = pipe.numpy(workers=workers)
        loader.load_state_dict(state)
        got += list(itertools.islice(iter(loader), 1 if workers != 3 else None))
        state = loader.state_dict()
        loader.close()
    assert same(got, expected)


def test_other_ranks_go_on_with_the_same_batches():
    pipe = stoker.data.range(40).shuffle(1).batch(8)
    expected = [batch.tolist() for batch in pipe.numpy(workers=0)]
    loaders = [pipe.shard(rank, 2).numpy(workers=0) for rank in range(2)]
    iterators = [iter(loader) for loader in loaders]
    assert numpy.concatenate([next(iterator) for iterator in iterators]).tolist() == expected[0]
    resumed = [pipe.shard(rank, 3).numpy(workers=0) for rank in range(3)]
    for loader in resumed:
        loader.load_state_dict(loaders[1].state_dict())
    rest = [numpy.concatenate(parts).tolist() for parts in zip(*resumed, strict=True)]
    assert rest == expected[1:]


def test_states_of_other_pipes_are_refused():
    loader = stoker.data.range(10).shuffle(1).batch(2).numpy(workers=0)
    next(iter(loader))
    state = loader.state_dict()
    for other in (stoker.data.range(11).shuffle(1).batch(2), stoker.data.range(10).shuffle(1).batch(3), stoker.data.range(10).batch(2)):
        with pytest.raises(ValueError, match="another loader"):
            other.numpy(workers=0).load_state_dict(state)
    with pytest.raises(ValueError, match="another plan"):
        stoker.data.range(10).map(str).shuffle(1).batch(2).numpy(workers=0).load_state_dict(state)
    with pytest.raises(ValueError, match="another seed"):
        stoker.data.range(10).shuffle(2).batch(2).numpy(workers=0).load_state_dict(state)


def test_resuming_far_in_is_as_quick_as_at_the_start():
    import time

    loader = stoker.data.range(10**9).shuffle(1).batch(100).numpy(workers=0)
    next(iter(loader))
    state = {**loader.state_dict(), "batch": 10**6}
    started = time.thread_time()
    loader.load_state_dict(state)
    next(iter(loader))
    assert time.thread_time() - started < 1
