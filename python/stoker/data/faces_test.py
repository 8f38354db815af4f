# SPDX-License-Identifier: Apache-2.0
"""Every face gives the bytes of the others. tensorflow and jax: `make test-tf`, which has environments for them."""

import random

import numpy
import pytest

import stoker
from stoker.data.fluent_test import MEAN, STD, own_cache, photos  # noqa: F401  (fixtures)


def drawn(sample):
    return {"image": sample[0], "label": sample[1], "noise": numpy.float32(random.random()), "name": f"class {sample[1]}"}


def pipes(root: str) -> dict:
    native = stoker.data.image_folder(root).shuffle(3).decode().random_resized_crop(16).horizontal_flip().normalize(MEAN, STD)
    return {
        "native": native.batch(4),
        "native, one size": native.batch(4, drop_last=True),
        "on device": native.on_device().batch(4),
        "dicts": native.map(drawn).batch(4),
        "single": native,
        "filtered": native.filter(lambda sample: sample[1] != 1).batch(3),
    }


def leaves(batch) -> list:
    """Bytes of every leaf, whatever holds it."""
    if isinstance(batch, dict):
        return [(key, leaf) for key in sorted(batch) for leaf in leaves(batch[key])]
    if isinstance(batch, (list, tuple)) and not (batch and isinstance(batch[0], (str, bytes))):
        return [leaf for part in batch for leaf in leaves(part)]
    if isinstance(batch, (list, tuple)):
        return [[text.decode() if isinstance(text, bytes) else text for text in batch]]
    array = numpy.asarray(batch)
    if array.dtype.kind in "OSU":
        return [[text.decode() if isinstance(text, bytes) else text for text in array.reshape(-1).tolist()]]
    return [(array.dtype.str, array.shape, array.tobytes())]


def of_numpy(pipe, workers=0):
    return [leaves(batch) for batch in pipe.numpy(workers=workers)]


KINDS = ["native", "native, one size", "on device", "dicts", "single", "filtered"]


@pytest.mark.parametrize("kind", KINDS)
def test_torch_is_numpy(photos, kind):  # noqa: F811
    torch = pytest.importorskip("torch")
    pipe = pipes(photos)[kind]
    for device in (None, "cpu"):
        batches = list(pipe.torch(device=device, workers=0))
        assert [leaves(batch) for batch in batches] == of_numpy(pipe)
    first = batches[0]["image"] if kind == "dicts" else batches[0][0]
    assert isinstance(first, torch.Tensor)


@pytest.mark.parametrize("kind", KINDS)
def test_jax_is_numpy(photos, kind):  # noqa: F811
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    pipe = pipes(photos)[kind]
    batches = list(pipe.jax(workers=0))
    assert [leaves(batch) for batch in batches] == of_numpy(pipe)
    assert isinstance(batches[0]["image"] if kind == "dicts" else batches[0][0], jax.Array)


@pytest.mark.parametrize("kind", KINDS)
def test_tensorflow_is_numpy(photos, kind):  # noqa: F811
    tf = pytest.importorskip("tensorflow")
    pipe = pipes(photos)[kind]
    dataset = pipe.tensorflow(workers=0)
    assert isinstance(dataset, tf.data.Dataset)
    assert [leaves(batch) for batch in dataset.as_numpy_iterator()] == of_numpy(pipe)
    image = dataset.element_spec["image"] if kind == "dicts" else dataset.element_spec[0]
    rows = {"single": [], "native, one size": [4]}.get(kind, [None])
    assert image.shape.as_list() == [*rows, 3, 16, 16] and image.dtype == tf.float32
    if kind != "filtered":
        assert dataset.cardinality().numpy() == len(pipe)


def test_tensorflow_epochs_and_states(photos):  # noqa: F811
    pytest.importorskip("tensorflow")
    pipe = pipes(photos)["native"]
    dataset, loader = pipe.tensorflow(workers=1), pipe.numpy(workers=0)
    for _ in range(2):
        assert [leaves(batch) for batch in dataset.as_numpy_iterator()] == [leaves(batch) for batch in loader]
    state = dataset.loader.state_dict()
    resumed = pipe.tensorflow(workers=0)
    resumed.loader.load_state_dict(state)
    assert [leaves(batch) for batch in resumed.as_numpy_iterator()] == [leaves(batch) for batch in loader]
    dataset.loader.close()


@pytest.mark.parametrize("kind", ["native", "dicts", "on device"])
def test_workers_change_nothing_in_a_face(photos, kind):  # noqa: F811
    pytest.importorskip("torch")
    pipe = pipes(photos)[kind]
    loader = pipe.torch(workers=2)
    assert [leaves(batch) for batch in loader] == of_numpy(pipe)
    loader.close()


def test_a_face_that_cannot_be_says_so(photos):  # noqa: F811
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a device")
    pipe = pipes(photos)["native"]
    with pytest.raises(RuntimeError, match="no CUDA device"):
        pipe.torch(device="cuda")
    with pytest.raises(RuntimeError, match="pinned for an accelerator"):
        pipe.torch(pin_memory=True)


def test_tensors_share_the_memory_of_the_batch():
    torch = pytest.importorskip("torch")
    from stoker.data.face_torch import as_tensor

    array = numpy.arange(6, dtype=numpy.uint64).reshape(2, 3)
    assert as_tensor(array).data_ptr() == array.ctypes.data and as_tensor(array).dtype == torch.uint64
    assert as_tensor(array[::-1]).tolist() == array[::-1].tolist()
    assert as_tensor(numpy.float32(0.5)).dtype == torch.float32
