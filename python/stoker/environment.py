# SPDX-License-Identifier: Apache-2.0
"""How a script learns where it runs: which group, which hosts, which rank.

Read from /opt/ml/input/config/resourceconfig.json (below SAGEMAKER_BASE_DIR where that is set) and the SM_* variables.
Outside a job it is one group of one host: this one.
"""

import json
import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Environment:
    """A value. Hosts stand in the platform's order, the same on every host: the first of a group is its rank 0."""

    group: str
    host: str
    hosts: tuple  # of this group
    rank_in_group: int
    groups: dict
    instance_type: str
    num_gpus: int
    num_cpus: int
    in_job: bool


def environment() -> Environment:
    config = _resource_config()
    host = os.environ.get("SM_CURRENT_HOST") or config.get("current_host") or os.uname().nodename
    groups = {
        group["instance_group_name"]: tuple(group["hosts"])
        for group in config.get("instance_groups", [])
    }
    group = os.environ.get("SM_CURRENT_INSTANCE_GROUP") or config.get("current_group_name") or ""
    if group not in groups:
        group = next((name for name, hosts in groups.items() if host in hosts), group or "homogeneousCluster")
    hosts = groups.get(group) or tuple(config.get("hosts") or [host])
    return Environment(
        group=group,
        host=host,
        hosts=hosts,
        rank_in_group=hosts.index(host) if host in hosts else 0,
        groups=groups or {group: hosts},
        instance_type=os.environ.get("SM_CURRENT_INSTANCE_TYPE") or config.get("current_instance_type") or "",
        num_gpus=_number("SM_NUM_GPUS", 0),
        num_cpus=_number("SM_NUM_CPUS", len(os.sched_getaffinity(0))),
        in_job=bool(config),
    )


def _resource_config() -> dict:
    base = os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")
    try:
        with open(os.path.join(base, "input/config/resourceconfig.json"), encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        pass
    try:
        found = json.loads(os.environ.get("SM_RESOURCE_CONFIG", "{}"))
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}


def _number(variable: str, otherwise: int) -> int:
    try:
        return int(os.environ[variable])
    except (KeyError, ValueError):
        return otherwise
