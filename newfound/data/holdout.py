"""Labelled images that are kept from training, so that there are images of known categories no network has seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from newfound.data.collection import Reading

FEWEST, MAX_HELD_OUT = 20, 1000
"""Held-out images, unless a share is asked for: 20 allow to reject one in twenty, and more than 1,000 tell no more."""
SHARE = 0.05
LARGEST = 0.1
"""If 20 images are more than this share of the labelled ones, none is held out: they are needed to learn from."""
SMALLEST_CATEGORY = 10


def set_aside(reading: Reading, share: float | None, seed: int) -> Reading:
    """The same images, with some of the labelled ones as test images; a reading that has test images stays as it is.

    Without ``share``, 20 images or five in a hundred are taken, at most 1,000, if there are 200 or more. Categories of
    fewer than ten images keep theirs; the others give in proportion to their size.
    """
    collection = reading.collection
    aside = _choose(collection.labels[: collection.n_labelled], share, seed)
    if collection.test is not None or not len(aside):
        return reading
    stay = np.delete(np.arange(len(collection.labels)), aside)
    names = np.array(reading.names.labelled, dtype=object)
    return replace(
        reading,
        collection=replace(
            collection,
            train=collection.train.take(stay),
            labels=collection.labels[stay],
            tasks=tuple(replace(task, rows=task.rows - len(aside)) for task in collection.tasks),
            test=collection.train.take(aside),
        ),
        names=replace(reading.names, labelled=tuple(np.delete(names, aside)), test=tuple(names[aside])),
    )


def _choose(labels: np.ndarray, share: float | None, seed: int) -> np.ndarray:
    """Rows of labelled images: evenly spaced in the list of them by category, so that each gives its part."""
    order = np.random.default_rng([seed, 0x401D]).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    order = order[np.bincount(labels)[labels[order]] >= SMALLEST_CATEGORY]
    if share is None:
        wanted = min(MAX_HELD_OUT, max(FEWEST, int(SHARE * len(order)))) if LARGEST * len(order) >= FEWEST else 0
    else:
        wanted = int(share * len(order))
    places = ((np.arange(wanted) + 0.5) * len(order) / max(1, wanted)).astype(np.int64)
    return np.random.default_rng([seed, 0x401E]).permutation(order[places])
