# SPDX-License-Identifier: Apache-2.0
"""What numpy_collate makes of numbers: no integer is rounded, and what is no number is refused."""

import numpy
import pytest

import stoker
from stoker.data.collate import numpy_collate

BIG = (1 << 63) + 12345


@pytest.mark.parametrize(
    "batch, dtype",
    [
        ([5, BIG, 7, 9], "uint64"),
        ([BIG, 5], "uint64"),
        ([True, BIG], "uint64"),
        ([numpy.uint64(BIG), 3], "uint64"),
        ([numpy.int64(3), numpy.uint64(BIG)], "uint64"),
        ([numpy.int64(-3), numpy.uint64(4)], "int64"),
        ([-(1 << 63), (1 << 63) - 1], "int64"),
        ([True, 2], "int64"),
        ([True, False], "bool"),
        ([1, 0.5], "float64"),
        ([0.5, 1], "float64"),
        ([0.5, True], "float64"),
        ([0.5, 1 << 70], "float64"),
        ([1 << 70, 0.5], "float64"),
        ([0.5, numpy.longdouble(2)], "float64"),
        ([0.5, 2j], "complex128"),
        ([0.5, numpy.complex64(2j)], "complex128"),
        ([0.5, numpy.array(2j)], "complex128"),
        ([numpy.float32(1), numpy.float32(2)], "float32"),
        ([numpy.int8(1), numpy.int16(300)], "int16"),
        ([1, numpy.array(2)], "int64"),
        ([numpy.timedelta64(3, "s"), numpy.timedelta64(4, "s")], "timedelta64[s]"),
        ([numpy.array([1], "i8"), numpy.array([BIG], "u8")], "uint64"),
        ([numpy.array([-1], "i8"), numpy.array([1], "u8")], "int64"),
        ([numpy.array(2), 1], "int64"),
        ([numpy.zeros(2, "f4"), numpy.zeros(2, "f8")], "float64"),
    ],
)
def test_numbers_keep_their_values(batch, dtype):
    made = numpy_collate(batch)
    assert made.dtype == dtype
    values = [one.tolist() if isinstance(one, numpy.ndarray) else one for one in batch]
    assert numpy.asarray(made, dtype=object).tolist() == [float(one) if dtype == "float64" and not isinstance(one, list) else one for one in values] or (
        dtype.startswith("timedelta64") and list(made) == batch
    )


@pytest.mark.parametrize(
    "batch, value",
    [([1 << 64, 5], str(1 << 64)), ([-1, 1 << 63], f"{1 << 63} .*not hold -1"), ([5, -(1 << 63) - 1], str(-(1 << 63) - 1)),
     ([numpy.array([-1], "i8"), numpy.array([BIG], "u8")], str(BIG))],
)  # fmt: skip
def test_an_integer_that_no_type_holds_is_named(batch, value):
    with pytest.raises(OverflowError, match=value):
        numpy_collate(batch)
    with pytest.raises(OverflowError, match=rf"sample\['id'\]\[1\]: .*{value}"):
        numpy_collate([{"id": ("x", one)} for one in batch])


@pytest.mark.parametrize(
    "batch, item, kind",
    [
        ([0, "x", 2], 1, r"str \('x'\)"),
        ([1.0, "7", 1.0], 1, r"str \('7'\)"),
        ([0, None, 2], 1, "None"),
        ([0.5, 1.5, None], 2, "None"),
        ([1, 2, b"3"], 2, "bytes"),
        ([numpy.int64(1), None], 1, "None"),
        ([1, [2]], 1, "list"),
        ([1, 2, [[1], [2, 3]]], 2, "list"),
        ([numpy.zeros(2), [[1], [2, 3]]], 1, "list"),
        ([1, numpy.zeros(1)], 1, "an array of float64"),
        (["x", 0], 1, r"int \(0\)"),
        ([numpy.array(1), "x"], 1, "str"),
        ([numpy.zeros(2), None], 1, "None"),
        ([numpy.zeros(1), numpy.array(["a"])], 1, "an array of <U1"),
        ([1, numpy.timedelta64(3, "s")], 1, "timedelta64"),
        ([numpy.timedelta64(3, "s"), 2], 1, "int"),
    ],
)
def test_what_is_no_number_among_numbers_is_refused(batch, item, kind):
    with pytest.raises(TypeError, match=f"different kinds.*item 0 of the batch is .*, item {item} is {kind}"):
        numpy_collate(batch)


def test_in_a_pipe_under_both_faces():
    torch = pytest.importorskip("torch")
    ids = [5, BIG, 7, 9]
    pipe = stoker.data.from_function(4, lambda i: ids[i]).batch(2)
    for workers in (0, 1):
        assert [one for batch in pipe.numpy(workers=workers) for one in batch.tolist()] == ids
        batches = list(pipe.torch(workers=workers))
        assert batches[0].dtype == torch.uint64 and [one for batch in batches for one in batch.tolist()] == ids
    for face in ("numpy", "torch"):
        with pytest.raises(TypeError, match="item 1 is None"):
            list(getattr(stoker.data.from_function(2, lambda i: [0, None][i]).batch(2), face)(workers=0))


def test_lists_given_as_arrays_are_not_rounded_either():
    assert [int(one) for one in stoker.data.arrays([5, BIG])] == [5, BIG]
    with pytest.raises(ValueError, match=str(1 << 64)):
        stoker.data.arrays([5, 1 << 64])
