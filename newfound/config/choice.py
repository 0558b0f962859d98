"""Something that was chosen for the person."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """What was chosen, its value, and why."""

    what: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"auto: {self.what} {self.value}: {self.why}"
