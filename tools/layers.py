#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our own rules about files, checked: what a room may include, and a few habits. Prints FILE:LINE: RULE for each breach.

    tools/layers.py [ROOT]

The rooms (ARCHITECTURE.md) in the order the data meets them, and what each may include besides itself.
"""
import os
import re
import sys
from pathlib import Path

ROOMS = {
    "base": [],
    "wire": ["base"],
    "http": ["base", "wire"],
    "image": ["base"],
    "storage": ["base", "http"],
    "telemetry": ["base"],
    "collective": ["base", "wire"],
    "pipeline": ["base", "image", "storage/object.h"],
    "feed": ["base", "wire", "pipeline", "telemetry"],
    "agent": ["base", "http", "storage", "telemetry"],
    "control": ["base", "http", "agent/protocol.h"],
    "api": ["base", "http", "storage", "telemetry", "control"],
    "bindings": ["base", "wire", "image", "pipeline", "feed", "collective", "telemetry"],
    "cli": ["base", "http"],
}
# A header that another room includes brings none of these along: they are slow to compile, or foreign in the extension.
THIRD_PARTY = re.compile(r"(boost/|sqlite3|CLI/|nanobind/|jpeglib|png\.h|openssl/|curl/|archive|fuse|zstd|yaml-cpp/|gtest/|gmock/)")
# Names that say nothing about what is inside.
DRAWERS = {"utils", "util", "common", "types", "interfaces", "misc"}
MOST_LINES = 600

CODE = {".cc", ".h", ".py", ".pyi", ".sh", ".cmake", ".js", ".css"}
TEXT = CODE | {".md", ".txt", ".toml", ".json", ".yml", ".yaml", ".html", ""}
NO_EXTENSION_CODE = {"Makefile", "CMakeLists.txt", "setup", "check", "wheel", "run"}
SKIPPED_FOLDERS = {".git", ".venv", "build", "dist", "__pycache__", ".pytest_cache", "node_modules"}
INCLUDE = re.compile(r'\s*#\s*include\s+(["<])([^">]+)[">]')
NAMED_FILE = re.compile(r"(?<![\w./])((?:src|python|tools|bench|docs|examples|tests)/[\w./-]*\w)(?![\w./-]*\*)")
# Spelled in pieces, so that this file passes its own rules.
PLACES = re.compile(r"(?<![\w.~-])/wo" + r"rk/(?!\s)")
HOSTS = re.compile(
    r"(?<![\w-])(pypi\.or" + r"g|pythonhosted\.or" + r"g|deb\.debian\.or" + r"g|registry\.npmjs\.or" + r"g|"
    r"proxy\.golang\.or" + r"g|crates\.i" + r"o|download\.pytorch\.or" + r"g)"
)


def files_of(root):
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in SKIPPED_FOLDERS and not name.endswith(".egg-info"))
        for name in sorted(files):
            path = Path(folder) / name
            if path.suffix in TEXT and name != ".git" and not path.is_symlink():
                yield path.relative_to(root)


def may_include(room, header):
    """Whether a file of `room` may include "header" (a path under src/)."""
    if header.split("/")[0] == room:
        return True
    return any(header == allowed or header.split("/")[0] == allowed for allowed in ROOMS[room])


def includes(lines):
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1) == '"', match.group(2)


def check_includes(path, lines, breaches, headers):
    """`headers` gathers what the check across files needs: {header: (rooms that include it, third-party lines)}."""
    parts = path.parts
    room = parts[1] if parts[0] == "src" and len(parts) > 2 else None
    if parts[0] == "src" and len(parts) > 2 and room not in ROOMS:
        breaches.append((path, 1, f"src/{room} is no room: the rooms are listed in tools/layers.py"))
        return
    for number, ours, header in includes(lines):
        if not ours:
            if room and path.suffix == ".h" and THIRD_PARTY.match(header):
                headers.setdefault("/".join(parts[1:]), (set(), []))[1].append((path, number, header))
            continue
        target = header.split("/")[0]
        if target not in ROOMS:
            continue
        if room and not may_include(room, header):
            allowed = ", ".join(ROOMS[room]) or "no other room"
            breaches.append((path, number, f'{room} may not include "{header}": it may include {allowed}'))
        if room != target:
            headers.setdefault(header, (set(), []))[0].add(room or parts[0])


def check_headers(headers, breaches):
    for users, third_party in headers.values():
        rooms = sorted(user for user in users if user in ROOMS)
        for path, number, header in third_party if rooms else []:
            breaches.append((path, number, f"<{header}> in a header that {', '.join(rooms)} includes"))


def is_code(path):
    return path.suffix in CODE or path.name in NO_EXTENSION_CODE


def check_habits(path, lines, breaches):
    if is_code(path) and not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:4]):
        breaches.append((path, 1, "no line `SPDX-License-Identifier: Apache-2.0`"))
    if is_code(path) and len(lines) > MOST_LINES:
        breaches.append((path, MOST_LINES + 1, f"{len(lines)} lines: over {MOST_LINES}; look for the second idea in it"))
    if path.stem in DRAWERS or DRAWERS & set(path.parts[:-1]):
        breaches.append((path, 1, "a drawer's name: a type lives with the room that gives it meaning"))
    for number, line in enumerate(lines, 1):
        if PLACES.search(line):
            breaches.append((path, number, "the path of one machine"))
        if HOSTS.search(line):
            breaches.append((path, number, "a registry's host: use its client as it is configured"))


def check_pages(root, path, lines, breaches):
    """Front pages name files; each must be there."""
    if len(path.parts) > 1 or path.suffix != ".md":
        return
    for number, line in enumerate(lines, 1):
        for named in NAMED_FILE.findall(line):
            if not (Path(root) / named).exists():
                breaches.append((path, number, f"names {named}, which is not there"))


def check(root):
    breaches, headers = [], {}
    for path in files_of(root):
        try:
            lines = (Path(root) / path).read_text().splitlines()
        except UnicodeDecodeError:
            continue
        check_habits(path, lines, breaches)
        check_pages(root, path, lines, breaches)
        if path.suffix in {".cc", ".h"}:
            check_includes(path, lines, breaches, headers)
    check_headers(headers, breaches)
    return sorted(breaches)


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    breaches = check(root)
    for path, number, rule in breaches:
        print(f"{path}:{number}: {rule}")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
