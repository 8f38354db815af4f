# SPDX-License-Identifier: Apache-2.0
"""Lists of files in CSV: what the first line is, and which line an error is about."""

import pytest

import stoker


@pytest.fixture
def folder(tmp_path):
    for name in ("a.jpg", "b.jpg", "c.jpg", "a.png", "picture"):
        (tmp_path / name).touch()
    return tmp_path


def written(folder, text: str, encoding="utf-8"):
    (folder / "l.csv").write_text(text, encoding=encoding)
    return folder / "l.csv"


@pytest.mark.parametrize("first", ["a.jpg", "gone.JPEG", "picture", "{folder}/a.jpg"])
def test_a_first_line_that_is_a_pictures_is_not_lost_in_silence(folder, first):
    path = written(folder, f"\n{first.format(folder=folder)},0\nb.jpg,1\n")
    with pytest.raises(ValueError, match=r"l\.csv, line 2: .*name the columns.* is a file.*`path,label`.*path_column=0, label_column=1"):
        stoker.data.file_list(path, absolute=True)
    numbered = stoker.data.file_list(path, absolute=True, path_column=0, label_column=1)
    assert len(numbered) == 2 and numbered.labels.tolist() == [0, 1]


def test_of_one_column_and_of_pairs_too(folder):
    with pytest.raises(ValueError, match=r"`path` before it, or say path_column=0:"):
        stoker.data.file_list(written(folder, "a.jpg\nb.jpg\n"))
    for text in ("a.jpg,a.png\nb.jpg,a.png\n", "image,a.png\n"):
        with pytest.raises(ValueError, match=r"`image,mask` before it, or say image_column=0, mask_column=1:"):
            stoker.data.image_masks(written(folder, text))
    pairs = stoker.data.image_masks(written(folder, "a.png,a.jpg\na.png,b.jpg\n"), image_column=1, mask_column=0)
    assert len(pairs) == 2 and pairs._manifest.items == 4


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_columns_by_name_and_by_number(folder, encoding):
    path = written(folder, "label,path\n3,a.jpg\n4,b.jpg\n", encoding)
    for columns in ({"path_column": "path"}, {"label_column": "label"}, {"path_column": 1, "label_column": "label"}):
        assert stoker.data.file_list(path, **columns).labels.tolist() == [3, 4], columns
    path = written(folder, "a.jpg,7\nb.jpg,8\n", encoding)
    assert stoker.data.file_list(path, label_column=1).labels.tolist() == [7, 8]
    assert stoker.data.file_list(path, path_column=0).labels.tolist() == [-1, -1]
    assert stoker.data.file_list(path, path_column=0).path(0) == "a.jpg"


@pytest.mark.parametrize(
    "text, columns, why",
    [
        ("path,label\n\na.jpg,0\n/etc/passwd,1\n", {}, "line 4: /etc/passwd leads out of .*absolute=True"),
        ("path,label\na.jpg,0\nb.jpg\n", {}, "line 3: one column, where line 1 has 2"),
        ("path,label\na.jpg,0\n", {"label_column": "class"}, "line 1: no column 'class' among path, label"),
        ("a.jpg,0\n", {"path_column": 2}, "line 1: path_column=2, but columns are numbered 0 to 1"),
        ("a.jpg,0\n", {"path_column": -1}, "line 1: path_column=-1, but"),
        ('path,label\n\n"a.jpg,0\nb.jpg,1\n', {}, r"line 3: the row that begins there is no CSV: .* \(a quote that opens in it is not closed\)"),
        ('path,label\n"a.jpg"x,0\n', {}, "line 2: the row that begins there is no CSV"),
        ("path,label\na.jpg,0\n" + "a" * 200_000 + ",0\n", {}, r"line 3: the row that begins there is no CSV: field larger .*\(perhaps a quote that opens in it is not closed\)"),
        ('"path,label\na.jpg,0\n', {}, "line 1: the row that begins there is no CSV"),
        ("# hi\nfile,class\na.jpg,0\n", {}, "line 1: .*begins with '# hi', as a comment does.*take it out.*path_column='# hi'"),
        ("", {}, "empty, where a line of column names is expected"),
    ],
)
def test_errors_name_the_line(folder, text, columns, why):
    with pytest.raises(ValueError, match=rf"l\.csv(: |, ){why}"):
        stoker.data.file_list(written(folder, text), **columns)
    assert len(stoker.data.file_list(written(folder, "path,label\n/etc/passwd,1\n"), absolute=True)) == 1


def test_blanks_around_class_names_and_columns_do_not_count(folder):
    path = written(folder, 'file, class \na.jpg,dog\nb.jpg,cat\nc.jpg,dog \na.png," cat"\n')
    for columns in ({}, {"label_column": "class"}):
        listed = stoker.data.file_list(path, **columns)
        assert listed.classes == ["cat", "dog"] and listed.labels.tolist() == [1, 0, 1, 0]
    commented = written(folder, "#file,class\na.jpg,3\n")
    assert stoker.data.file_list(commented, path_column="#file").labels.tolist() == [3]


def test_of_pairs_too_what_is_no_csv_has_its_line(folder):
    with pytest.raises(ValueError, match=r"l\.csv, line 2: the row that begins there is no CSV"):
        stoker.data.image_masks(written(folder, 'image,mask\n"a.jpg,a.png\n'))
