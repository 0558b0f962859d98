"""What a method is, and what it gives back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from newfound.data.collection import Collection, Task
from newfound.engine.loop import Engine
from newfound.model import Model
from newfound.model.strangeness import learn_exemplars


@dataclass(frozen=True)
class Outcome:
    """A model over old and new categories, and the novel category of every unlabelled training image.

    ``assignments`` [n_unlabelled] counts into ``model.novel``; ``confidence`` [n_unlabelled] is in 0..1.
    """

    model: Model
    assignments: np.ndarray
    confidence: np.ndarray
    figures: dict[str, Any] = field(default_factory=dict)
    earlier: dict[str, np.ndarray] = field(default_factory=dict)
    """Assignments on the way to the last ones, by where they were made; evaluated beside them."""
    features: Tensor | None = None
    """What the categories were found in: [n_train, D], the labelled images first. For the report."""
    before: Tensor | None = None
    """The same of before self-training, which draws together what it found; none where it is no different."""
    plain: Tensor | None = None
    """The same as the network gave them, where no label has touched it: for rehearsals, and to tell strangers."""
    plain_is_the_models: bool = True
    """Whether the model's network gives ``plain``; once tuned it gives others."""


class Method(Protocol):
    """Made from its settings; fits a Collection with an Engine."""

    def __init__(self, settings: Any) -> None: ...

    def fit(self, collection: Collection, engine: Engine) -> Outcome: ...


def by_task(collection: Collection, device: torch.device) -> Iterator[tuple[Task, Tensor, slice]]:
    """Each task with its images, as rows among the unlabelled ones, and its categories among the novel ones."""
    begun = 0
    for task in collection.tasks:
        yield task, torch.from_numpy(task.rows - collection.n_labelled).to(device), slice(begun, begun + task.n_novel)
        begun += task.n_novel


def of_own_task(collection: Collection) -> tuple[Tensor, Tensor]:
    """The task [K] of each novel category, and which categories [n_unlabelled, K] each unlabelled image may belong to:
    those of its own task."""
    task_of = torch.zeros(collection.n_novel, dtype=torch.int64)
    allowed = torch.zeros(collection.n_unlabelled, collection.n_novel, dtype=torch.bool)
    for number, (_, rows, own) in enumerate(by_task(collection, torch.device("cpu"))):
        task_of[own] = number
        allowed[rows, own] = True
    return task_of, allowed


@torch.no_grad()
def predict_novel(model: Model, features: Tensor, collection: Collection) -> Tensor:
    """The probabilities [n_unlabelled, K] the model's classifier gives the novel categories of each image's own task, 0
    for those of other tasks; from features [n_unlabelled, D]."""
    logits = model.to(features.device).classifier(features)[:, len(model.known) :]
    probabilities = torch.zeros_like(logits)
    for _, rows, own in by_task(collection, features.device):
        probabilities[rows, own] = logits[rows, own].softmax(1)
    return probabilities


def learn_strangeness(outcome: Outcome, collection: Collection, engine: Engine) -> None:
    """Have the model tell images that fit none of its categories. How strange images of the categories may be is
    measured on the test images, which were not trained on; without any, it remains to be calibrated.

    Where there are features that no label has touched, strangeness is told from these: others are narrower around the
    labelled images that were trained on than around new ones of the same category, which then look like strangers
    (docs/trust.md has figures).
    """
    model, first = outcome.model, collection.n_labelled
    plain = outcome.plain if outcome.plain_is_the_models else None
    model.plain_strangeness = plain is not None
    features = outcome.features if plain is None else plain
    if features is None:
        features = engine.features(model, engine.train_images, title="reading features", of=model.features)
    categories = np.concatenate([collection.labels[:first], len(model.known) + outcome.assignments])
    model.strangeness = learn_exemplars(features, categories, engine.seed)
    if collection.test is not None:
        judged = engine.features(model, collection.test, title="images held out", of=model.judge)
        model.strangeness.calibrate(judged[:, -1])


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
