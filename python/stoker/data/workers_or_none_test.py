# SPDX-License-Identifier: Apache-2.0
"""What a user gets is the same whether worker processes make the batches or this process does: digests."""

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
