# SPDX-License-Identifier: Apache-2.0
"""What several test files here need: torchvision, and the cases handed to the project."""

import gc
import json
import os
import pathlib
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module", autouse=True)
def no_pillow_is_left():
    """Tests count this process's children; image.decode() keeps one once it has met a GIF."""
    yield
    if "stoker.data.image" in sys.modules:
        sys.modules["stoker.data.image"]._others = None
    gc.collect()


@pytest.fixture
def small_cache(tmp_path, monkeypatch):
    """The cache folder on a disk of 1 MiB of its own; fill(left) leaves that many bytes, or all free again for None."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(disk / "cache"))

    class Disk:
        cache = disk / "cache/stoker"

        @staticmethod
        def fill(left):
            filler = disk / "filler"
            filler.unlink(missing_ok=True)
            if left is not None:
                room = os.statvfs(disk)
                with open(filler, "wb", buffering=0) as file:
                    file.write(bytes(room.f_bavail * room.f_frsize - left))

    try:
        yield Disk
    finally:
        gc.collect()
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture(scope="session")
def torchvision():
    """The module."""
    pytest.importorskip("torch")
    return pytest.importorskip("torchvision")


@pytest.fixture(scope="session")
def cases_folder():
    for at in (os.environ.get("STOKER_CASES"), REPOSITORY / "shared/cases", REPOSITORY.parent / "shared/cases"):
        if at and (pathlib.Path(at) / "make_cases.py").exists():
            return pathlib.Path(at)
    pytest.skip("the handed cases are not here: set STOKER_CASES")


@pytest.fixture(scope="session")
def handed(cases_folder, tmp_path_factory):
    """kind → [(path of the made case, its row of the manifest)]."""
    out = tmp_path_factory.mktemp("cases")
    subprocess.run([sys.executable, str(cases_folder / "make_cases.py"), "--out", str(out)], check=True, capture_output=True)
    rows = json.loads((cases_folder / "manifest.json").read_text())["cases"]
    return lambda kind: [(str(out / row["path"]), row) for row in rows if row["kind"] == kind]
