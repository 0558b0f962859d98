"""Found categories that may be two."""

from __future__ import annotations

import numpy as np
import torch

from newfound.data.collection import Collection
from newfound.methods.base import Outcome
from newfound.trust.gauges import found_in
from newfound.trust.rehearsal import Rehearsal, spread

FEWEST_KNOWN = 4
"""Known categories whose spread is measured, at the least."""
ABOVE, LEAST_DEVIATION = 1.5, 0.02
"""Deviations above the mean spread of known categories from which a category counts as two, and what is added to a
deviation, which a few categories may make too small: docs/trust-figures.md."""


def merged(collection: Collection, outcome: Outcome, rehearsal: Rehearsal | None) -> list[int]:
    """The found categories whose images are less alike than those of known categories are: probably two in one.

    Both are measured in features that the labels of the category have not touched."""
    features = found_in(outcome)
    if rehearsal is None or features is None or len(rehearsal.spreads) < FEWEST_KNOWN:
        return []
    bar = rehearsal.spreads.mean() + ABOVE * (rehearsal.spreads.std() + LEAST_DEVIATION)
    pile, told = features[collection.n_labelled :], []
    for category in collection.candidates.tolist():
        rows = torch.from_numpy(np.flatnonzero(outcome.assignments == category))
        found = spread(pile[rows.to(pile.device)])
        if found is not None and found > bar:
            told.append(category)
    return told
