"""Which images count, and in which label space: the four ways to give accuracy on old, new and all test images.

A classifier has L base outputs, one a known class, followed by K novel outputs. ``known`` are the classes of the base
outputs: a list of them, or their number L where true classes are numbered, 0 to L - 1 being the known ones. Images of
known classes are "old", all others are "new", and the classes of these need not be K.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from newfound.errors import UserError
from newfound.evaluate.accuracy import clustering_accuracy, clustering_figures, match
from newfound.evaluate.labels import (
    Labels,
    as_array,
    as_images,
    as_labels,
    as_pair,
    is_label,
    require_images,
    with_truth,
)

Figures = dict[str, float | None]
"""The share of images that are right, 0 to 1, of the "old", the "new" and "all" images; None where there are none."""


def paper(predicted: Labels, truth: Labels, known: int | Labels) -> Figures:
    """A matching of its own for each figure, as in AutoNovel's code: the most lenient protocol.

    ``predicted`` [N] is the category of each image among all L + K, ``truth`` [N] its class, and ``known`` the known
    classes, or L where these are 0 to L - 1. For "old", "new" and "all" alike, categories are matched one to one with
    the classes of just those images; so a known category may stand for another class than its own, and a category for
    one class in "old" and for another in "new".
    """
    predicted, truth = as_images(predicted, truth)
    return {
        name: clustering_accuracy(predicted[chosen], truth[chosen]) if chosen.any() else None
        for name, chosen in _subsets(truth, _classes(known, truth)).items()
    }


def single(predicted: Labels, truth: Labels, known: int | Labels) -> Figures:
    """One matching of categories with classes over all images, under which all three figures are counted.

    The arguments are those of ``paper``. Over the unlabelled images, this is how generalised category discovery is
    judged since Vaze et al. (2022).
    """
    predicted, truth = as_images(predicted, truth)
    names = _classes(known, truth).tolist()
    # Of several matchings that are equally good, the one taken goes by the order of classes: known ones come first.
    truth = _numbers(truth.tolist(), _numbering(truth.tolist(), names))
    return _shares(_right(predicted, truth, match(predicted, truth)), truth, np.arange(len(names)))


def strict(
    predicted: Labels, truth: Labels, known: int | Labels, train_predicted: Labels, train_truth: Labels
) -> Figures:
    """Nothing is matched on test images: what a user of the classifier would see.

    The arguments are those of ``paper``, where known categories have to be called as their classes are; and what was
    predicted of unlabelled training images, ``train_predicted`` [M], with their classes. A known category means its own
    class. What a novel one means is fixed before, by matching those of the training images with novel classes; images
    of known classes, and known categories, have no say. A novel category without a class is wrong for every image.
    """
    predicted, truth = as_images(predicted, truth)
    train_predicted, train_truth = as_pair(train_predicted, train_truth, "train_")
    classes = _classes(known, truth, train_truth)
    if any(
        len(some) and len(classes) and some.dtype.kind != classes.dtype.kind for some in (predicted, train_predicted)
    ):
        raise UserError(
            f"known categories are called as their classes, such as {str(classes[0])!r}, in what was predicted too"
        )
    novel = ~np.isin(train_truth, classes) & ~np.isin(train_predicted, classes)
    meaning = {name: name for name in classes.tolist()}
    if novel.any():
        meaning |= match(train_predicted[novel], train_truth[novel])
    return _shares(_right(predicted, truth, meaning), truth, classes)


def task_aware(logits: Any, truth: Labels, known: int | Labels) -> Figures:
    """Told for each image whether it is old or new, the classifier chooses among the base or the novel outputs only.

    The columns of ``logits`` [N, L + K] are the known classes, in the order of ``known``, and the novel outputs. An old
    image is right if its largest base output is its class's. New images are right under the matching of their largest
    novel outputs with their classes. "all" is the mean over images.
    """
    truth = as_labels(truth, "truth")
    require_images(truth)
    classes = _classes(known, truth)
    logits, subsets = _table(logits, truth, classes), _subsets(truth, classes)
    right = np.zeros(len(truth), dtype=bool)
    if subsets["old"].any():
        old = subsets["old"]
        right[old] = classes[logits[old, : len(classes)].argmax(axis=1)] == truth[old]
    if subsets["new"].any():
        new = subsets["new"]
        output = logits[new, len(classes) :].argmax(axis=1)
        right[new] = _right(output, truth[new], match(output, truth[new]))
    return _shares(right, truth, classes)


def protocols(
    logits: Any,
    truth: Labels,
    known: int | Labels,
    train_predicted: Labels | None = None,
    train_truth: Labels | None = None,
) -> dict[str, Figures]:
    """The figures of all protocols, from logits [N, L + K] and true classes [N] of the test images.

    ``known`` are the classes of the first L columns, or L where these are 0 to L - 1. ``train_predicted`` [M] and
    ``train_truth`` [M] are outputs, 0 to L + K - 1, and true classes of the unlabelled training images; without them
    there is no "strict".
    """
    if (train_predicted is None) != (train_truth is None):
        raise UserError("the protocol strict needs train_predicted and train_truth: give both or none")
    truth = as_labels(truth, "truth")
    require_images(truth)
    trained = as_labels([] if train_truth is None else train_truth, "train_truth")
    names = _classes(known, truth, trained).tolist()
    numbering = _numbering([*truth.tolist(), *trained.tolist()], names)
    truth, n_known = _numbers(truth.tolist(), numbering), len(names)
    logits = _table(logits, truth, np.arange(n_known))
    predicted = logits.argmax(axis=1)
    figures = {"paper": paper(predicted, truth, n_known), "single": single(predicted, truth, n_known)}
    if train_predicted is not None:
        trained = _numbers(trained.tolist(), numbering)
        figures["strict"] = strict(predicted, truth, n_known, train_predicted, trained)
    return figures | {"task-aware": task_aware(logits, truth, n_known)}


def evaluate_unlabelled(predicted: Labels, truth: Labels) -> dict[str, float]:
    """Accuracy, nmi and ari of predicted categories [N], and the number of images and classes they were counted on.

    Images whose truth is None, NaN or the NA of pandas are left out.
    """
    predicted, truth = with_truth(predicted, truth)
    return {**clustering_figures(predicted, truth), "images": len(truth), "classes": len(set(truth))}


def evaluate_mixed(predicted: Labels, truth: Labels, known: int | Labels) -> Figures:
    """The shares of "old", "new" and "all" images [N] of a mixed pile that are right, under one matching of predicted
    with true categories, known and novel alike: the protocol of Vaze et al. (2022).

    A known category may be matched with another than itself. Images whose truth is None, NaN or the NA of pandas are
    left out; otherwise it is ``single``.
    """
    return single(*with_truth(predicted, truth), known)


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
    tested = np.array([is_label(name) for name in truth])
    if not tested.any():
        raise UserError(f"none of the {len(truth)} test images has a true category, so nothing can be evaluated")
    trained = np.array([is_label(name) for name in train_truth], dtype=bool)
    return protocols(
        logits[tested],
        [name for name in truth if is_label(name)],
        classes,
        np.asarray(train_predicted)[trained],
        [name for name in train_truth if is_label(name)],
    )


def _classes(known: int | Labels, *truths: np.ndarray) -> np.ndarray:
    """The known classes, called as in the ``truths``."""
    if isinstance(known, int | np.integer):
        if known < 0:
            raise UserError(f"known is {known}: give the number of known classes, 0 or more, or a list of them")
        if any(truth.dtype.kind == "U" for truth in truths):
            raise UserError(f"known is {known}, and true classes have names: give the names of the known ones instead")
        if any((truth < 0).any() for truth in truths):
            raise UserError("true classes count from 0, and some are below: leave out images whose class is unknown")
        return np.arange(known)
    classes = as_labels(known, "known")
    if any(len(truth) and len(classes) and truth.dtype.kind != classes.dtype.kind for truth in truths):
        raise UserError(
            f"known classes, such as {str(classes[0])!r}, and true ones are all whole numbers or all strings"
        )
    if len(set(classes.tolist())) < len(classes):
        raise UserError("known: a class comes twice")
    return classes


def _table(logits: Any, truth: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The logits [N, L + K], with a novel output where new images need one."""
    table = as_array(logits, "logits")
    least = len(classes) + (not np.isin(truth, classes).all())
    if table.ndim != 2 or len(table) != len(truth) or table.shape[1] < least:
        raise UserError(
            f"{len(truth)} images and {len(classes)} known classes need logits of shape ({len(truth)}, {least} or more)"
            f", got {table.shape}"
        )
    if table.dtype.kind == "O":
        try:
            table = table.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise UserError(f"logits are numbers, and not all of these are: {error}") from None
    if table.dtype.kind not in "biuf":
        raise UserError(f"logits are numbers, and these are of the type {table.dtype}")
    if (nan := np.isnan(table).any(axis=1)).any():
        raise UserError(f"logits: row {int(nan.argmax())} (from 0) has a NaN, so none of its outputs is the largest")
    return table


def _numbering(names: Sequence[Any], first: Sequence[Any] = ()) -> dict[Any, int]:
    """A number for each name: those in ``first`` by their place, the others after them in sorted order."""
    return {name: number for number, name in enumerate([*first, *sorted(set(names) - set(first))])}


def _numbers(names: Sequence[Any], numbering: dict[Any, int]) -> np.ndarray:
    return np.array([numbering[name] for name in names], dtype=np.int64)


def _right(predicted: np.ndarray, truth: np.ndarray, meaning: dict[Any, Any]) -> np.ndarray:
    """Which images are right if categories have that meaning."""
    pairs = zip(predicted.tolist(), truth.tolist(), strict=True)
    return np.array([category in meaning and meaning[category] == name for category, name in pairs], dtype=bool)


def _subsets(truth: np.ndarray, classes: np.ndarray) -> dict[str, np.ndarray]:
    old = np.isin(truth, classes)
    return {"old": old, "new": ~old, "all": np.ones(len(truth), dtype=bool)}


def _shares(right: np.ndarray, truth: np.ndarray, classes: np.ndarray) -> Figures:
    return {
        name: float(right[chosen].mean()) if chosen.any() else None for name, chosen in _subsets(truth, classes).items()
    }
