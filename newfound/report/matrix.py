"""The confusion matrix as a page shows it: which found category stands for which true one, and the pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from newfound.report.text import fitted

MOST_LINES = 1000
"""Rows, and columns, at the most: the largest."""
MOST_CELLS = 60_000
NAME_BYTES = 250_000

Pairs = Sequence[tuple[str, str, int]]
"""Found category, true category, images."""


def meanings(pairs: Pairs) -> dict[str, str]:
    """The true category each found one stands for: the one-to-one matching under which the most images are right."""
    largest = _largest(pairs, 0), _largest(pairs, 1)
    pairs = [pair for pair in pairs if pair[0] in largest[0] and pair[1] in largest[1]]
    found, truth = sorted({p[0] for p in pairs}), sorted({p[1] for p in pairs})
    table = _table(pairs, found, truth)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return {found[r]: truth[c] for r, c in zip(rows, columns, strict=True) if table[r, c]}


def matrix(
    title: str, pairs: Pairs, novel: Sequence[str], known: Sequence[str], meaning: Mapping[str, str]
) -> dict[str, Any]:
    """Rows (found: ``novel`` categories, then ``known`` ones, which "old" lists), columns (true, so that what
    ``meaning`` matches is on the diagonal) and cells [row, column, images, …]; "match" has each row's column, -1 where
    it stands for none."""
    shown_found, shown_truth = _largest(pairs, 0), _largest(pairs, 1)
    place = {name: i for i, name in enumerate([*novel, *known])}
    found = sorted(shown_found, key=lambda name: (place.get(name, len(place)), name))
    truth = [meaning[name] for name in found if meaning.get(name) in shown_truth]
    truth += sorted(shown_truth - set(truth))
    row, column = ({name: i for i, name in enumerate(names)} for names in (found, truth))
    inside = [(row[f], column[t], n) for f, t, n in pairs if f in row and t in column]
    cells = sorted(inside, key=lambda cell: -cell[2])[:MOST_CELLS]
    return {
        "title": title,
        "rows": fitted(found, NAME_BYTES),
        "old": [i for i, name in enumerate(found) if len(novel) <= place.get(name, -1)],
        "columns": fitted(truth, NAME_BYTES),
        "match": [column.get(meaning.get(name, ""), -1) for name in found],
        "cells": [number for cell in cells for number in cell],
        "images": sum(n for _, _, n in pairs),
        "shown": sum(n for _, _, n in cells),
    }


def _largest(pairs: Pairs, side: int) -> set[str]:
    sizes: dict[str, int] = {}
    for pair in pairs:
        sizes[str(pair[side])] = sizes.get(str(pair[side]), 0) + pair[2]
    return set(sorted(sizes, key=lambda name: (-sizes[name], name))[:MOST_LINES])


def _table(pairs: Pairs, found: list[str], truth: list[str]) -> np.ndarray:
    row, column = ({name: i for i, name in enumerate(names)} for names in (found, truth))
    table = np.zeros((len(found), len(truth)), np.int64)
    for f, t, images in pairs:
        table[row[f], column[t]] += images
    return table
