"""What an estimate of the number of novel categories says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from newfound.config.mapping import to_mapping


@dataclass(frozen=True)
class Rehearsed:
    """Known categories that played a pile: how many there were, and how many were found."""

    true: int
    found: int


GUESS = "hardly more than a guess"
"""How the statement of a number begins that is little to go by."""


@dataclass(frozen=True)
class Count:
    """How many novel categories a pile has, by an estimate.

    Attributes
    ----------
    estimate : int
        The number of novel categories, rounded up.
    interval : (int, int)
        Where the number probably lies: as wide as known categories differ among themselves, and as a rehearsal missed,
        but at most 30 % to either side (or 1).
    statement : str
        How sure this is, in words.
    methods : dict of str to int
        The number by each way: "owned" is our own and is the estimate; "dtc", "gcd" and "shift" are published ones.
    curve : tuple of (int, float)
        Numbers of novel categories, and how many groups a hidden known category owns if so many are looked for. The
        estimate is where this passes 1.
    rehearsed : tuple of Rehearsed
        What became of known categories that played a pile; empty with fewer than four, and in features that their
        labels have taught.
    known_share : float or None
        The share of the pile that looks as if it were of known categories, or of a mixed pile that joined them and was
        left out; None where that cannot be told.
    nothing_new : bool
        Whether nearly all of the pile does.
    images : (int, int)
        How many labelled images, and how many of the pile, were looked at.
    """

    estimate: int
    interval: tuple[int, int]
    statement: str
    methods: dict[str, int]
    curve: tuple[tuple[int, float], ...]
    rehearsed: tuple[Rehearsed, ...]
    known_share: float | None
    nothing_new: bool
    images: tuple[int, int]

    @property
    def likely(self) -> str:
        """Of the interval: "probably", or "perhaps" where the number is a guess."""
        return "perhaps" if self.statement.startswith(GUESS) else "probably"

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, as JSON has them."""
        found = to_mapping(self)
        return found | {"curve": [list(point) for point in self.curve]}
