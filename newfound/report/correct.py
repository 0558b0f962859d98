"""What the page needs so that a person can correct on it what was found: all names as they are written on the disk."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from newfound.data.answers import LIKE_UNKNOWN
from newfound.data.sources import Source
from newfound.report.keep import Kept


def correctable(
    source: Source,
    kept: Kept,
    categories: Sequence[str],
    known: Sequence[str],
    images: Sequence[str],
    assigned: np.ndarray,
    n_pile: int,
) -> dict[str, Any] | None:
    """The names of the categories, of ``known`` ones to choose from and of the images that the page shows, as bytes
    between zeros, compressed; a key of this result; and what is no name. None where corrections could not be used or
    would not be whole: a run that cannot be grown, a pile of which the page does not show every image, or a page
    without pictures.
    """
    if source.dataset or source.features or kept.thumbnails is None or len(set(images)) != n_pile:
        return None
    names = [name.encode("utf-8", errors="surrogateescape") for name in (*categories, *known, *images)]
    spelled = b"\0".join(names)
    if spelled.count(b"\0") != len(names) - 1:
        return None
    key = hashlib.blake2b(spelled + np.asarray(assigned, np.int64).tobytes(), digest_size=12).hexdigest()
    return {"spelled": zlib.compress(spelled, 9), "key": key, "unnamed": LIKE_UNKNOWN}
