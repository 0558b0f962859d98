"""Confidence: the probability that an image is in the right category, by what became of known images."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.linear_model import LogisticRegression

from newfound.data.collection import Collection
from newfound.methods.base import Outcome
from newfound.trust.gauges import found_in
from newfound.trust.rehearsal import Rehearsal, margin

FEWEST = 20
"""Known images that confidence is calibrated on, at the least."""


def calibrated(collection: Collection, outcome: Outcome, rehearsal: Rehearsal | None) -> Outcome:
    """The outcome with calibrated confidence, or with the model's own where there is no rehearsal to calibrate it on.
    An image that is alone in its category has 0: nothing speaks for it."""
    alone = np.bincount(outcome.assignments)[outcome.assignments] == 1
    features = found_in(outcome)
    if rehearsal is None or len(rehearsal.right) < FEWEST or features is None:
        return replace(outcome, confidence=np.where(alone, 0.0, outcome.confidence))
    pile = margin(features[collection.n_labelled :], outcome.assignments)
    return replace(outcome, confidence=np.where(alone, 0.0, _probability(rehearsal, pile)), calibrated=True)


def _probability(rehearsal: Rehearsal, margins: np.ndarray) -> np.ndarray:
    """The probability of being right at these margins [n], by logistic regression on the rehearsal. As in Platt's
    scaling one image more is counted right and one wrong, so that no probability is 0 or 1. A rehearsal in which
    clearer images are not the right ones gives all images its share."""
    n, right = len(rehearsal.right), int(rehearsal.right.sum())
    target = np.where(rehearsal.right, (right + 1) / (right + 2), 1 / (n - right + 2))
    x, y = np.tile(rehearsal.margin, 2)[:, None], np.repeat([1, 0], n)
    spread = max(float(rehearsal.margin.std()), 1e-6)
    fitted = LogisticRegression().fit(x / spread, y, sample_weight=np.concatenate([target, 1 - target]))
    if fitted.coef_[0, 0] <= 0:
        return np.full(len(margins), (right + 1) / (n + 2))
    found: np.ndarray = fitted.predict_proba(margins[:, None] / spread)[:, 1]
    return found
