# SPDX-License-Identifier: Apache-2.0
"""The rules against small trees that keep or break them."""
import subprocess
import sys
from pathlib import Path

import layers
import pytest

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"


def tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [f"{path}:{number}: {rule}" for path, number, rule in layers.check(root)]


def test_a_good_tree_passes(tmp_path):
    assert tree(tmp_path, {
        "src/base/result.h": SPDX + "#include <string>\n",
        "src/feed/client.cc": SPDX + '#include "feed/client.h"\n#include "pipeline/plan.h"\n#include <boost/asio.hpp>\n',
        "src/control/scheduler.cc": SPDX + '#include "agent/protocol.h"\n',
        "src/main.cc": SPDX + '#include "control/store.h"\n#include "feed/client.h"\n',
        "README.md": "no licence line is needed here\n",
    }) == []


@pytest.mark.parametrize("name, text, expected", [
    ("src/image/a.cc", SPDX + '\n#include "pipeline/plan.h"\n', 'src/image/a.cc:3: image may not include "pipeline/plan.h"'),
    ("src/control/a.cc", SPDX + '#include "agent/shim.h"\n', 'src/control/a.cc:2: control may not include "agent/shim.h"'),
    ("src/agent/a.h", SPDX + '#include "feed/client.h"\n', 'src/agent/a.h:2: agent may not include "feed/client.h"'),
    ("src/junk/a.cc", SPDX, "src/junk/a.cc:1: src/junk is no room"),
    ("src/base/a.cc", "int x;\n", "src/base/a.cc:1: no line `SPDX"),
    ("src/base/a.cc", SPDX + "\n" * 600, "src/base/a.cc:601: 601 lines"),
    ("src/base/utils.h", SPDX, "src/base/utils.h:1: a drawer's name"),
    ("README.md", "see `src/base/gone.h`.\n", "README.md:1: names src/base/gone.h"),
    ("docs/a.md", "see\n/wo" + "rk/main\n", "docs/a.md:2: the path of one machine"),
    ("tools/a.txt", "https://pypi.or" + "g/simple\n", "tools/a.txt:1: a registry's host"),
])
def test_each_breach_is_named_with_its_line(tmp_path, name, text, expected):
    (breach,) = tree(tmp_path, {name: text})
    assert breach.startswith(expected)


def test_a_third_party_header_may_not_pass_through_a_room_s_door(tmp_path):
    breaches = tree(tmp_path, {
        "src/base/json.h": SPDX + "#include <boost/json.hpp>\n",
        "src/base/json_impl.h": SPDX + "#include <boost/json.hpp>\n",
        "src/http/message.cc": SPDX + '#include "base/json.h"\n',
    })
    assert breaches == ["src/base/json.h:2: <boost/json.hpp> in a header that http includes"]


def test_the_program_fails_on_a_bad_tree_and_says_where(tmp_path):
    tree(tmp_path, {"src/base/a.cc": "int x;\n"})
    program = Path(layers.__file__)
    done = subprocess.run([sys.executable, program, tmp_path], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.startswith("src/base/a.cc:1:")
