"""Tables of images and their labels, as people write them: labels.csv for training, truth.csv for evaluation."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from newfound.errors import UserError
from newfound.progress import Reporter
from newfound.strangers import read_small
from newfound.tables import unmarked

LIKE_UNKNOWN = ("", "-1", "-1.0", "nan", "none", "null", "na", "n/a", "<na>", "nat")
"""Texts, without case and spaces, that tables and arrays of strings hold where there is no label."""
SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab"}
"""What may stand between the columns of a table: programs that write a comma in decimal numbers write the others."""
HEADER = 2**16
"""Characters of a table that its header is looked for in."""


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


def read_text(path: Path, what: str) -> str:
    """The text of a table, which errors call ``what``: UTF-8, or UTF-16 that says so with a byte order mark. Names in
    UTF-8 may have bytes that are not."""
    try:
        content = read_small(path)
    except OSError as error:
        raise UserError(f"{what} {str(path)!r} cannot be read: {(error.strerror or str(error)).lower()}") from None
    if not content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-8-sig", errors="surrogateescape")
    try:
        return content.decode("utf-16")
    except UnicodeDecodeError:
        raise UserError(f"{what} {str(path)!r} begins as UTF-16 and goes on otherwise: save it as UTF-8") from None


def separator_of(text: str, *columns: str) -> str | None:
    """What stands between the columns of a table whose header has those ``columns``; None where no line is one."""
    beginning = text.lstrip("\r\n")[:HEADER]
    for separator in SEPARATORS:
        try:
            header = next(csv.reader(io.StringIO(beginning, newline=""), delimiter=separator), [])
        except csv.Error:
            continue
        if {field.strip() for field in header}.issuperset(columns):
            return separator
    return None


def read_table(path: Path) -> dict[str, Row]:
    """The rows of a CSV file with the columns image and label, by the image's path (``same_name``).

    A comma, a semicolon or a tab separates the columns. Other columns and empty lines are passed over. The file is
    UTF-8, with or without a byte order mark, or UTF-16 with one; a path in it may have bytes that are not UTF-8, since
    file names may, a label may not. An image may come twice with one label. The mark of a name that a spreadsheet would
    calculate is taken off, as in the tables that runs write.
    """
    text = read_text(path, "the table")
    separator = separator_of(text, "image", "label") or ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows: dict[str, Row] = {}
    columns: tuple[int, int] | None = None
    line = 1
    try:
        for fields in reader:
            here = f"{str(path)!r}, line {line}"
            if columns is None and fields:
                columns = _columns(fields, here)
            elif columns is not None and fields:
                image, row = _row(fields, columns, separator, here, line)
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
        found, (*some, last) = ",".join(fields)[:60], SEPARATORS.values()
        if "\0" in found:
            raise UserError(
                f"{here}: this is no UTF-8 text, and no UTF-16 that says so: save the table as CSV in UTF-8"
            )
        between = f"{', '.join(some)} or {last}"
        raise UserError(
            f"{here}: expected the header image,label but found {found!r}; add it as the first line, with {between} "
            "between the columns"
        )
    return names.index("image"), names.index("label")


def _row(fields: list[str], columns: tuple[int, int], separator: str, here: str, line: int) -> tuple[str, Row]:
    if len(fields) <= max(columns):
        found = separator.join(fields)[:60]
        between = f"{SEPARATORS[separator]} between the columns"
        raise UserError(f"{here}: expected an image and a label, with {between} as in the header; found {found!r}")
    image, label = fields[columns[0]], unmarked("label", fields[columns[1]].strip())
    if not image:
        raise UserError(f"{here}: no image is named")
    try:
        label.encode()
    except UnicodeEncodeError:
        raise UserError(f"{here}: the label {label!r} is not UTF-8; save the table as UTF-8") from None
    return same_name(image), Row(line, label)


def read_answers(path: Path, names: Sequence[str], reporter: Reporter | None = None) -> tuple[str | None, ...]:
    """The label of each name [len(names)] in a table of images and labels; None where it has none. The ``reporter``
    says how many names in the table are others."""
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
    if reporter and (strange := rows.keys() - set(map(same_name, names))):
        example = next(name for name in rows if name in strange)
        count = (
            f"{len(strange):,} names in the table are no images"
            if len(strange) > 1
            else "1 name in the table is no image"
        )
        reporter.say(f"{count} of this run, such as {example!r}")
    return labels
