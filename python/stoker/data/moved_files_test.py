# SPDX-License-Identifier: Apache-2.0
"""The same files in another folder, as in a job: a state goes on there, with the same digest; caches do not mistake one for the other."""

import io
import shutil

import numpy
import pytest

import stoker
from stoker.data import kept_plans, replay
from stoker.data.fluent_test import all_of, own_cache, photos, same  # noqa: F401  (fixtures)
from stoker.data.record_errors_test import in_mds, in_tar, in_tfrecord

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")
COUNT = 12


def pictures(seed: int = 0) -> list:
    """PNG files, which have the same sizes for each seed."""
    files = []
    for number in range(COUNT):
        files.append(io.BytesIO())
        Image.fromarray(numpy.full((24, 24, 3), seed + number, dtype=numpy.uint8)).save(files[-1], "PNG", compress_level=0)
    return [file.getvalue() for file in files]


def folders(root, seed):
    for number, picture in enumerate(pictures(seed)):
        (root / f"c{number % 3}").mkdir(exist_ok=True)
        (root / f"c{number % 3}" / f"{number}.png").write_bytes(picture)


def csv(root, seed):
    folders(root, seed)
    names = [f"c{number % 3}/{number}.png,{number}" for number in range(COUNT)]
    (root / "list.csv").write_text("\n".join(["path,label", *names]) + "\n")


def tar(root, seed):
    (root / "a").mkdir()
    in_tar(root / "a", pictures(seed)[:5])
    (root / "b").mkdir()
    in_tar(root / "b", pictures(seed)[5:])


def rows(root, seed):
    numpy.save(root / "rows.npy", numpy.arange(COUNT * 4).reshape(COUNT, 4) + seed)


def table(root, seed):
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"x": [number + seed for number in range(COUNT)]}), root / "x.parquet", use_dictionary=False)


def listed(root):
    return [str(root / f"c{number % 3}" / f"{number}.png") for number in range(COUNT)]


def image_folder_of_torchvision(root):
    from torchvision import datasets, transforms

    return datasets.ImageFolder(root, transforms.Compose([transforms.Resize((8, 8)), transforms.ToTensor()]))


def decoded(source):
    return source.shuffle(3).decode().resize((8, 8)).batch(4)


# what writes the files, what reads them, whether the plan is native
KINDS = {
    "image_folder": (folders, lambda root: decoded(stoker.data.image_folder(root)), True),
    "file_list": (folders, lambda root: decoded(stoker.data.file_list(listed(root), root=root)), True),
    "file_list of whole paths": (folders, lambda root: decoded(stoker.data.file_list(listed(root), absolute=True)), True),
    "csv": (csv, lambda root: decoded(stoker.data.file_list(root / "list.csv")), True),
    "pairs": (folders, lambda root: stoker.data.image_masks(listed(root), listed(root)).batch(4), False),
    "tar": (tar, lambda root: decoded(stoker.data.webdataset(str(root / "{a,b}" / "a.tar"))), True),
    "tfrecord": (lambda root, seed: in_tfrecord(root, pictures(seed)), lambda root: decoded(stoker.data.tfrecord(root / "a.tfrecord")), True),
    "mds": (lambda root, seed: in_mds(root, pictures(seed)), lambda root: decoded(stoker.data.mds(root)), True),
    "arrays": (rows, lambda root: stoker.data.arrays(root / "rows.npy").shuffle(3).batch(4), True),
    "raw tar": (tar, lambda root: stoker.data.webdataset(str(root / "{a,b}" / "a.tar"), image=None).map(len).batch(4), False),
    "parquet": (table, lambda root: stoker.data.parquet(root / "x.parquet").batch(4), False),
    "python over files": (folders, lambda root: stoker.data.image_folder(root).map(lambda sample: sample["label"]).batch(4), False),
    "mixture": (
        folders,
        lambda root: stoker.data.mix([stoker.data.image_folder(root).decode().resize((8, 8))] * 2, [1, 2]).batch(4),
        False,
    ),
}


def opened(kind, root, workers):
    return KINDS[kind][1](root).numpy(workers=workers)


@pytest.fixture(params=KINDS)
def moved(request, tmp_path):
    (tmp_path / "here").mkdir()
    KINDS[request.param][0](tmp_path / "here", 0)
    (tmp_path / "some" / "where").mkdir(parents=True)
    shutil.copytree(tmp_path / "here", tmp_path / "some" / "where" / "else")
    return request.param, tmp_path / "here", tmp_path / "some" / "where" / "else"


def test_a_state_goes_on_where_the_files_are_now(moved):
    kind, here, there = moved
    whole = opened(kind, here, 1)
    first = iter(whole)
    next(first)
    state, rest = whole.state_dict(), list(first)
    resumed = opened(kind, there, 1)
    resumed.load_state_dict(state)
    again = iter(resumed)
    assert same(list(again), rest) and resumed.state_dict() == whole.state_dict()
    assert again.digest() == first.digest() != 0
    for loader in (whole, resumed):
        loader.close()


def test_a_dataset_of_torchvision_too(tmp_path, torchvision):
    (tmp_path / "here").mkdir()
    folders(tmp_path / "here", 0)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    states = []
    for root in ("here", "there"):
        torch.manual_seed(5)
        loader = stoker.DataLoader(image_folder_of_torchvision(tmp_path / root), batch_size=5, num_workers=1)
        iterator = iter(loader)
        next(iterator)
        states.append(loader.state_dict())
        loader.close()
    assert states[0] == states[1]


def test_replay_looks_where_the_files_were_last(photos, tmp_path):  # noqa: F811
    shutil.copytree(photos, tmp_path / "there")
    states = []
    for root in (photos, tmp_path / "there"):
        loader = stoker.data.image_folder(root).decode().center_crop(8).batch(4).numpy(workers=0)
        states.append(loader.state_dict())
    assert states[0]["plan"] == states[1]["plan"] and kept_plans.find(states[0]["plan"])
    assert replay.replay(states[0])["path"].startswith(str(tmp_path / "there"))


@pytest.mark.parametrize("kind", ["image_folder", "tar", "mixture"])
def test_a_cache_on_disk_knows_folders_apart(kind, tmp_path):
    """Files of the same names and sizes, with other pictures in them."""
    for name, seed in (("one", 10), ("two", 200)):
        (tmp_path / name).mkdir()
        (tar if kind == "tar" else folders)(tmp_path / name, seed)
        if kind == "tar":
            source = stoker.data.webdataset(str(tmp_path / name / "{a,b}" / "a.tar"))
        else:
            source = stoker.data.image_folder(tmp_path / name)
        pipe = source.decode().resize((8, 8))
        pipe = stoker.data.mix([pipe, pipe], [1, 2]) if kind == "mixture" else pipe
        for _ in range(2):
            images = all_of(pipe.cache("disk", budget_bytes=1 << 20).batch(4))[0][0]
            assert seed <= images.min() <= images.max() < seed + COUNT
