# SPDX-License-Identifier: Apache-2.0
"""Labels as people list them, as the integers that a manifest holds: all are integers, or all are class names. One that is
neither would otherwise renumber all others in silence, so it is an error that says where it stands. Pure functions."""

import re

_INTEGER = re.compile(r"\s*([+-]?[0-9]+)(?:\.0*)?\s*")  # "10.0": what pandas makes of 10 where a cell of the column is missing
_END = 1 << 63


def numbered(labels, where) -> tuple:
    """(integers, class names). Class names are numbered in sorted order; of integers there are none. `where(number)` says for
    people where a label stands. ValueError names the first label that is missing, a fraction or no label at all, or that is
    an integer among names or a name among integers."""
    found, known = [], {}  # texts that came before: a million labels are of few classes
    for number, label in enumerate(labels):
        one = known.get(label) if type(label) is str else None
        if one is None:
            one = _integer_or_name(label, where, number)
            if type(label) is str:
                known[label] = one
        found.append(one)
    kind = type(found[0]) if found else int
    for number, one in enumerate(found):
        if type(one) is not kind:
            first, this = ("an integer", "a name") if kind is int else ("a name", "an integer")
            raise ValueError(
                f"{where(number)}: the label {labels[number]!r} is {this} and the first, {labels[0]!r}, {first}. Give integers only, or "
                "class names that are no numbers; where every line of a CSV counts, it can have no line of column names"
            )
    if kind is int:
        return found, []
    classes = sorted(set(found))
    numbers = {name: number for number, name in enumerate(classes)}
    return [numbers[name] for name in found], classes


def _integer_or_name(label, where, number):
    if isinstance(label, str):
        whole = _INTEGER.fullmatch(label)
        if whole is None:
            _refuse_what_is_no_name(label, where, number)
            return str(label)
        value = int(whole.group(1))
    else:
        try:
            value = int(label)
            sound = not isinstance(label, (bytes, bytearray)) and bool(value == label)
        except (TypeError, ValueError, OverflowError):  # None, not a number, infinite
            sound = False
        if not sound:
            raise ValueError(f"{where(number)}: the label {label!r} is neither an integer nor a class name (a text); leave rows without a label out")
    if not -_END <= value < _END:
        raise ValueError(f"{where(number)}: the label {label!r} does not fit 64 bits")
    return value


def _refuse_what_is_no_name(text: str, where, number) -> None:
    if not text.strip():
        raise ValueError(f"{where(number)}: the label is missing; leave the row out, or give it a class")
    try:
        float(text)
    except ValueError:
        return
    if "_" not in text and text.isascii():
        raise ValueError(f"{where(number)}: the label {text!r} is a number but no integer")
