# SPDX-License-Identifier: Apache-2.0
"""What the system says of a path that a user gave, with what was to be there."""

import contextlib
import os


@contextlib.contextmanager
def named(path, wanted: str):
    """An OSError of within, about `path` itself, is raised again as one of its class: "PATH: why; wanted is …"."""
    try:
        yield
    except OSError as error:
        if error.strerror is None:  # it has been told already
            raise
        at = os.fsdecode(error.filename if error.filename is not None else path)
        raise type(error)(f"{at}{resolved(at)}: {error.strerror}; wanted is {wanted}") from None


def resolved(path) -> str:
    """What a relative path means here, to be put behind it in an error."""
    path = os.fsdecode(path)
    return "" if os.path.isabs(path) else f" (which is {os.path.abspath(path)} here)"


def path_of(argument: str, path):
    """`path` where it can be one; TypeError names the argument."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"{argument} should be a path, but got {path!r}")
    return path
