"""scikit-learn's handwritten digits, 8 x 8: the even ones are labelled, the odd ones are to be discovered."""

from __future__ import annotations

import numpy as np

from newfound.data.collection import Pool, Reading, assemble
from newfound.data.store import ImageStore

TEST_EVERY = 4
"""Every fourth image is kept apart for testing: 1,348 images remain to learn from, 449 test."""


def read_digits(seed: int) -> Reading:
    """The data set that ships inside scikit-learn, so nothing has to be downloaded."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    pixels = np.round(raw.images * (255 / 16)).astype(np.uint8)
    row = np.arange(len(pixels))
    pool = Pool(ImageStore.from_pixels(pixels), [f"digits-{i:04d}" for i in row], [str(t) for t in raw.target])
    held_out = row % TEST_EVERY == TEST_EVERY - 1
    even = raw.target % 2 == 0
    return assemble(
        pool,
        labelled=row[~held_out & even],
        unlabelled=row[~held_out & ~even],
        test=row[held_out],
        n_novel=5,
        seed=seed,
    )
