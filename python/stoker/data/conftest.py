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
