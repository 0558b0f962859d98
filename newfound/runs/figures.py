"""The figures of a run that need the answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from newfound.data.collection import Reading

if TYPE_CHECKING:
    from newfound.engine.loop import Engine
    from newfound.methods.base import Outcome


def evaluate_run(outcome: Outcome, reading: Reading, engine: Engine) -> dict[str, Any]:
    """The figures that need answers, which only this function sees: "unlabelled" and "test", where there are any;
    "earlier", those of assignments on the way; "neighbours", the test images of known categories by a vote of the
    nearest labelled ones, where the outcome has features; and "confusion", the pairs of found and true categories of
    unlabelled and test images, and under "earlier/NAME" those of assignments on the way."""
    from newfound.evaluate.confusion import count_pairs
    from newfound.evaluate.protocol import evaluate_test
    from newfound.evaluate.tasks import evaluate_tasks

    model, answers, test = outcome.model, reading.answers, reading.collection.test
    if answers is None or answers.unlabelled is None:
        return {}
    first = reading.collection.n_labelled
    tasks = {task.name: task.rows - first for task in reading.collection.tasks}

    def compare(found: np.ndarray) -> dict[str, Any]:
        names, truth = [model.classes[i] for i in found], answers.unlabelled or ()
        return evaluate_tasks(names, truth, tasks) | compare_mixed(reading.collection.mixed, names, truth, model.known)

    figures: dict[str, Any] = {"unlabelled": compare(outcome.assignments)}
    confusion = {"unlabelled": count_pairs([model.classes[i] for i in outcome.assignments], answers.unlabelled)}
    if outcome.earlier:
        figures["earlier"] = {name: compare(found) for name, found in outcome.earlier.items()}
        for name, found in outcome.earlier.items():
            confusion[f"earlier/{name}"] = count_pairs([model.classes[i] for i in found], answers.unlabelled)
    if test is not None and answers.test is not None:
        seen = outcome.test_features
        if seen is None:
            seen = engine.features(model, test, title="test images", of=model.features)
        logits = model.logits(seen).detach().cpu().numpy()
        if outcome.features is not None:
            figures["neighbours"] = _neighbours(model, outcome.features, engine.labels[:first], seen, answers.test)
        figures["test"] = evaluate_test(
            logits, model.known, len(model.novel), answers.test, outcome.assignments, answers.unlabelled
        )
        confusion["test"] = count_pairs([model.classes[i] for i in logits.argmax(1)], answers.test)
    return figures | {"confusion": confusion}


def compare_mixed(
    mixed: bool, found: Sequence[str], truth: Sequence[str | None], known: Sequence[str]
) -> dict[str, Any]:
    """What a mixed pile has beside the figures of every pile: the shares of right images among "old" and "new" ones,
    where the categories ``found`` [N] and the ``truth`` [N] are given by name."""
    from newfound.evaluate.protocol import evaluate_mixed

    if not mixed:
        return {}
    shares = evaluate_mixed(found, truth, known)
    return {name: shares[name] for name in ("old", "new")}


def _neighbours(model: Any, features: Any, labels: Any, seen: Any, truth: Sequence[str | None]) -> dict[str, Any]:
    """How many test images, ``seen`` [m, D], of known categories the nearest labelled images, the first of the features
    [n_train, D], get right."""
    from newfound.evaluate.neighbours import NEIGHBOURS, vote

    number = {name: i for i, name in enumerate(model.known)}
    rows = [i for i, name in enumerate(truth) if name in number]
    if not rows:
        return {}
    found = vote(features[: len(labels)].to(seen.device), labels.to(seen.device), seen[rows], len(number)).tolist()
    right = sum(number[str(truth[row])] == category for row, category in zip(rows, found, strict=True))
    return {"neighbours": NEIGHBOURS, "images": len(rows), "accuracy": right / len(rows)}
