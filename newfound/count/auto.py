"""The number of novel categories where nobody gave it."""

from __future__ import annotations

from newfound.config.choice import Choice
from newfound.config.mapping import brief, whole_number
from newfound.count.result import Count
from newfound.errors import UserError

AUTO = "auto"


def number_given(n_novel: int | str) -> int | None:
    """The number of novel categories that was given; None for "auto"."""
    if not isinstance(n_novel, str):
        return whole_number(n_novel, "--novel")
    if n_novel != AUTO:
        raise UserError(f"--novel {brief(n_novel)}: it has to be a whole number, or auto to estimate it")
    return None


def to_look_for(found: Count) -> int:
    """The estimate; a UserError where there is probably nothing new to look for."""
    if found.nothing_new:
        raise UserError(f"--novel auto: {found.statement}; to look anyway, say for how many categories")
    return found.estimate


def choice_of(found: Count) -> Choice:
    low, high = found.interval
    return Choice("novel", str(found.estimate), f"{found.likely} {low} to {high}; {found.statement}")
