# SPDX-License-Identifier: Apache-2.0
"""`stoker data replay`: what it names is what the loader gives next."""

import io
import json
import os
import re
import shutil
import subprocess
import tarfile

import numpy
import pytest

import stoker
from stoker.data import feed_engine, kept_plans, replay
from stoker.data.fluent_test import own_cache, photos  # noqa: F401  (fixtures)

Image = pytest.importorskip("PIL.Image")


def ran(capsys, state: dict, folder, *words):
    """(exit code, standard output, standard error) of the program on a state."""
    path = folder / "cursor.json"
    path.write_text(json.dumps(state))
    code = replay.main([str(path), *words])
    return code, *capsys.readouterr()


def picture_of(path) -> numpy.ndarray:
    with Image.open(path) as opened:
        return numpy.asarray(opened).transpose(2, 0, 1)


CHAINS = {
    "full": lambda source: source.shuffle(6),
    "chain": lambda source: source.skip(2).shuffle(6).repeat(3).take(30),
    "sequential": lambda source: source,
}


@pytest.mark.parametrize("chain", CHAINS)
def test_a_row_of_the_next_batch(photos, chain, tmp_path, capsys):  # noqa: F811
    pipe = CHAINS[chain](stoker.data.image_folder(photos)).decode().random_resized_crop(16).horizontal_flip().to_float("unscaled").batch(4)
    loader = pipe.numpy(workers=0)
    iterator = iter(loader)
    for _ in range(2):
        next(iterator)
        state = loader.state_dict()
    images, labels = next(iterator)
    for row in range(4):
        png = tmp_path / "row.png"
        code, out, err = ran(capsys, state, tmp_path, "--row", str(row), "--json", "--png", str(png))
        assert code == 0, err
        found = json.loads(out)
        assert found["label"] == labels[row] and found["batch"] == 2 and found["position"] == 8 + row
        assert numpy.array_equal(picture_of(png), images[row])
        assert os.path.samefile(found["path"], os.path.join(photos, stoker.data.image_folder(photos).path(found["item"])))
        assert [op["op"] for op in found["parameters"]] == ["decode_rgb", "random_resized_crop", "horizontal_flip", "to_float"]
        crop = found["parameters"][1]["did"][0]
        assert 0 < crop["width"] <= found["size"][0] and 0 < crop["height"] <= found["size"][1]
    code, out, _ = ran(capsys, state, tmp_path)
    assert code == 0 and "random_resized_crop: crop" in out and "position 8" in out
    assert "decode_rgb: done" in out and re.search("horizontal_flip: (done|not this time)\n", out), out


def test_members_of_shards_have_names_and_offsets(tmp_path, capsys, monkeypatch):
    shards = tmp_path / "shards"
    shards.mkdir()
    for shard in range(3):
        with tarfile.open(shards / f"{shard}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for number in range(4):
                data = io.BytesIO()
                Image.new("RGB", (20, 20), (60 * shard, 50 * number, 0)).save(data, "PNG")
                for name, content in ((f"{shard}{number}.png", data.getvalue()), (f"{shard}{number}.cls", str(number).encode())):
                    member = tarfile.TarInfo(name)
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
    loader = stoker.data.webdataset(str(shards / "*.tar")).shuffle(2, block=2).decode().center_crop(8).batch(3).numpy(workers=0)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    images, labels = next(iterator)
    code, out, err = ran(capsys, state, tmp_path, "--row", "1", "--json", "--png", str(tmp_path / "x.png"))
    assert code == 0, err
    found = json.loads(out)
    assert found["member"].endswith(f"{labels[1]}.png") and numpy.array_equal(picture_of(tmp_path / "x.png"), images[1])
    with open(found["path"], "rb") as file:
        file.seek(found["offset"])
        assert file.read(4) == b"\x89PNG"
    (tmp_path / "plan.json").write_text(json.dumps(loader.explain().plan))
    words = ("--plan", str(tmp_path / "plan.json"))
    shards.rename(tmp_path / "moved")
    code, _, err = ran(capsys, state, tmp_path, *words)
    assert code == 1 and "No such file" in err and f"the files were in {shards}: say with --root FOLDER" in err
    code, out, err = ran(capsys, state, tmp_path, *words, "--root", str(tmp_path / "moved"), "--row", "1", "--json")
    assert code == 0 and json.loads(out) == {**found, "path": found["path"].replace(str(shards), str(tmp_path / "moved"))}, err
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    code, _, err = ran(capsys, state, tmp_path, *words)
    assert code == 1 and "make the loader once more on this machine, and call its state_dict()" in err


def test_loaders_with_torchs_face_replay_too(photos, tmp_path, capsys):  # noqa: F811
    torch = pytest.importorskip("torch")

    datasets = pytest.importorskip("torchvision.datasets")
    from torchvision.transforms import v2

    dataset = datasets.ImageFolder(photos, v2.Compose([v2.RandomResizedCrop(16), v2.ToImage()]))
    torch.manual_seed(2)
    loader = stoker.DataLoader(dataset, batch_size=5, shuffle=True)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    images, labels = next(iterator)
    code, out, err = ran(capsys, state, tmp_path, "--row", "4", "--json", "--png", str(tmp_path / "x.png"))
    assert code == 0, err
    assert json.loads(out)["label"] == labels[4] and numpy.array_equal(picture_of(tmp_path / "x.png"), images[4].numpy())


def test_the_plan_comes_from_the_cache_or_by_hand(photos, tmp_path, capsys, monkeypatch):  # noqa: F811
    pipe = stoker.data.image_folder(photos).shuffle(1).decode().center_crop(8).batch(4)
    loader = pipe.numpy(workers=0)
    next(iter(loader))
    state = loader.state_dict()
    assert kept_plans.find(state["plan"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    code, _, err = ran(capsys, state, tmp_path)
    assert code == 1 and "--plan" in err
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(loader.explain().plan))
    assert ran(capsys, state, tmp_path, "--plan", str(plan))[0] == 0
    plan.write_text(json.dumps({**loader.explain().plan, "ops": [{"op": "decode_rgb"}, {"op": "center_crop", "size": [9, 9]}]}))
    code, _, err = ran(capsys, state, tmp_path, "--plan", str(plan))
    assert code == 1 and "the cursor names" in err


@pytest.mark.parametrize("listed", [False, True])
def test_pictures_that_are_elsewhere_now(photos, listed, tmp_path, capsys, monkeypatch):  # noqa: F811
    """As in a job, whose inputs are at /opt/ml/input/data."""
    then, now = tmp_path / "then", tmp_path / "now"
    shutil.copytree(photos, then)
    source = stoker.data.image_folder(then)
    if listed:  # as of torchvision's ImageFolder
        source = stoker.data.file_list([str(then / source.path(i)) for i in range(len(source))], root=then)
    pipe = source.shuffle(1).decode().center_crop(8).batch(4)
    loader = pipe.numpy(workers=0)
    iterator = iter(loader)
    next(iterator)
    state, (images, _) = loader.state_dict(), next(iterator)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(loader.explain().plan))
    then.rename(now)
    code, _, err = ran(capsys, state, tmp_path)
    assert code == 1 and f"the files were in {then}" in err and "--root FOLDER" in err
    words = ("--root", str(now), "--json", "--png", str(tmp_path / "x.png"))
    for _ in range(1 if listed else 2):  # with the list in the cache and without
        code, out, err = ran(capsys, state, tmp_path, "--plan", str(plan), *words)
        assert code == 0 and os.path.dirname(os.path.dirname(json.loads(out)["path"])) == str(now), err
        assert numpy.array_equal(picture_of(tmp_path / "x.png"), images[0])
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty too"))  # a list that was made again was kept
    code, _, err = ran(capsys, state, tmp_path, "--plan", str(plan))
    assert code == 1 and "is not in" in err and f"its folder {then} is not on this machine" in err and "--root FOLDER" in err
    code, _, err = ran(capsys, state, tmp_path, "--plan", str(plan), "--root", str(tmp_path / "nowhere"))
    assert code == 1 and "there is no such folder" in err
    if listed:  # its list has no classes, so it is not the folder's own
        code, _, err = ran(capsys, state, tmp_path, "--plan", str(plan), "--root", str(now))
        assert code == 1 and "call its state_dict(), which keeps the list" in err


def test_an_epoch_that_is_at_its_end(photos, tmp_path, capsys):  # noqa: F811
    for drop_last, batches in ((False, 4), (True, 3)):
        loader = stoker.data.image_folder(photos).decode().center_crop(8).batch(4, drop_last).numpy(workers=0)
        iterator = iter(loader)
        for _ in range(batches):
            next(iterator)
        code, out, err = ran(capsys, loader.state_dict(), tmp_path)
        assert code == 1 and f"epoch 0 is at its end: all of its {batches} batches" in err and not out, err
        assert next(iterator, None) is None
        code, out, _ = ran(capsys, loader.state_dict(), tmp_path)
        assert code == 0 and "epoch 1, batch 0, row 0" in out


def test_python_plans_give_position_item_and_seeds(tmp_path, capsys):
    loader = stoker.data.range(9).shuffle(1).map(float).batch(4).numpy(workers=0)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    batch = next(iterator)
    code, out, err = ran(capsys, state, tmp_path, "--row", "2", "--json")
    found = json.loads(out)
    assert code == 0 and found["item"] == batch[2] and found["position"] == 6 and found["seeds"]["numpy"]
    assert "no plan holds" in ran(capsys, state, tmp_path)[1]


def test_what_cannot_be_replayed_says_why(photos, tmp_path, capsys):  # noqa: F811
    loader = stoker.data.image_folder(photos).decode().center_crop(8).batch(4).numpy(workers=0)
    next(iter(loader))
    state = loader.state_dict()
    for words, changed, expected in [
        ((), {"format": "stoker-iterable/1"}, "not a cursor of a map-style loader"),
        ((), {"order": "explicit/1"}, "--item"),
        ((), {"seed": 5}, "the cursor names"),
    ]:
        code, out, err = ran(capsys, {**state, **changed}, tmp_path, *words)
        assert code == 1 and expected in err and not out, err
    for words, changed, expected in [(("--row", "4"), {}, "has 4 rows"), (("--row", "1"), {"batch": 3}, "has 1 rows")]:
        code, out, err = ran(capsys, {**state, **changed}, tmp_path, *words)
        assert code == 64 and expected in err and not out, err
    code, _, err = ran(capsys, {"format": "stoker-cursor/1"}, tmp_path)
    assert code == 1 and "no field" in err
    assert replay.main([str(tmp_path / "nothing.json")]) == 1


@pytest.mark.parametrize("words", [[], ["x.json", "--row", "nan"], ["x.json", "--row", "-1"], ["x.json", "--no-such"], ["x.json", "--plan"]])
def test_what_is_typed_wrong_ends_with_64_and_is_json_on_wish(words, capsys):
    assert replay.main(words) == 64
    out, err = capsys.readouterr()
    assert err.startswith("stoker: ") and err.count("\n") == 1 and not out
    assert replay.main([*words, "--json"]) == 64
    out, err = capsys.readouterr()
    told = json.loads(err)["error"]
    assert told["kind"] == "invalid" and told["message"] and not out


def test_what_cannot_be_read_is_json_on_wish(tmp_path, capsys):
    assert replay.main([str(tmp_path / "nothing.json"), "--json"]) == 1
    told = json.loads(capsys.readouterr().err)["error"]
    assert told["kind"] == "not_found" and "nothing.json: No such file or directory; wanted is a loader's state" in told["message"]
    for text, why in (("{", "holds no JSON"), ("[1]", "no object")):
        (tmp_path / "bad.json").write_text(text)
        assert replay.main([str(tmp_path / "bad.json")]) == 1
        err = capsys.readouterr().err
        assert why in err and "json.dump(loader.state_dict(), file)" in err
    (tmp_path / "state.json").write_text('{"format": "stoker-cursor/1"}')
    assert replay.main([str(tmp_path / "state.json"), "--plan", str(tmp_path / "no-plan.json")]) == 1
    err = capsys.readouterr().err
    assert "no-plan.json: No such file or directory; wanted is a plan: json.dump(loader.explain().plan, file)" in err


def test_the_programs_verb(photos, tmp_path):  # noqa: F811
    try:
        program = feed_engine.find_program()
    except stoker.WorkerError:
        pytest.skip("no stoker program was built")
    loader = stoker.data.image_folder(photos).decode().center_crop(8).batch(4).numpy(workers=0)
    next(iter(loader))
    (tmp_path / "cursor.json").write_text(json.dumps(loader.state_dict()))
    done = subprocess.run([program, "data", "replay", str(tmp_path / "cursor.json"), "--row", "2", "--json"], capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout)["position"] == 6, done.stderr
    done = subprocess.run([program, "data", "replay", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "--png" in done.stdout, done.stderr
    for words in (["data"], ["data", "no-such"], ["data", "replay"], ["data", "replay", "x.json", "--row", "inf"]):
        done = subprocess.run([program, *words, "--json"], capture_output=True, text=True)
        assert done.returncode == 64 and json.loads(done.stderr)["error"]["kind"] == "invalid", (words, done.stderr)
