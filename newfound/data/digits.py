"""scikit-learn's handwritten digits, 8 x 8: the even ones are labelled, the odd ones are to be discovered."""

from __future__ import annotations

import numpy as np

from newfound.data.collection import Part, Reading, assemble

TEST_EVERY = 4
"""Every fourth image is kept apart for testing: 1,348 images remain to learn from, 449 test."""


def read_digits(seed: int) -> Reading:
    """The data set that ships inside scikit-learn, so nothing has to be downloaded."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    images = np.round(raw.images * (255 / 16)).astype(np.uint8)[:, None]
    order = np.arange(len(images))
    everything = Part(images, tuple(f"digits-{i:04d}" for i in order), tuple(str(t) for t in raw.target))
    held_out = order % TEST_EVERY == TEST_EVERY - 1
    even = raw.target % 2 == 0
    return assemble(
        everything.take(order[~held_out & even]),
        everything.take(order[~held_out & ~even]),
        everything.take(order[held_out]),
        seed=seed,
    )
