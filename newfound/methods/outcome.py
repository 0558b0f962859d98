"""What a method is, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from newfound.data.collection import Collection
from newfound.engine.loop import Engine
from newfound.model import Model


@dataclass(frozen=True)
class Outcome:
    """A model over old and new categories, and the novel category of every unlabelled training image.

    ``assignments`` [n_unlabelled] counts into ``model.novel``; ``confidence`` [n_unlabelled] is in 0..1.
    """

    model: Model
    assignments: np.ndarray
    confidence: np.ndarray
    figures: dict[str, Any] = field(default_factory=dict)


class Method(Protocol):
    """Made from its settings and the number of novel categories; fits a Collection with an Engine."""

    def __init__(self, settings: Any, n_novel: int) -> None: ...

    def fit(self, collection: Collection, engine: Engine) -> Outcome: ...


def novel_names(n: int, taken: tuple[str, ...]) -> tuple[str, ...]:
    """Names for ``n`` discovered categories, novel-01, novel-02, …, that no known category has."""
    digits = max(2, len(str(n)))
    prefix = "novel-"
    while any(name.startswith(prefix) for name in taken):
        prefix = f"found-{prefix}"
    return tuple(f"{prefix}{i:0{digits}d}" for i in range(1, n + 1))
