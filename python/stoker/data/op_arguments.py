# SPDX-License-Identifier: Apache-2.0
"""Arguments of a pipe's op as the fields of a plan's op, and errors that name the op, the argument and what was given."""

import json
import math
import numbers
import re

from stoker import _native
from stoker.data.whole import whole


class Arguments:
    """Of one call. Methods take an argument's name and value; ValueError says what it should be. What the plan's own
    check refuses (ranges, counts) is told by check()."""

    def __init__(self, op: str):
        self.op = op

    def number(self, name: str, value) -> float:
        return self._number(name, value, "a number", value)

    def numbers(self, name: str, values, wanted: str = "a list of numbers") -> list:
        return [self._number(name, value, wanted, values) for value in self._listed(name, values, wanted)]

    def whole(self, name: str, value, least: int = 1) -> int:
        return whole(f"{self.op}(): {name}", value, least)

    def pair(self, name: str, value) -> list:
        """(height, width), or one number for both."""
        return [self.whole(name, side) for side in (value if _is_listed(value) else (value, value))]

    def span(self, name: str, value) -> list:
        """(from, to), or x for (-x, x)."""
        if _is_number(value):
            number = self.number(name, value)
            return [-number, number]
        return self.numbers(name, value, "a number x for (-x, x), or (from, to)")

    def channels(self, name: str, value) -> list:
        return [self.number(name, value)] if _is_number(value) else self.numbers(name, value, "a number, or one per channel")

    def strength(self, name: str, value) -> list:
        """x for [max(0, 1 - x), 1 + x] (hue: [-x, x]), or (from, to)."""
        if not _is_number(value):
            return self.numbers(name, value, "a number, or (from, to)")
        if name == "hue":
            return self.span(name, value)
        return [max(0.0, 1 - self.number(name, value)), 1.0 + self.number(name, value)]

    def sides(self, name: str, value) -> list:
        wanted = "a whole number, (x, y) or (left, top, right, bottom)"
        sides = self._listed(name, value, wanted) if not _is_number(value) else [value]
        if len(sides) not in (1, 2, 4) or not all(_is_number(side) and float(side).is_integer() for side in sides):
            raise self._wrong(name, wanted, value)
        return [int(side) for side in sides] * (4 // len(sides))

    def border(self, fill, mode: str) -> dict:
        return self._colour(fill) if mode == "constant" else {"mode": mode}

    def look(self, filter: str, fill) -> dict:
        return {**({} if filter == "nearest" else {"filter": filter}), **self._colour(fill)}

    def center(self, center) -> dict:
        return {} if center is None else {"center": self.numbers("center", center, "(x, y)")}

    def check(self, fields: dict) -> dict:
        """The op's fields, if a plan could hold them. Where the op may stand is seen when there is a pipe of it."""
        given = ", ".join(f"{key}={value!r}" for key, value in fields.items() if key != "op")
        try:
            text = json.dumps([fields], allow_nan=False)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.op}(): {given} can be in no plan: {error}") from None
        try:
            _native.pipeline.check_ops(text, None)
        except ValueError as error:
            found = re.match(r"ops\[0\](?:\.|: )(.*)", str(error), re.DOTALL)
            if found:
                raise ValueError(f"{self.op}(): {found[1]}; given was {given}") from None
        return fields

    def _colour(self, fill) -> dict:
        wanted = "a number or three, from 0 to 255"
        colour = [self._number("fill", fill, wanted, fill)] * 3 if _is_number(fill) else self.numbers("fill", fill, wanted)
        colour = [int(x) for x in colour]
        return {"fill": colour} if any(colour) else {}

    def _listed(self, name: str, values, wanted: str) -> list:
        if not _is_listed(values):
            raise self._wrong(name, wanted, values)
        return list(values)

    def _number(self, name: str, value, wanted: str, given) -> float:
        try:
            found = math.nan if isinstance(value, (str, bytes)) else float(value)
        except (TypeError, ValueError, OverflowError):
            found = math.nan
        if not math.isfinite(found):
            raise self._wrong(name, wanted, given)
        return found

    def _wrong(self, name: str, wanted: str, given) -> ValueError:
        return ValueError(f"{self.op}(): {name} should be {wanted}, but got {given!r}")


def _is_number(value) -> bool:
    return isinstance(value, numbers.Real) or getattr(value, "shape", None) == ()


def _is_listed(value) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, (str, bytes, dict)) and getattr(value, "shape", None) != ()
