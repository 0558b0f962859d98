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
    """Made from its settings; fits a Collection with an Engine."""

    def __init__(self, settings: Any) -> None: ...

    def fit(self, collection: Collection, engine: Engine) -> Outcome: ...


def novel_names(collection: Collection) -> tuple[str, ...]:
    """Names for the categories to be discovered, task after task: novel-01, novel-02, …, that no known category has.

    In a collection of several tasks the name begins with the task's: Angelic/novel-01.
    """
    prefix = "novel-"
    while any(prefix in name for name in collection.classes):
        prefix = f"found-{prefix}"
    digits = max(2, *(len(str(task.n_novel)) for task in collection.tasks))
    return tuple(
        f"{task.name}/{prefix}{i:0{digits}d}" if task.name else f"{prefix}{i:0{digits}d}"
        for task in collection.tasks
        for i in range(1, task.n_novel + 1)
    )
