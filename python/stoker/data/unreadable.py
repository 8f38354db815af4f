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
        raise type(error)(f"{at}: {error.strerror}; wanted is {wanted}") from None
