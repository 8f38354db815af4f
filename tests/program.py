# SPDX-License-Identifier: Apache-2.0
"""Which `stoker` program the system tests run."""

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
