# SPDX-License-Identifier: Apache-2.0
"""A source whose file or folder is not there says what was wanted."""

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
