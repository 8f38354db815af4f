# SPDX-License-Identifier: Apache-2.0
"""Whole numbers that users give: the one check of them, with one wording."""

import operator

SEED_END = 1 << 63  # seeds are from 0 to below it


def whole(name: str, value, least: int = 0, end: int | None = None) -> int:
    """`value` as an int from `least` to below `end`; NumPy's integers are such, True, 2.0 and "2" are not."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least or (end is not None and number >= end):
        limit = "on" if end is None else f"to below {end}" if end != SEED_END else "to below 2^63"
        raise ValueError(f"{name} should be a whole number from {least} {limit}, but got {value!r}")
    return number
