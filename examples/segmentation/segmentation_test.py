# SPDX-License-Identifier: Apache-2.0
"""The example learns, in seconds, on few pictures."""
import importlib.util
import os

import pytest

torch = pytest.importorskip("torch")

pytest.importorskip("torchvision")


def test_the_loss_falls(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    spec = importlib.util.spec_from_file_location("segmentation_train", os.path.join(os.path.dirname(__file__), "train.py"))
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.make_pictures(tmp_path, 24)
    losses = example.train(tmp_path, epochs=6, batch=8, size=48, workers=0)
    assert losses[-1] < 0.85 * losses[0]
    assert "Python" not in capsys.readouterr().out.split("epoch")[0]
