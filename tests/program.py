# SPDX-License-Identifier: Apache-2.0
"""Which `stoker` program the system tests run, and where one that was started listens."""

import os
import shutil
import sys
from pathlib import Path

import pytest


def binary() -> str:
    """The one named by $STOKER_BIN, beside this interpreter, in the build folder, or on PATH; the test is skipped without one."""
    root = Path(__file__).resolve().parent.parent
    for place in (os.environ.get("STOKER_BIN"), Path(sys.executable).parent / "stoker", root / "build/release/stoker"):
        if place and os.access(place, os.X_OK):
            return str(place)
    found = shutil.which("stoker")
    if not found:
        pytest.skip("no stoker program was built")
    return found


def address_of(process, tell) -> str:
    """Where a server says that it listens, on its standard error, which is text; tell(line) is called for each line up to that."""
    said = ""
    for line in process.stderr:
        tell(line)
        said += line
        if "listening on " in line:
            return line.rsplit("listening on ", 1)[1].strip()
    raise AssertionError("did not start: " + said)
