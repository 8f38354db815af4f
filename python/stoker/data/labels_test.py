# SPDX-License-Identifier: Apache-2.0
"""No label changes another one's number: of a list and of a CSV file alike."""

import math

import numpy
import pytest

import stoker


@pytest.fixture
def listed(tmp_path, monkeypatch):
    """labels -> file_list of that many pictures."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "p.jpg").touch()

    def of_list(labels):
        return stoker.data.file_list(["p.jpg"] * len(labels), labels, root=tmp_path)

    def of_csv(labels):
        (tmp_path / "l.csv").write_text("path,label\n" + "".join(f"p.jpg,{label}\n" for label in labels))
        return stoker.data.file_list(tmp_path / "l.csv")

    return of_list, of_csv


@pytest.mark.parametrize(
    "labels, numbers",
    [
        (["3", "7"], [3, 7]),
        (["10", "9"], [10, 9]),
        (["10.0", "9.", "-1"], [10, 9, -1]),
        ([" 4 ", "+5", "007"], [4, 5, 7]),
        ([str(2**63 - 1), str(-(2**63))], [2**63 - 1, -(2**63)]),
    ],
)
def test_integers_stay_what_they_are(listed, labels, numbers):
    for of in listed:
        source = of(labels)
        assert source.labels.tolist() == numbers and source.classes == []


@pytest.mark.parametrize(
    "labels", [[3, 7], [3.0, 7.0], numpy.array([3, 7], numpy.uint8), numpy.array([3.0, 7.0]), [3, "7"], [numpy.int64(3), "7.0"]]
)
def test_integers_of_any_type(listed, labels):
    assert listed[0](labels).labels.tolist() == [3, 7]


def test_true_and_false_are_one_and_nought(listed):
    assert listed[0]([True, False]).labels.tolist() == [1, 0]


@pytest.mark.parametrize("labels", [["dog", "cat", "dog"], ["1_1", "1_0", "1_1"], ["v1.5", "c", "v1.5"]])
def test_names_are_numbered_in_sorted_order(listed, labels):
    for of in listed:
        source = of(labels)
        assert source.labels.tolist() == [1, 0, 1] and source.classes == sorted(set(labels))


@pytest.mark.parametrize(
    "labels, wrong, why",
    [
        (["10", "9", ""], 2, "the label is missing"),
        (["cat", " ", "dog"], 1, "the label is missing"),
        (["", ""], 0, "the label is missing"),
        (["10", "9", "1.5"], 2, "'1.5' is a number but no integer"),
        (["1.5", "2.5"], 0, "'1.5' is a number but no integer"),
        (["cat", "nan"], 1, "'nan' is a number but no integer"),
        (["10", "1e3"], 1, "'1e3' is a number but no integer"),
        (["10", "9", "cat"], 2, "'cat' is a name and the first, '10', an integer"),
        (["cat", "10"], 1, "'10' is an integer and the first, 'cat', a name"),
        (["1", str(2**63)], 1, "does not fit 64 bits"),
    ],
)
def test_a_label_that_is_neither_is_named(listed, labels, wrong, why):
    of_list, of_csv = listed
    with pytest.raises(ValueError, match=f"the list, entry {wrong}: .*{why}"):
        of_list(labels)
    with pytest.raises(ValueError, match=rf"l\.csv, line {wrong + 2}: .*{why}"):
        of_csv(labels)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1.5, None, b"3", b"cat", 2**63, [1], 3 + 0j])
def test_what_is_no_label_is_named(listed, bad):
    for others in ([3, 7], ["cat", "dog"]):
        with pytest.raises(ValueError, match="the list, entry 2: the label .*(neither|64 bits)"):
            listed[0]([*others, bad])
