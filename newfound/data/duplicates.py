"""Images that come more than once: told, and kept out of the pile where their category is known already."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from newfound.data.collection import Pool
from newfound.errors import UserError
from newfound.progress import Reporter


def leave_out_known(
    pool: Pool, labelled: np.ndarray, unlabelled: np.ndarray, reporter: Reporter
) -> tuple[np.ndarray, dict[int, int]]:
    """The rows of ``unlabelled`` [n] that show something no labelled image shows, and, for each of the others, the row
    of the labelled image it is the same as.

    The same are images that are equal pixel by pixel as they are read, that is at the size the method sees. An image
    that is in both parts has a known category; left in the pile it would be given a new one and draw its like along.
    What comes several times within one part stays, since its copies do no more harm than to count several times.
    """
    digest = [row.tobytes() for row in pool.images.digests()]
    known: dict[bytes, list[int]] = defaultdict(list)
    for row in labelled.tolist():
        known[digest[row]].append(row)
    same = {row: known[digest[row]][0] for row in unlabelled.tolist() if digest[row] in known}
    rest = np.array([row for row in unlabelled.tolist() if row not in same], dtype=np.int64)
    if len(unlabelled) and not len(rest):
        raise UserError(
            f"all {len(unlabelled):,} unlabelled images are among the labelled ones too, such as "
            f"{_pair(pool, *next(iter(same.items())))}: there is nothing to discover; give other images to discover in"
        )
    if same:
        pair = _pair(pool, *next(iter(same.items())))
        reporter.warn(
            f"{_of(len(same), len(unlabelled), 'unlabelled')} among the labelled ones too, such as {pair}: "
            "their category is known, so they are left out of the pile"
        )
    _warn_of_two_categories(pool, known, reporter)
    for part, rows in (("labelled", labelled), ("unlabelled", rest)):
        _warn_of_copies(pool, part, [digest[row] for row in rows.tolist()], rows, reporter)
    return rest, same


def _warn_of_two_categories(pool: Pool, known: dict[bytes, list[int]], reporter: Reporter) -> None:
    torn = [rows for rows in known.values() if len({pool.categories[row] for row in rows}) > 1]
    if torn:
        other = next(row for row in torn[0] if pool.categories[row] != pool.categories[torn[0][0]])
        count = "1 labelled image is" if len(torn) == 1 else f"{len(torn):,} labelled images are"
        reporter.warn(f"{count} in several categories, such as {_pair(pool, torn[0][0], other)}: keep each in one")


def _warn_of_copies(pool: Pool, part: str, digests: list[bytes], rows: np.ndarray, reporter: Reporter) -> None:
    first: dict[bytes, int] = {}
    copies = [row for row, digest in zip(rows.tolist(), digests, strict=True) if first.setdefault(digest, row) != row]
    if copies:
        original = first[digests[rows.tolist().index(copies[0])]]
        reporter.warn(
            f"{_of(len(copies), len(rows), part)} a copy of another one, such as {_pair(pool, copies[0], original)}: "
            "copies count as often as they come"
        )


def _of(count: int, total: int, part: str) -> str:
    return f"{count:,} of the {total:,} {part} images {'is' if count == 1 else 'are'}"


def _pair(pool: Pool, one: int, other: int) -> str:
    return f"{pool.names[one]!r} and {pool.names[other]!r}"
