# SPDX-License-Identifier: Apache-2.0
"""The last ops on batches, beside the native row."""

import numpy
import pytest

import stoker
from stoker.data.fluent_test import MEAN, STD, all_of, own_cache, photos, same  # noqa: F401  (fixtures)

TAILS = {
    "v1": lambda p: p.horizontal_flip().vertical_flip(0.3).to_float("v1").normalize(MEAN, STD),
    "v2": lambda p: p.horizontal_flip(0.7).to_float("v2").normalize(MEAN, STD),
    "unscaled": lambda p: p.to_float("unscaled"),
    "flips": lambda p: p.vertical_flip().horizontal_flip(),
}


@pytest.mark.parametrize("tail", TAILS)
def test_bits_and_draws_are_those_of_the_native_ops(photos, tail):  # noqa: F811
    torch = pytest.importorskip("torch")
    pipe = TAILS[tail](stoker.data.image_folder(photos).shuffle(9).decode().random_resized_crop(16))
    exact, left = pipe.batch(4), pipe.on_device().batch(4)
    assert left.explain().native and left.explain().plan["output"] == "uint8"
    for (x, y), (u, v), (images, labels) in zip(all_of(exact), all_of(left), left.torch(device="cpu", workers=0), strict=True):
        assert same(x, u) and same(y, v)
        # The stated tolerance; on a CPU the bits are equal.
        torch.testing.assert_close(images, torch.from_numpy(x), rtol=1e-6, atol=0)
        assert images.numpy().tobytes() == x.tobytes() and labels.tolist() == y.tolist()


def test_only_the_named_ops_go_to_the_device(photos):  # noqa: F811
    pipe = TAILS["v2"](stoker.data.image_folder(photos).decode().random_resized_crop(16))
    left = pipe.on_device("normalize").batch(4)
    assert [op["op"] for op in left.explain().plan["ops"]] == ["decode_rgb", "random_resized_crop", "horizontal_flip", "to_float"]
    assert same(all_of(left), all_of(pipe.batch(4)))


def test_epochs_draw_anew_and_shards_alike(photos):  # noqa: F811
    pipe = stoker.data.image_folder(photos).decode().resize((16, 16)).horizontal_flip().on_device().batch(13)
    loader = pipe.numpy(workers=0)
    first, second = (next(iter(loader))[0] for _ in range(2))
    assert not numpy.array_equal(first, second)
    assert same(numpy.concatenate([next(iter(pipe.shard(rank, 3).numpy(workers=0)))[0] for rank in range(3)]), first)
