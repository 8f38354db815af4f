# SPDX-License-Identifier: Apache-2.0
"""Columns of a CSV file that lists files: named by its first line, or numbered, when every line counts. A file without a
line of names would lose its first entry in silence, so a first line that names a file is an error. Pure but for reading."""

import csv
import itertools
import os

from stoker.data import unreadable

PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".avif", ".jp2")


def read(path: str, root: str, wanted: dict, needed: int) -> tuple:
    """(rows, the line that each ends in): of each line the cells of the columns `wanted`.

    wanted: {argument's name: column}, a name, a number from 0, or None for the first column that no other takes. Behind the first
    `needed` one that is None is None in every row where the file has no such column, or columns are numbered. Empty lines do
    not count. Blanks around the names of columns do not either; cells are given as they stand.
    """
    with (
        unreadable.named(path, "a CSV file with a line per picture"),
        open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as file,  # Excel puts a mark before the first cell
    ):
        lines = csv.reader(file, strict=True)
        rest = _rows(path, lines)
        first = next(rest, None)
        if first is None:
            raise ValueError(f"{path}: empty, where a line of column names is expected")
        at, given = lines.line_num, [column for column in wanted.values() if column is not None]
        numbered = bool(given) and not any(isinstance(column, str) for column in given)
        if not given:
            _refuse_what_names_no_columns(path, at, first, root, list(wanted)[: max(needed, len(first))], needed)
        columns = _columns(path, at, first, wanted, needed, numbered)
        rows, numbers = [], []
        for row in itertools.chain([first] if numbered else [], rest):
            if len(row) <= max(column for column in columns if column is not None):
                count = "one column" if len(row) == 1 else f"{len(row)} columns"
                raise ValueError(f"{path}, line {lines.line_num}: {count}, where line {at} has {len(first)}")
            rows.append([None if column is None else row[column] for column in columns])
            numbers.append(lines.line_num)
    return rows, numbers


def _rows(path: str, lines):
    """The rows that are not empty. What is no CSV is an error with the line in which its row begins."""
    while True:
        begin = lines.line_num + 1
        try:
            row = next(lines, None)
        except csv.Error as error:
            perhaps = "perhaps " if "field limit" in str(error) else ""
            why = f" ({perhaps}a quote that opens in it is not closed)" if perhaps or "end of data" in str(error) else ""
            raise ValueError(f"{path}, line {begin}: the row that begins there is no CSV: {error}{why}") from None
        if row is None:
            return
        if row:
            yield row


def _refuse_what_names_no_columns(path: str, at: int, first: list, root: str, arguments: list, needed: int) -> None:
    if first[0].lstrip().startswith("#"):
        raise ValueError(
            f"{path}, line {at}: the first line should name the columns, but begins with {first[0]!r}, as a comment does. Comments are not skipped: "
            f"take it out; if it does name them, say which one is meant, {arguments[0]}={first[0]!r}, say"
        )
    for name in first[:needed]:
        if name.lower().endswith(PICTURES) or (name.strip() and "\0" not in name and os.path.isfile(os.path.join(root, name))):
            columns = ",".join(argument.removesuffix("_column") for argument in arguments)
            numbers = ", ".join(f"{argument}={number}" for number, argument in enumerate(arguments))
            raise ValueError(
                f"{path}, line {at}: the first line should name the columns, but {name!r} is a file. Put a line such as `{columns}` before "
                f"it, or say {numbers}: with numbers every line counts"
            )


def _columns(path: str, at: int, first: list, wanted: dict, needed: int, numbered: bool) -> list:
    """The number of each column, or None."""
    found, names = [], [name.strip() for name in first]
    for argument, column in wanted.items():
        if isinstance(column, str):
            if column.strip() not in names:
                raise ValueError(f"{path}, line {at}: no column {column!r} among {', '.join(names)}")
            column = names.index(column.strip())
        elif column is not None and not 0 <= column < len(first):
            raise ValueError(f"{path}, line {at}: {argument}={column}, but columns are numbered 0 to {len(first) - 1}")
        found.append(column)
    left = [number for number in range(len(first)) if number not in found]
    for place, column in enumerate(found):
        if column is None and (place < needed or not numbered):
            if not left and place < needed:
                raise ValueError(f"{path}, line {at}: {len(first)} columns only, and {needed} are needed: {', '.join(list(wanted)[:needed])}")
            found[place] = left.pop(0) if left else None
    return found
