"""The views of natural images: crops, mirror images and other colours."""

from __future__ import annotations

from typing import Any

from newfound.views.multiview import MultiViews


def natural_views(size: int, **changes: Any) -> MultiViews:
    """Views of natural images of ``size`` pixels; ``changes`` are other values of MultiViews' fields.

    Extra views have DINO's share of the frame (96 of 224 pixels) in a multiple of 8, which networks compute fastest:
    16 pixels at 32. Up to 64 pixels nothing is blurred, since the images hold no detail to spare; above, the blur is
    DINO's.
    """
    settings: dict[str, Any] = {"size": size, "extra_size": max(8, 8 * round(size * 96 / 224 / 8))}
    if size > 64:
        settings |= {"blur": (1.0, 0.1, 0.5), "blur_sigma": (0.1, 2.0), "blur_kernel": 13}
    return MultiViews(**settings | changes)
