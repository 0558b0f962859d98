"""A look at a few images before anything is decided: how large they are, and whether they are symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from newfound.data.decode import Unreadable, decode, original_side

Domain = Literal["natural", "symbolic"]

MAX_IMAGES = 100
"""Images that are looked at, evenly spread over those there are."""
LARGEST = 64
"""Pixels they are looked at in: more tells no more of colours and background."""
NEAR = 16
"""Levels of grey around the background's that still are background: paper and scanners are uneven."""
COLOURED = 32
"""Levels between the strongest and the weakest channel from which on a pixel has a colour."""
PALE = 64
"""Levels up to which the background may have a colour and pass for paper."""
MOST_COLOUR = 0.1
BACKGROUND, BACKGROUND_IF_SMALL, SMALL = 0.7, 0.45, 16
"""The share of background that symbols have at least; below ``SMALL`` pixels strokes fill more of the image."""


@dataclass(frozen=True)
class Look:
    """What was seen: ``side`` is the median of the images' shorter sides, in pixels; ``background`` the commonest level
    of grey, ``share`` the part of all pixels that have it, ``colour`` the part that have a colour and are not pale
    background."""

    images: int
    side: int
    background: int
    share: float
    colour: float

    @property
    def domain(self) -> Domain:
        """Symbols are strokes without colour on one background, which is most of the image. docs/trust-figures.md
        has what this says of some data sets."""
        least = BACKGROUND if self.side >= SMALL else BACKGROUND_IF_SMALL
        return "symbolic" if self.share >= least and self.colour < MOST_COLOUR else "natural"

    def __str__(self) -> str:
        seen = f"{self.share:.0%} of the pixels are background, {self.colour:.0%} have a colour"
        return f"{seen} ({self.images} images looked at)"


def look(paths: Sequence[Path]) -> Look | None:
    """What a few of the files look like; None where no one of them is a readable image."""
    if not paths:
        return None
    chosen = [paths[i] for i in _spread(len(paths))]
    sides = {path: side for path in chosen if (side := original_side(path))}
    if not sides:
        return None
    side = int(np.median(list(sides.values())))
    pixels = []
    for path in sides:
        try:
            pixels.append(decode(path, max(8, min(side, LARGEST))))
        except Unreadable:
            continue
    return look_at(np.stack(pixels), side) if pixels else None


def look_at_pixels(images: np.ndarray) -> Look | None:
    """What a few of images uint8 [N, H, W] or [N, H, W, C] look like; None where they are no such images."""
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or images.size == 0:
        return None
    chosen = images[_spread(len(images))]
    chosen = chosen[:, None] if images.ndim == 3 else np.moveaxis(chosen, 3, 1)
    if chosen.shape[1] not in (1, 3):
        return None
    return look_at(np.broadcast_to(chosen, (len(chosen), 3, *chosen.shape[2:])), min(images.shape[1:3]))


def _spread(n: int) -> np.ndarray:
    """Up to ``MAX_IMAGES`` of the numbers below ``n``, evenly spread."""
    return np.unique(np.linspace(0, n - 1, MAX_IMAGES).round().astype(int))


def look_at(images: np.ndarray, side: int) -> Look:
    """What images uint8 [N, 3, S, S] look like whose originals were ``side`` pixels wide."""
    levels = images.astype(np.float32).mean(1)
    counts = np.bincount(levels.round().astype(int).ravel(), minlength=256)
    window = np.convolve(counts, np.ones(2 * NEAR + 1), mode="same")
    middle = int(window.argmax())
    low, high = max(0, middle - NEAR), min(255, middle + NEAR)
    background = low + int(counts[low : high + 1].argmax())
    ground = np.abs(levels - background) <= NEAR
    colour = np.ptp(images, axis=1)
    coloured = (colour > COLOURED) & ~(ground & (colour <= PALE))  # yellowish paper gives strokes no colour
    return Look(len(images), side, background, float(ground.mean()), float(coloured.mean()))
