# SPDX-License-Identifier: Apache-2.0
"""What a source holds, as a text: in a pipe's plan, so that a state of other data is refused, and in the name of a disk cache."""

import json
import os

from stoker.data.plan import full_name


def identity_of(source) -> str:
    """Of our own sources and of datasets with a method `identity()` that returns a str; "" where the contents are unknown."""
    if hasattr(source, "identity"):
        return str(source.identity())
    if hasattr(source, "plan_source"):
        return json.dumps(source.plan_source(), sort_keys=True)
    return ""


def of_files(source, *more) -> str:
    """Of a source of container files (`source.shards`): their paths and sizes, and what is read of them and how."""
    through = "" if source.transform is None else " ".join(repr(source.transform).split())
    files = [[os.fspath(path), os.path.getsize(path)] for path in source.shards]
    return json.dumps([full_name(type(source)), files, *more, through])


def stamps_of(source) -> list:
    """When each container file was written last: a cache outlives a file that is written anew at the same size."""
    return [os.stat(path).st_mtime_ns for path in getattr(source, "shards", ())]
