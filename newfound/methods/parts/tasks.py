"""Tasks: which images may belong to which categories, and what the new categories are called."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from newfound.data.collection import Collection, Task
from newfound.model import Model


def by_task(collection: Collection, device: torch.device) -> Iterator[tuple[Task, Tensor, slice]]:
    """Each task with its images, as rows among the unlabelled ones, and its categories among the novel ones."""
    n_known = len(collection.classes)
    for task in collection.tasks:
        novel = collection.novel_of(task) - n_known
        rows = torch.from_numpy(task.rows - collection.n_labelled).to(device)
        yield task, rows, slice(int(novel[0]), int(novel[-1]) + 1)


def first_candidate(collection: Collection) -> int:
    """The first category that unlabelled images may have: the first novel one, or in a mixed pile the first of all.
    All that follow are candidates, too."""
    return int(collection.candidates[0])


def allowed_categories(collection: Collection) -> tuple[Tensor, Tensor]:
    """The task [K] of each candidate, and which candidates [n_unlabelled, K] each unlabelled image may belong to: those
    of its own task. Known categories, where they are candidates, are counted with the first task."""
    first = first_candidate(collection)
    n = len(collection.candidates)
    task_of = torch.zeros(n, dtype=torch.int64)
    allowed = torch.zeros(collection.n_unlabelled, n, dtype=torch.bool)
    for number, task in enumerate(collection.tasks):
        rows, own = torch.from_numpy(task.rows - collection.n_labelled), torch.from_numpy(task.candidates - first)
        task_of[torch.from_numpy(collection.novel_of(task) - first)] = number
        allowed[rows[:, None], own] = True
    return task_of, allowed


def masked_logits(logits: Tensor, allowed: Tensor) -> Tensor:
    """Logits [..., n, K] in float32, -inf where an image may not have the category: ``allowed`` is [K] or [n, K]
    (bool)."""
    return logits.float().masked_fill(~allowed, -torch.inf)


@torch.no_grad()
def predict_candidates(model: Model, features: Tensor, collection: Collection) -> Tensor:
    """The probabilities [n_unlabelled, C] that the model gives the candidates of each image's own task, 0 for other
    categories; from features [n_unlabelled, D]."""
    logits = model.to(features.device).logits(features)
    probabilities = torch.zeros_like(logits)
    for task in collection.tasks:
        rows = torch.from_numpy(task.rows - collection.n_labelled).to(features.device)[:, None]
        candidates = torch.from_numpy(task.candidates).to(features.device)
        probabilities[rows, candidates] = logits[rows, candidates].softmax(1)
    return probabilities


def novel_names(collection: Collection) -> tuple[str, ...]:
    """Names for the categories to be discovered, task after task: novel-01, novel-02, …, that no known category has.

    In a collection of several tasks the name begins with the task's: Angelic/novel-01.
    """
    prefix = "novel-"
    while any(prefix in name for name in collection.classes):
        prefix = f"found-{prefix}"
    sizes = {task.name: len(collection.novel_of(task)) for task in collection.tasks}
    digits = max(2, *(len(str(size)) for size in sizes.values()))
    return tuple(
        f"{name}/{prefix}{i:0{digits}d}" if name else f"{prefix}{i:0{digits}d}"
        for name, size in sizes.items()
        for i in range(1, size + 1)
    )
