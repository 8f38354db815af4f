# SPDX-License-Identifier: Apache-2.0
"""Plans by their hash in the cache folder: a cursor names its plan by hash alone, and replay needs the plan itself.

A plan is kept when a state_dict() names it for the first time in a process. docs/formats/cursor.md says so.
"""

import os
import tempfile

from stoker import _native

MOST = 1000  # plans, a few hundred bytes each
_kept = {}  # hash -> text that this process has seen to last


def cache_folder() -> str:
    """The folder of manifests, indexes and plans; OSError where none can be written."""
    return os.fsdecode(_native.pipeline.cache_folder())


def keep(plan_hash: str, text: str, manifest=None) -> None:
    """Writes a plan, and the manifest that it names, unless they are there; of plans that differ only in the folder of their files
    the last one stays. Without a cache only replay is lost."""
    if _kept.get(plan_hash) == text:
        return
    _kept[plan_hash] = text
    try:
        if manifest is not None:
            manifest.save()
        folder = os.path.join(cache_folder(), "plans")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        path = os.path.join(folder, plan_hash + ".json")
        if find(plan_hash) == text:
            return
        descriptor, beside = tempfile.mkstemp(dir=folder)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise
        _forget_old(folder)
    except OSError:
        pass


def _forget_old(folder: str) -> None:
    """Each seed is a plan of its own: the oldest go."""
    paths = [os.path.join(folder, name) for name in os.listdir(folder)]
    if len(paths) > MOST:
        for path in sorted(paths, key=os.path.getmtime)[: len(paths) - MOST]:
            os.unlink(path)


def find(plan_hash: str):
    """The plan's text, or None."""
    try:
        with open(os.path.join(cache_folder(), "plans", plan_hash + ".json"), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None
