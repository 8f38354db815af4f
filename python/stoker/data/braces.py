# SPDX-License-Identifier: Apache-2.0
"""Braces in names of files, as bash expands them: lists `{a,b{c,d}}`, ranges `{000..012}`, `{9..0..3}`, `{a..c}`; other braces
stand for themselves. Pure and lazy: whoever iterates decides how many names are too many."""

import re

_NUMBERS = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?", re.ASCII)
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d+))?", re.ASCII)


def expand(pattern: str):
    """The names that a pattern stands for, in order: at least one."""
    begin = pattern.find("{")
    while begin >= 0:
        parts, end = _parts(pattern, begin)
        choices = _choices(parts)
        if choices is not None:
            head, tail = pattern[:begin], pattern[end:]
            for choice in choices:
                for rest in expand(tail):
                    yield head + choice + rest
            return
        begin = pattern.find("{", begin + 1)
    yield pattern


def _parts(pattern: str, begin: int) -> tuple:
    """What stands between the commas of the brace that opens at `begin`, and where it is over; no parts if it never closes."""
    parts, depth, start = [], 0, begin + 1
    for at in range(begin, len(pattern)):
        if pattern[at] == "{":
            depth += 1
        elif pattern[at] == "}":
            depth -= 1
        if depth == 0 or (depth == 1 and pattern[at] == ","):
            parts.append(pattern[start:at])
            start = at + 1
        if depth == 0:
            return parts, at + 1
    return [], begin


def _choices(parts: list):
    """Iterable of texts; None for a brace that stands for itself."""
    if len(parts) > 1:
        return (one for part in parts for one in expand(part))
    if not parts:
        return None
    numbers = _NUMBERS.fullmatch(parts[0])
    if numbers:
        first, last = numbers[1], numbers[2]
        padded = any(re.match("-?0[0-9]", one) for one in (first, last))
        width = max(len(first), len(last)) if padded else 0
        return (f"{number:0{width}d}" if width else str(number) for number in _span(int(first), int(last), numbers[3]))
    letters = _LETTERS.fullmatch(parts[0])
    if letters:
        return map(chr, _span(ord(letters[1]), ord(letters[2]), letters[3]))
    return None


def _span(first: int, last: int, step) -> range:
    """Both ends in it, down where the last is lower; the sign of a step counts no more than in bash."""
    stride = abs(int(step or 1)) or 1
    return range(first, last + 1, stride) if first <= last else range(first, last - 1, -stride)
