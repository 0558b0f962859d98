"""Tables of names and numbers as CSV text, which spreadsheets may open."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a cell begins that a spreadsheet calculates, instead of showing it; the last four are = + - @ at full width."""


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """CSV text that ``parse_table`` reads back as it was given, and in which a spreadsheet finds no formula.

    A name that a spreadsheet would calculate gets ./ before it where it is a file's, which is the same path, and an
    apostrophe where it is not. Python leaves a carriage return without quotes, and then a row that has one ends there
    for every reader; such a row is quoted throughout."""
    text = io.StringIO()
    plain = csv.writer(text, lineterminator="\n")
    quoted = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    (quoted if any("\r" in name for name in header) else plain).writerow(header)
    marks = [_mark(column) for column in header]
    for row in rows:
        cells = [mark + cell if _calculates(cell, mark) else cell for mark, cell in zip(marks, row, strict=True)]
        (quoted if any("\r" in cell for cell in cells) else plain).writerow(cells)
    return text.getvalue()


def parse_table(file: Iterable[str]) -> list[dict[str, str]]:
    """The rows of such a table, by the names of its columns."""
    rows: list[dict[str, str]] = list(csv.DictReader(file))
    for row in rows:
        for column, cell in row.items():
            if isinstance(cell, str):
                row[column] = unmarked(column, cell)
    return rows


def unmarked(column: str, cell: str) -> str:
    """A cell without the mark that ``format_table`` put before it."""
    mark = _mark(column)
    return cell.removeprefix(mark) if cell.startswith(mark) and _calculates(cell, mark) else cell


def _mark(column: str) -> str:
    return "./" if column in ("image", "file") else "'"


def _calculates(cell: str, mark: str) -> bool:
    """Whether a spreadsheet would take the cell for a formula, or somebody for one that was marked already."""
    while cell.startswith(mark):
        cell = cell.removeprefix(mark)
    return cell.startswith(FORMULA)
