"""What was asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from newfound.data.sources import Source

MOST_THREADS = 1024


@dataclass(frozen=True)
class Place:
    """Where, and with which random numbers, a method runs. Without a ``cache`` nothing is kept for other runs."""

    seed: int
    device: str
    cache: str | None = None


@dataclass(frozen=True)
class Call:
    """What was asked for, beside the recipe; with ``settings`` it determines a run."""

    source: Source
    seed: int = field(metadata={"range": (0, 2**31 - 1)})
    device: str
    threads: int = field(metadata={"range": (1, MOST_THREADS)})
    cache: str

    @property
    def place(self) -> Place:
        return Place(self.seed, self.device, self.cache)
