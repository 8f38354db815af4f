# SPDX-License-Identifier: Apache-2.0
"""CPU quotas for processes of a bench, by control groups of version 1: what emulates a smaller machine."""
import contextlib
import os
import time
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 20_000


def can_set() -> bool:
    return os.access(CGROUPS, os.W_OK) and (CGROUPS / "cpu.cfs_period_us").exists()


class Quotas:
    """Folders of control groups, removed by close() once the processes in them have ended."""

    def __init__(self):
        self._folders = []

    def make(self, cores: float | None = None) -> Path:
        """A new one; without `cores` it has no limit yet."""
        folder = CGROUPS / f"stoker-bench-{os.getpid()}-{len(self._folders)}"
        folder.mkdir()
        self._folders.append(folder)
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        if cores:
            limit(folder, cores)
        return folder

    def close(self):
        for folder in self._folders:
            for _ in range(250):
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.02)
            else:
                raise RuntimeError(f"{folder} has processes that did not end")


def limit(folder: Path, cores: float):
    (folder / "cpu.cfs_quota_us").write_text(str(int(cores * PERIOD_US)))


def within(folder: Path, command: list) -> list:
    """The command that runs `command` there."""
    return ["/bin/sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh", *map(str, command)]
