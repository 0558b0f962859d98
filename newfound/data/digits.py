"""scikit-learn's handwritten digits, 8 x 8: the even ones are labelled, the odd ones are to be discovered."""

from __future__ import annotations

import numpy as np

from newfound.data.collection import Pool, Reading, assemble
from newfound.data.hiding import hide_half
from newfound.data.store import ImageStore

TEST_EVERY = 4
"""Every fourth image is kept apart for testing: 1,348 images remain to learn from, 449 test."""


def read_digits(seed: int, *, mixed: bool = False) -> Reading:
    """The data set that ships inside scikit-learn, so nothing has to be downloaded."""
    return read_split(seed, known=(0, 2, 4, 6, 8), novel=(1, 3, 5, 7, 9), mixed=mixed)


def read_digits_rehearsal(seed: int, *, mixed: bool = False) -> Reading:
    """Labelled digits only, to choose settings with: 4, 6 and 8 pretend to be novel."""
    return read_split(seed, known=(0, 2), novel=(4, 6, 8), mixed=mixed)


def read_split(seed: int, known: tuple[int, ...], novel: tuple[int, ...], *, mixed: bool = False) -> Reading:
    """Some digits known, some to be discovered, no others. A ``mixed`` pile has half of the known ones, too."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    pixels = np.round(raw.images * (255 / 16)).astype(np.uint8)
    row = np.arange(len(pixels))
    pool = Pool(ImageStore.from_pixels(pixels), [f"digits-{i:04d}" for i in row], [str(t) for t in raw.target])
    held_out = row % TEST_EVERY == TEST_EVERY - 1
    old, new = np.isin(raw.target, known), np.isin(raw.target, novel)
    labelled, hidden = row[~held_out & old], row[:0]
    if mixed:
        labelled, hidden = hide_half(labelled, raw.target, seed)
    return assemble(
        pool,
        labelled=labelled,
        unlabelled=np.concatenate([hidden, row[~held_out & new]]),
        test=row[held_out & (old | new)],
        n_novel=len(novel),
        seed=seed,
        mixed=mixed,
    )
