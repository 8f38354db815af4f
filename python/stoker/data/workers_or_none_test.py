# SPDX-License-Identifier: Apache-2.0
"""What a user gets is the same whether worker processes make the batches or this process does: digests, and errors of files."""

import numpy
import pytest

torch = pytest.importorskip("torch")
v2 = pytest.importorskip("torchvision.transforms.v2")
Image = pytest.importorskip("PIL.Image")

import stoker
from stoker.data import loader_data_test as data


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "train" / "c"
    folder.mkdir(parents=True)
    for number in range(12):
        Image.fromarray(numpy.full((20, 30, 3), 9 * number, numpy.uint8)).save(folder / f"{number:02}.png")
    return stoker.data.image_folder(str(folder.parent), transform=v2.Compose([v2.Resize((8, 8)), v2.ToImage()]))


@pytest.mark.parametrize("kind", ["native", "python"])
def test_a_digest_that_workers_began_goes_on_without_them(pictures, kind):
    dataset = pictures if kind == "native" else data.Numbers(12)

    def loader(workers):
        torch.manual_seed(4)
        return stoker.DataLoader(dataset, batch_size=3, num_workers=workers)

    whole = loader(1)
    list(whole), list(whole)
    begun = loader(1)
    next(iter(begun))
    resumed = loader(0)
    resumed.load_state_dict(begun.state_dict())
    list(resumed), list(resumed)
    assert resumed.state_dict()["digest"] == whole.state_dict()["digest"] != "0" * 32
    for one in (whole, begun):
        one.close()


@pytest.mark.parametrize("how", ["gone", "looped"])
def test_a_file_that_cannot_be_read_is_one_kind_of_error(pictures, tmp_path, how):
    path = tmp_path / "train" / "c" / "04.png"
    list(stoker.DataLoader(pictures))  # lists the files
    path.unlink()
    if how == "looped":
        path.symlink_to(path)
    kinds = []
    for workers in (0, 1):
        loader = stoker.DataLoader(pictures, batch_size=3, num_workers=workers)
        iterator = iter(loader)
        next(iterator)
        with pytest.raises(OSError, match=r"position 4 \(item 4\).*04\.png") as caught:
            next(iterator)
        kinds.append(type(caught.value))
        assert next(iterator)[1].tolist() == [0, 0, 0]
        loader.close()
    assert kinds[0] is kinds[1] is OSError
