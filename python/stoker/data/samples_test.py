# SPDX-License-Identifier: Apache-2.0
"""What travels to a worker process: datasets with whatever their attributes hold."""

import pytest

torch = pytest.importorskip("torch")

import stoker
from stoker.data import samples

# float8, complex32, uint16 and whatever came since: torch's own pickle fails for most of them.
DTYPES = sorted({one for one in vars(torch).values() if isinstance(one, torch.dtype) and not str(one).startswith("torch.q")}, key=str)


class Holds(torch.utils.data.Dataset):
    def __init__(self, held):
        self.held = held

    def __len__(self):
        return len(self.held)

    def __getitem__(self, i):
        return self.held[i]


class Named(torch.Tensor):
    pass


def of_dtype(dtype):
    return torch.arange(32, dtype=torch.uint8).view(dtype)


def travelled(held):
    return samples.unbundle(samples.bundle(Holds(held), None, None, samples.BATCH))["dataset"].held


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_dtype_travel(dtype):
    held = of_dtype(dtype)
    got = travelled(held)
    assert got.dtype == dtype and torch.equal(got.view(torch.uint8), held.view(torch.uint8))
    got.view(torch.uint8).zero_()  # they are the worker's own


@pytest.mark.parametrize("dtype", [torch.uint32, torch.complex32, torch.float8_e5m2], ids=str)
def test_views_empty_ones_parameters_and_subclasses_travel(dtype):
    whole = of_dtype(dtype)
    every_other, empty = whole[::2], whole[:0]
    got = travelled([every_other, empty, torch.nn.Parameter(whole, requires_grad=False), whole.as_subclass(Named), whole[0], whole, whole])
    assert [type(one) for one in got[2:4]] == [torch.nn.Parameter, Named]
    assert all(one.dtype == dtype for one in got) and got[1].shape == (0,) and got[4].shape == () and got[5] is got[6]
    assert torch.equal(got[0].contiguous().view(torch.uint8), every_other.contiguous().view(torch.uint8))
    assert torch.equal(got[2].view(torch.uint8), whole.view(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.complex32], ids=str)
def test_a_dataset_of_them_has_the_same_batches_with_workers(dtype):
    held = of_dtype(dtype)
    for batch, own in zip(
        stoker.DataLoader(Holds(held), batch_size=2, num_workers=1), stoker.DataLoader(Holds(held), batch_size=2), strict=True
    ):
        assert batch.dtype == dtype and torch.equal(batch.view(torch.uint8), own.view(torch.uint8))


@pytest.mark.parametrize("kind", ["<f16", "<c32", ">f16", ">c32"])
def test_equal_long_doubles_have_equal_bytes_whatever_lies_in_their_padding(kind):
    numpy = pytest.importorskip("numpy")
    from stoker.data import units

    if numpy.finfo(numpy.longdouble).nmant != 63:
        pytest.skip("long doubles without padding")

    def written(batch) -> bytes:
        unit = units.encode(batch)
        memory = bytearray(unit.size)
        unit.write_to(memoryview(memory))
        return bytes(memory)

    def filled(junk: int, shape, order="C"):
        array = numpy.frombuffer(bytearray([junk]) * (numpy.dtype(kind).itemsize * 12), kind).reshape(shape, order=order)
        array[...] = numpy.arange(12).reshape(shape)  # a store of 80 bits, which leaves the rest
        array /= 3  # all 80 of them
        array.reshape(-1, order="A").view(numpy.uint8).reshape(-1, 16)[:, slice(10, 16) if array.dtype.isnative else slice(6)] = junk
        return array

    def batch(junk: int):
        return [filled(junk, 12), filled(junk, (3, 4)), filled(junk, (3, 4), "F"), filled(junk, (3, 4))[:, ::2], filled(junk, 12)[3], filled(junk, (1, 12))[:0]]

    one, other = written(batch(1)), written(batch(2))
    assert one == other
    for got, wanted in zip(units.decode(bytearray(one)), batch(3), strict=True):
        assert numpy.array_equal(got, wanted) and got.dtype == wanted.dtype.newbyteorder("=")  # as NumPy unpickles them
