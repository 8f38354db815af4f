# SPDX-License-Identifier: Apache-2.0
"""The fields of a request for a job are one list in the code, and its page says the same."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_page_of_job_requests_lists_the_fields_that_there_are():
    code = (ROOT / "src/control/request_shape.cc").read_text().partition("kJobFields[]")[2].partition("};")[0]
    known = re.findall(r'\{"(\w+)", &Json::', code)
    page = (ROOT / "docs/formats/job-request.md").read_text().partition("## `DELETE")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == sorted(known) != []
