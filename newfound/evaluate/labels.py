"""Labels as callers give them: lists, arrays and tensors of whole numbers or of strings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from newfound.errors import UserError

Labels = Iterable[Any]
"""A label for each image: a list, an array, a tensor or a column of a table, of whole numbers or of strings."""


def as_array(values: Any) -> np.ndarray:
    """The same numbers as an array, of a tensor too, wherever it is."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def as_labels(values: Labels, what: str) -> np.ndarray:
    """Labels [N] as an array of int64 or of strings; ``what`` they are is said where they are neither."""
    array = as_array(values)
    if array.ndim != 1:
        shape = f"the shape {array.shape}" if array.ndim else f"a {type(values).__name__}"
        raise UserError(f"{what}: expected a list or an array of labels, of one dimension, got {shape}")
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == array.round()).all():
        return array.astype(np.int64)
    if array.dtype.kind in "biu":
        return array.astype(np.int64)
    if array.dtype.kind == "U" and isinstance(values, np.ndarray):
        return array
    given = list(values)  # as they were: numpy makes strings of numbers beside strings
    for kinds, dtype in (((int, np.integer), np.int64), ((str,), np.str_)):
        if all(isinstance(value, kinds) for value in given):
            return np.array(given, dtype=dtype)
    odd = [value for value in given if not isinstance(value, int | np.integer | str) and not _whole(value)]
    found = f"one is {odd[0]}; leave out images without a label" if odd else "both are there"
    raise UserError(f"{what}: labels are all whole numbers or all strings, and {found}")


def _whole(value: Any) -> bool:
    return isinstance(value, float | np.floating) and float(value).is_integer()


def as_pair(predicted: Labels, truth: Labels, before: str = "") -> tuple[np.ndarray, np.ndarray]:
    """What was predicted and what is true, a label for each image [N]."""
    one, other = as_labels(predicted, f"{before}predicted"), as_labels(truth, f"{before}truth")
    if len(one) != len(other):
        raise UserError(
            f"expected a cluster and a class for each image, got {len(one)} in {before}predicted and {len(other)} in "
            f"{before}truth"
        )
    return one, other


def with_truth(predicted: Labels, truth: Labels) -> tuple[list[Any], list[Any]]:
    """The predicted and the true labels of the images that have a true one, which is neither None nor NaN."""
    one, other = as_list(predicted), as_list(truth)
    if len(one) != len(other):
        raise UserError(f"expected a predicted and a true label for each image, got {len(one)} and {len(other)}")
    rows = [row for row, label in enumerate(other) if is_label(label)]
    if not rows:
        raise UserError(f"none of the {len(other)} unlabelled images has a true category, so nothing can be evaluated")
    return [one[row] for row in rows], [other[row] for row in rows]


def as_list(values: Labels) -> list[Any]:
    return values.tolist() if hasattr(values, "tolist") else list(values)


def is_label(value: Any) -> bool:
    """Whether it is neither None nor NaN."""
    return value is not None and value == value
