"""The views of symbolic images, such as characters: the whole shape, a little displaced, and rotated extra views."""

from __future__ import annotations

from typing import Any

from newfound.views.multiview import MultiViews


def symbolic_views(size: int, **changes: Any) -> MultiViews:
    """Views of dark strokes on white, ``size`` pixels wide; ``changes`` are other values of MultiViews' fields.

    Extra views show the full frame under the restricted rotation of section 3.1.1, since a part of a character is no
    longer that character. Hue and saturation stay, for strokes have none. Nothing is solarised: it would turn white
    paper black and leave the strokes as they are, so that they vanish.
    """
    settings: dict[str, Any] = {
        "size": size,
        "extra_size": size,
        "fill": 255,
        "geometric": False,
        "rotation": 15.0,
        "affine": True,
        "jitter": (0.4, 0.4, 0.0, 0.0),
        "grey": 0.0,
        "blur": (0.5, 0.5, 0.5),
        "blur_sigma": (0.1, 1.0),
        "blur_kernel": 7,
        "solarise": (0.0, 0.0, 0.0),
    }
    return MultiViews(**settings | changes)
