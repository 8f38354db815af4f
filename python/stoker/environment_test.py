# SPDX-License-Identifier: Apache-2.0
import json
import re
import shutil
import subprocess

import pytest

import stoker
from stoker import _native


def _job(tmp_path, monkeypatch, **config):
    folder = tmp_path / "input/config"
    folder.mkdir(parents=True)
    (folder / "resourceconfig.json").write_text(json.dumps(config))
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path))
    for name in ("SM_CURRENT_HOST", "SM_CURRENT_INSTANCE_GROUP", "SM_NUM_GPUS", "SM_NUM_CPUS", "SM_RESOURCE_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_a_group_knows_its_hosts_and_rank(tmp_path, monkeypatch):
    _job(
        tmp_path,
        monkeypatch,
        current_host="algo-2",
        current_group_name="train",
        hosts=["algo-1", "algo-2", "algo-3"],
        instance_groups=[
            {"instance_group_name": "data", "instance_type": "ml.c5.xlarge", "hosts": ["algo-1"]},
            {"instance_group_name": "train", "instance_type": "ml.p3.2xlarge", "hosts": ["algo-3", "algo-2"]},
        ],
    )
    here = stoker.environment()
    assert (here.group, here.hosts, here.rank_in_group) == ("train", ("algo-3", "algo-2"), 1)
    assert here.groups == {"data": ("algo-1",), "train": ("algo-3", "algo-2")}
    assert here.in_job


def test_outside_a_job_there_is_one_host(tmp_path, monkeypatch):
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path))
    for name in ("SM_CURRENT_HOST", "SM_CURRENT_INSTANCE_GROUP", "SM_RESOURCE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    here = stoker.environment()
    assert here.rank_in_group == 0 and len(here.hosts) == 1 and not here.in_job


def test_gpus_come_from_the_platform(tmp_path, monkeypatch):
    _job(tmp_path, monkeypatch, current_host="algo-1", hosts=["algo-1"])
    monkeypatch.setenv("SM_NUM_GPUS", "4")
    here = stoker.environment()
    assert (here.num_gpus, here.group, here.hosts) == (4, "homogeneousCluster", ("algo-1",))


def test_the_extension_links_nothing_that_tensorflow_or_torch_bring_along():
    if not shutil.which("readelf"):
        pytest.skip("no readelf")
    shown = subprocess.run(["readelf", "-d", _native.__file__], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"NEEDED.*\[(.*?)\]", shown)
    assert needed
    foreign = ("grpc", "proto", "ssl", "crypto", "absl", "boost", "sqlite", "torch", "tensorflow", "python")
    assert not [name for name in needed if any(word in name for word in foreign)], needed
