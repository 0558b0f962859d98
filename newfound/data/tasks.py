"""One task of a collection by itself, and with another number of novel categories."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from newfound.data.collection import Reading, novel_tasks
from newfound.errors import UserError


def only_task(reading: Reading, name: str) -> Reading:
    """The same labelled and test images, and of the unlabelled ones those of the task of that name."""
    collection = reading.collection
    found = [task for task in collection.tasks if task.name == name]
    if not found:
        names = ", ".join(task.name for task in collection.tasks if task.name) or "none"
        raise UserError(f"--task {name}: there is no such task; there are: {names}")
    first, rows, n_novel = collection.n_labelled, found[0].rows, len(collection.novel_of(found[0]))
    known = len(collection.classes)
    kept = np.concatenate([collection.labelled, rows])
    one = replace(
        collection,
        train=collection.train.take(kept),
        labels=collection.labels[kept],
        tasks=novel_tasks(known, (name, n_novel, np.arange(first, len(kept))), mixed=collection.mixed),
    )
    names_of = tuple(reading.names.unlabelled[i - first] for i in rows)
    answers = reading.answers
    if answers is not None and answers.unlabelled is not None:
        answers = replace(answers, unlabelled=tuple(answers.unlabelled[i - first] for i in rows))
    return replace(reading, collection=one, names=replace(reading.names, unlabelled=names_of), answers=answers)


def with_novel(reading: Reading, n_novel: int) -> Reading:
    """The same images, among which ``n_novel`` categories are looked for."""
    collection = reading.collection
    if len(collection.tasks) > 1:
        raise UserError(
            f"the data set has {len(collection.tasks)} tasks, each with a number of categories of its own: leave "
            "--novel out, or choose one with --task"
        )
    (task,) = collection.tasks
    tasks = novel_tasks(len(collection.classes), (task.name, n_novel, task.rows), mixed=collection.mixed)
    return replace(reading, collection=replace(collection, tasks=tasks))
