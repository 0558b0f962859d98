"""Tables of images and their labels, as people write them: labels.csv for training, truth.csv for evaluation."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from newfound.errors import UserError
from newfound.strangers import read_small
from newfound.tables import unmarked

LIKE_UNKNOWN = ("", "-1", "-1.0", "nan", "none", "null", "na", "n/a", "<na>", "nat")
"""Texts, without case and spaces, that tables and arrays of strings hold where there is no label."""


class Row(NamedTuple):
    """One line of a table: the line's number, and the label, which may be empty."""

    line: int
    label: str


def same_name(image: str) -> str:
    """The one spelling of an image's path: ``./a//b.png`` is ``a/b.png``."""
    return str(PurePosixPath(image))


def require_a_name(row: Row, table: Path) -> None:
    """Stop if the label of a known image is a text by which programs say that there is none."""
    if row.label.strip().lower() in LIKE_UNKNOWN:
        raise UserError(
            f"{str(table)!r}, line {row.line}: the label {row.label!r} looks like one that is unknown: remove the line "
            "if it is, or give the category another name"
        )


def read_table(path: Path) -> dict[str, Row]:
    """The rows of a CSV file with the columns image and label, by the image's path (``same_name``).

    Other columns and empty lines are passed over. The file is UTF-8, with or without a byte order mark; a path in it
    may have bytes that are not, since file names may, a label may not. An image may come twice with one label. The mark
    of a name that a spreadsheet would calculate is taken off, as in the tables that runs write.
    """
    try:
        text = read_small(path).decode("utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise UserError(f"the table {str(path)!r} cannot be read: {(error.strerror or str(error)).lower()}") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: dict[str, Row] = {}
    columns: tuple[int, int] | None = None
    line = 1
    try:
        for fields in reader:
            here = f"{str(path)!r}, line {line}"
            if columns is None and fields:
                columns = _columns(fields, here)
            elif columns is not None and fields:
                image, row = _row(fields, columns, line, here)
                earlier = rows.setdefault(image, row)
                if earlier.label != row.label:
                    raise UserError(
                        f"{here}: image {image!r} has the label {row.label!r}, but {earlier.label!r} on line "
                        f"{earlier.line}; keep one of the two"
                    )
            line = reader.line_num + 1
    except csv.Error as error:
        raise UserError(f"{str(path)!r}, line {line}: not a CSV file ({error})") from None
    if columns is None:
        raise UserError(f"{str(path)!r}, line 1: expected the header image,label but the file is empty")
    return rows


def _columns(fields: list[str], here: str) -> tuple[int, int]:
    """Where in a row the image and the label are."""
    names = [field.strip() for field in fields]
    if "image" not in names or "label" not in names:
        found = ",".join(fields)[:60]
        raise UserError(f"{here}: expected the header image,label but found {found!r}; add it as the first line")
    return names.index("image"), names.index("label")


def _row(fields: list[str], columns: tuple[int, int], line: int, here: str) -> tuple[str, Row]:
    if len(fields) <= max(columns):
        raise UserError(f"{here}: expected an image and a label, found {','.join(fields)[:60]!r}")
    image, label = fields[columns[0]], unmarked("label", fields[columns[1]].strip())
    if not image:
        raise UserError(f"{here}: no image is named")
    try:
        label.encode()
    except UnicodeEncodeError:
        raise UserError(f"{here}: the label {label!r} is not UTF-8; save the table as UTF-8") from None
    return same_name(image), Row(line, label)


def read_answers(path: Path, names: Sequence[str]) -> tuple[str | None, ...]:
    """The label of each name [len(names)] in a table of images and labels; None where it has none."""
    rows = read_table(path)
    if not rows:
        raise UserError(f"{str(path)!r} has a header but no line after it: there is no answer to compare with")
    found = [rows.get(same_name(name)) for name in names]
    if names and not any(found):
        raise UserError(
            f"{str(path)!r} names none of the {len(names):,} images: it has {next(iter(rows))!r} where the run has "
            f"{names[0]!r}; write the images' names as the run does"
        )
    labels = tuple(row.label or None if row else None for row in found)
    if names and not any(labels):
        raise UserError(f"{str(path)!r} has no label for any of the {len(names):,} images: there is no answer in it")
    return labels
