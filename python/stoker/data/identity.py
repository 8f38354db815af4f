# SPDX-License-Identifier: Apache-2.0
"""What a source holds, as a text: in a pipe's plan, so that a state of other data is refused, and in the name of a disk cache.

Where its files lie is no part of that: a state goes on with a copy of them, as in a job. A cache may not, for a file of the
same name and size can hold something else: its name has places_of() too."""

import json
import os

from stoker.data.plan import full_name


def identity_of(source) -> str:
    """Of our own sources and of datasets with a method `identity()` that returns a str; "" where the contents are unknown."""
    if hasattr(source, "identity"):
        return str(source.identity())
    if hasattr(source, "plan_source"):
        described = source.plan_source()
        del described["root"]
        return json.dumps(described, sort_keys=True)
    return ""


def is_known(source) -> bool:
    """Whether identity_of() tells all that it holds: of a mixture, of all that it draws from."""
    parts = getattr(source, "sources", None)
    return all(map(is_known, parts)) if parts else bool(identity_of(source))


def what_stands_for(source) -> str:
    """Its identity, or its class and length where that is unknown."""
    return identity_of(source) or f"{full_name(type(source))}({len(source)})"


def common_folder(paths) -> str:
    """The deepest folder that all of these absolute paths are below: what is the same in all copies of the files is their paths in it."""
    return os.path.commonpath(map(os.path.dirname, paths)) if paths else "/"


def of_files(source, *more) -> str:
    """Of a source of container files (`source.shards`): their paths below their common folder and sizes, and what is
    read of them and how."""
    through = "" if source.transform is None else " ".join(repr(source.transform).split())
    paths = [os.path.abspath(path) for path in source.shards]
    folder = common_folder(paths)
    files = [[os.path.relpath(path, folder), os.path.getsize(path)] for path in paths]
    return json.dumps([full_name(type(source)), files, *more, through])


def places_of(source) -> list:
    """Where the files of a source are, and when each container file was written last: a cache outlives one that is written anew
    at the same size."""
    places = [place for part in getattr(source, "sources", ()) for place in places_of(part)]
    if hasattr(source, "plan_source"):
        places.append(source.plan_source()["root"])
    return places + [[os.path.abspath(path), os.stat(path).st_mtime_ns] for path in getattr(source, "shards", ())]
