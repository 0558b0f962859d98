"""Which images count, and in which label space: the four ways to give accuracy on old, new and all test images.

A classifier has L base outputs, one a known class, followed by K novel outputs. True classes are numbered alike: 0 to
L - 1 are the known ones ("old" images), L and above the novel ones ("new" images), of which there need not be K.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from newfound.errors import UserError
from newfound.evaluate.accuracy import clustering_accuracy, clustering_figures, match

Figures = dict[str, float | None]
"""The share of images that are right, 0 to 1, of the "old", the "new" and "all" images; None where there are none."""

NO_CLASS = -1


def paper(predicted: np.ndarray, truth: np.ndarray, n_base: int) -> Figures:
    """A matching of its own for each figure, as in AutoNovel's code: the most lenient protocol.

    The output [N] of each image is the largest of all L + K. For "old", "new" and "all" alike, outputs are matched one
    to one with the classes of just those images; so a base output may stand for another class than its own, and an
    output for one class in "old" and for another in "new".
    """
    return {
        name: clustering_accuracy(predicted[chosen], truth[chosen]) if chosen.any() else None
        for name, chosen in _subsets(truth, n_base).items()
    }


def single(predicted: np.ndarray, truth: np.ndarray, n_base: int) -> Figures:
    """One matching of outputs with classes over all test images, under which all three figures are counted."""
    return _shares(_mapped(predicted, match(predicted, truth)) == truth, truth, n_base)


def strict(
    predicted: np.ndarray, truth: np.ndarray, n_base: int, train_predicted: np.ndarray, train_truth: np.ndarray
) -> Figures:
    """Nothing is matched on test images: what a user of the classifier would see.

    A base output means its own class. What a novel output means is fixed before, by matching the outputs of the
    unlabelled training images, ``train_predicted``, with novel classes; images of known classes, and base outputs, have
    no say. A novel output without a class is wrong for every image.
    """
    novel = (train_truth >= n_base) & (train_predicted >= n_base)
    meaning = {output: output for output in range(n_base)}
    if novel.any():
        meaning |= match(train_predicted[novel], train_truth[novel])
    return _shares(_mapped(predicted, meaning) == truth, truth, n_base)


def task_aware(logits: np.ndarray, truth: np.ndarray, n_base: int) -> Figures:
    """Told for each image whether it is old or new, the classifier chooses among the base or the novel outputs only.

    An old image is right if its largest base output is its class's. New images are right under the matching of their
    largest novel outputs with their classes. "all" is the mean over images.
    """
    subsets = _subsets(truth, n_base)
    right = np.zeros(len(truth), dtype=bool)
    if subsets["old"].any():
        old = subsets["old"]
        right[old] = logits[old, :n_base].argmax(axis=1) == truth[old]
    if subsets["new"].any():
        new = subsets["new"]
        output = logits[new, n_base:].argmax(axis=1)
        right[new] = _mapped(output, match(output, truth[new])) == truth[new]
    return _shares(right, truth, n_base)


def protocols(
    logits: np.ndarray, truth: np.ndarray, n_base: int, train_predicted: np.ndarray, train_truth: np.ndarray
) -> dict[str, Figures]:
    """The figures of all four protocols, from logits [N, L + K] and true classes [N] of the test images.

    ``train_predicted`` [M] and ``train_truth`` [M] are outputs and true classes of the unlabelled training images; only
    "strict" uses them.
    """
    predicted = logits.argmax(axis=1)
    return {
        "paper": paper(predicted, truth, n_base),
        "single": single(predicted, truth, n_base),
        "strict": strict(predicted, truth, n_base, train_predicted, train_truth),
        "task-aware": task_aware(logits, truth, n_base),
    }


def evaluate_unlabelled(categories_predicted: Sequence[str], truth: Sequence[str | None]) -> dict[str, float]:
    """Accuracy, nmi and ari of predicted categories [N], and the number of images and classes they were counted on.

    Images whose truth is None are left out.
    """
    known = [(p, t) for p, t in zip(categories_predicted, truth, strict=True) if t is not None]
    if not known:
        raise UserError(f"none of the {len(truth)} unlabelled images has a true category, so nothing can be evaluated")
    predicted, categories = zip(*known, strict=True)
    figures = clustering_figures(
        _numbers(predicted, _numbering(predicted)), _numbers(categories, _numbering(categories))
    )
    return {**figures, "images": len(known), "classes": len(set(categories))}


def evaluate_mixed(categories_predicted: Sequence[str], truth: Sequence[str | None], known: Sequence[str]) -> Figures:
    """The shares of "old", "new" and "all" images [N] of a mixed pile that are right, under one matching of predicted
    with true categories, known and novel alike: the protocol of Vaze et al. (2022).

    A known category may be matched with another than itself. Images whose truth is None are left out.
    """
    counted = [(p, t) for p, t in zip(categories_predicted, truth, strict=True) if t is not None]
    predicted, categories = zip(*counted, strict=True)
    numbers = _numbers(predicted, _numbering(predicted)), _numbers(categories, _numbering(categories, known))
    return single(*numbers, len(known))


def evaluate_test(
    logits: np.ndarray,
    classes: Sequence[str],
    n_novel: int,
    truth: Sequence[str | None],
    train_predicted: np.ndarray,
    train_truth: Sequence[str | None],
) -> dict[str, Figures]:
    """The figures of all four protocols, from logits [N, L + n_novel] of the test images and categories by name.

    ``classes`` [L] names the base outputs. ``train_predicted`` [M] and ``train_truth`` [M] are outputs, 0 to
    L + n_novel - 1, and categories of the unlabelled training images. Images whose category is None are left out.
    """
    if logits.shape != (len(truth), len(classes) + n_novel):
        raise ValueError(
            f"{len(truth)} test images, {len(classes)} known and {n_novel} novel categories need logits of shape "
            f"{(len(truth), len(classes) + n_novel)}, got {logits.shape}"
        )
    tested = np.array([name is not None for name in truth])
    if not tested.any():
        raise UserError(f"none of the {len(truth)} test images has a true category, so nothing can be evaluated")
    trained = np.array([name is not None for name in train_truth], dtype=bool)
    numbering = _numbering([*truth, *train_truth], classes)
    return protocols(
        logits[tested],
        _numbers(truth, numbering),
        len(classes),
        np.asarray(train_predicted)[trained],
        _numbers(train_truth, numbering),
    )


def _numbering(names: Sequence[str | None], first: Sequence[str] = ()) -> dict[str, int]:
    """A number for each name: those in ``first`` by their place, the others after them in sorted order."""
    others = sorted({name for name in names if name is not None} - set(first))
    return {name: number for number, name in enumerate([*first, *others])}


def _numbers(names: Sequence[str | None], numbering: dict[str, int]) -> np.ndarray:
    return np.array([numbering[name] for name in names if name is not None], dtype=np.int64)


def _mapped(outputs: np.ndarray, meaning: dict[int, int]) -> np.ndarray:
    return np.array([meaning.get(output, NO_CLASS) for output in outputs.tolist()])


def _subsets(truth: np.ndarray, n_base: int) -> dict[str, np.ndarray]:
    return {"old": truth < n_base, "new": truth >= n_base, "all": np.ones(len(truth), dtype=bool)}


def _shares(right: np.ndarray, truth: np.ndarray, n_base: int) -> Figures:
    return {
        name: float(right[chosen].mean()) if chosen.any() else None for name, chosen in _subsets(truth, n_base).items()
    }
