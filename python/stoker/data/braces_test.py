# SPDX-License-Identifier: Apache-2.0
"""Braces give what bash gives for them."""

import itertools
import shutil
import subprocess

import pytest

from stoker.data.braces import expand

PATTERNS = [
    "a-{00..02}-{x,y}.tar", "a-{9..11}", "x{2..0}.tar", "{000..002}", "{02..0}", "{1..010}", "{-2..1}", "{-01..1}", "{0..10..3}",
    "{10..0..3}", "{0..9..-4}", "{3..1..0}", "{1..1}", "{a..d}", "{d..a}", "{a..e..2}", "{a,{b,c}}", "{a,b{1..3},c}d", "{a,b}{c,d}{1,2}",
    "{a}", "{}", "x{1}.tar", "{a{b,c}}", "a{b", "a}b{c,d}", "{a,b", "{{a,b}", "{a,b}}", "{,x}y", "{x,}y", "{1..}", "{1...3}", "{1..a}",
    "plain.tar", "{1..3}{", "{x,y..z}", "{1..2,x}", "{..}", "a{,}b",
]  # fmt: skip


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is what is compared with")
def test_braces_as_in_bash():
    script = "".join(f"printf '%s\\n' {pattern}; echo =\n" for pattern in PATTERNS)
    said = subprocess.run(["bash", "-f", "-c", script], capture_output=True, text=True, check=True).stdout
    for pattern, names in zip(PATTERNS, said.split("=\n")[:-1], strict=True):
        assert list(expand(pattern)) == names.splitlines(), pattern


def test_names_are_made_one_by_one():
    many = "{0..99999999}{0..99999999}{a,b}"
    assert list(itertools.islice(expand(many), 3)) == ["00a", "00b", "01a"]
