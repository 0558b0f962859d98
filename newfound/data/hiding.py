"""Known images put into the pile, for data sets that are read as mixed piles."""

from __future__ import annotations

import numpy as np


def hide_half(rows: np.ndarray, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows that keep their labels and those that go into the pile, both rising: of each category half, as Vaze et
    al. (2022) split data sets for generalised category discovery. Of an odd number the larger part keeps its labels.

    ``labels`` has the category of every row there is, not of ``rows`` alone.
    """
    rng = np.random.default_rng([seed, 0x41DE])
    members = [rng.permutation(rows[labels[rows] == category]) for category in np.unique(labels[rows])]
    pile = np.sort(np.concatenate([some[: len(some) // 2] for some in members]))
    return np.setdiff1d(rows, pile), pile
