# SPDX-License-Identifier: Apache-2.0
"""A source whose file or folder is not there says what was wanted, and one that is given no path which argument that was."""

import os

import pytest

import stoker


@pytest.mark.parametrize(
    "make, why",
    [
        (lambda at: stoker.data.mds(at), "x/index.json: No such file or directory; wanted is the index.json that"),
        (lambda at: stoker.data.file_list(f"{at}.csv"), "x.csv: No such file or directory; wanted is a CSV file"),
        (lambda at: stoker.data.image_masks(f"{at}.csv"), "x.csv: No such file or directory; wanted is a CSV file"),
        (lambda at: stoker.data.image_masks(at, at), "x: No such file or directory; wanted is a folder of pictures and one of"),
        (lambda at: stoker.data.arrays(f"{at}.npy"), "x.npy: No such file or directory; wanted is an array as numpy.save"),
        (lambda at: stoker.data.image_folder(at), "image folder .*x: No such file or directory"),
        (lambda at: stoker.data.webdataset(f"{at}.tar"), "no file .*x.tar"),
    ],
)
def test_what_is_not_there_is_named_with_what_was_wanted(tmp_path, make, why):
    with pytest.raises(FileNotFoundError, match=why):
        make(str(tmp_path / "x"))


@pytest.mark.parametrize(
    "make, name",
    [
        (lambda: stoker.data.file_list("x.csv"), "x.csv"),
        (lambda: stoker.data.image_masks("x.csv"), "x.csv"),
        (lambda: stoker.data.arrays("x.npy"), "x.npy"),
        (lambda: stoker.data.image_folder("x"), "x"),
        (lambda: stoker.data.webdataset("x-{0..1}.tar"), "x-0.tar"),
        (lambda: stoker.data.tfrecord("x*.tfrecord"), "x*.tfrecord"),
        (lambda: stoker.data.parquet("x.parquet"), "x.parquet"),
        (lambda: stoker.data.mds("x"), "x/index.json"),
    ],
)
def test_of_a_relative_path_the_absolute_one_is_told_too(tmp_path, monkeypatch, make, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        make()
    assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize(
    "make, why",
    [
        (lambda: stoker.data.image_folder(3), "root should be a path, but got 3"),
        (lambda: stoker.data.webdataset(None), "shards should be a path or pattern of files, or a list of them, but got None"),
        (lambda: stoker.data.tfrecord(3), "files should be a path or pattern"),
        (lambda: stoker.data.parquet(None), "files should be a path or pattern"),
        (lambda: stoker.data.mds(None), "folder should be a path, but got None"),
        (lambda: stoker.data.file_list(3), "paths should be a sequence of paths"),
        (lambda: stoker.data.image_masks(None), "images should be a path, but got None"),
        (lambda: stoker.data.pipe("text"), r"'text' is no dataset; .*stoker\.data\.image_folder\('text'\)"),
        (lambda: stoker.DataLoader("photos"), r"stoker\.data\.image_folder\('photos'\)"),
    ],
)
def test_what_is_no_path_or_no_dataset_is_refused_by_name(make, why):
    with pytest.raises(TypeError, match=why):
        make()


def test_of_a_flat_folder_of_pictures_file_list_is_named(tmp_path):
    (tmp_path / "bee").mkdir()
    with pytest.raises(FileNotFoundError) as empty:
        stoker.data.image_folder(tmp_path / "bee")
    for name in ("2.jpg", "1.JPG", "notes.txt"):
        (tmp_path / "bee" / name).write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"such as 1\.JPG, have no class: stoker\.data\.file_list\(paths\)") as caught:
        stoker.data.image_folder(tmp_path / "bee")
    assert caught.value.kind == "no_classes" and caught.value.path == os.fspath(tmp_path / "bee")
    assert "file_list" not in str(empty.value)
