"""Which true categories the images of each found category are of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def count_pairs(found: Sequence[str], truth: Sequence[str | None]) -> list[tuple[str, str, int]]:
    """Found category, true category and number of images, for every pair that has any; images without truth are left
    out. Most images first."""
    pairs = Counter((f, t) for f, t in zip(found, truth, strict=True) if t is not None)
    return [(f, t, images) for (f, t), images in sorted(pairs.items(), key=lambda item: (-item[1], item[0]))]
