# SPDX-License-Identifier: Apache-2.0
"""What README shows of the loader runs as it stands there, in the interpreter that set-up has made."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

numpy = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")
pytest.importorskip("torchvision")

ROOT = Path(__file__).resolve().parent.parent
PYTHON_PLAN = """
import stoker
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

dataset = ImageFolder("build/photos", transform=lambda picture: v2.functional.to_image(picture))
loader = stoker.DataLoader(dataset, batch_size=3, num_workers=1)
assert not loader.explain().native
for images, labels in loader:
    print(tuple(images.shape), labels.tolist())
"""


@pytest.fixture
def photos(tmp_path):
    draws = numpy.random.default_rng(0)
    for number in range(6):
        folder = tmp_path / "build/photos" / f"kind{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draws.integers(0, 256, (40, 50, 3), dtype=numpy.uint8)).save(folder / f"{number}.jpg")
    return tmp_path


def ran(script: str, folder) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env={"XDG_CACHE_HOME": str(folder / "cache")}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_snippet_runs(photos):
    snippet = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    assert "torchvision" in snippet and "stoker.DataLoader" in snippet
    ran_to = snippet + "    print(tuple(images.shape), labels.shape[0], loader.explain().native)\n"
    assert ran(ran_to, photos) == "(6, 3, 224, 224) 6 True\n"


def test_python_plans_of_torchvision_run_in_workers(photos):
    assert ran(PYTHON_PLAN, photos) == "(3, 3, 40, 50) [0, 0, 0]\n(3, 3, 40, 50) [1, 1, 1]\n"
