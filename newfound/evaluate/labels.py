"""Labels as callers give them: lists, arrays and tensors of whole numbers or of strings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, ValuesView
from typing import Any

import numpy as np

from newfound.errors import UserError

Labels = Iterable[Any]
"""A label for each image, of whole numbers or of strings: a list, an array, a tensor, a column of a table, or an
iterator such as a generator."""


def as_array(values: Any, what: str) -> np.ndarray:
    """The same numbers as an array, of a tensor too, wherever it is; ``what`` they are is said where they are none."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if values.is_floating_point() and values.element_size() < 4:  # numpy has no bfloat16
            values = values.float()
    try:
        return np.asarray(values)
    except ValueError as error:  # rows of several lengths
        raise UserError(f"{what}: {error}") from None


def as_labels(values: Labels, what: str) -> np.ndarray:
    """Labels [N] as an array of int64 or of strings; ``what`` they are is said where they are neither."""
    values = _held(values)
    array = _in_line(values, what)
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == array.round()).all():
        if (np.abs(array) >= 2.0**63).any():
            raise _too_large(what)
        return array.astype(np.int64)
    if array.dtype.kind in "biu":
        if array.dtype == np.uint64 and (array >= 2**63).any():
            raise _too_large(what)
        return array.astype(np.int64)
    if array.dtype.kind == "U" and isinstance(values, np.ndarray):
        return array
    given = list(values)  # as they were: numpy makes strings of numbers beside strings
    if all(_whole(value) for value in given):
        try:
            return np.array([int(value) for value in given], dtype=np.int64)
        except OverflowError:
            raise _too_large(what) from None
    if all(isinstance(value, str) for value in given):
        return np.array(given, dtype=np.str_)
    odd = [value for value in given if not isinstance(value, str) and not _whole(value)]
    found = f"one is {odd[0]}; leave out images without a label" if odd else "both are there"
    raise UserError(f"{what}: labels are all whole numbers or all strings, and {found}")


def _held(values: Labels) -> Labels:
    """The same labels, which can be gone through again."""
    return list(values) if isinstance(values, Iterator | ValuesView) else values


def _in_line(values: Labels, what: str) -> np.ndarray:
    array = as_array(values, what)
    if array.ndim != 1:
        shape = f"the shape {array.shape}" if array.ndim else f"a {type(values).__name__}"
        raise UserError(f"{what}: expected a list or an array of labels, of one dimension, got {shape}")
    return array


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) or (isinstance(value, float | np.floating) and float(value).is_integer())


def _too_large(what: str) -> UserError:
    return UserError(f"{what}: a number lies beyond -2**63 to 2**63 - 1: give such labels as strings")


def require_images(labels: np.ndarray | list[Any]) -> None:
    """Stop where there is nothing to evaluate."""
    if not len(labels):
        raise UserError("there is no image to evaluate: the labels are empty")


def as_pair(predicted: Labels, truth: Labels, before: str = "") -> tuple[np.ndarray, np.ndarray]:
    """What was predicted and what is true, a label for each image [N]."""
    one, other = as_labels(predicted, f"{before}predicted"), as_labels(truth, f"{before}truth")
    if len(one) != len(other):
        raise UserError(
            f"expected a cluster and a class for each image, got {len(one)} in {before}predicted and {len(other)} in "
            f"{before}truth"
        )
    return one, other


def as_images(predicted: Labels, truth: Labels) -> tuple[np.ndarray, np.ndarray]:
    """``as_pair`` of at least one image."""
    predicted, truth = as_pair(predicted, truth)
    require_images(truth)
    return predicted, truth


def with_truth(predicted: Labels, truth: Labels) -> tuple[list[Any], list[Any]]:
    """The predicted and the true labels of the images that have a true one (``is_label``)."""
    one, other = as_list(predicted, "predicted"), as_list(truth, "truth")
    if len(one) != len(other):
        raise UserError(f"expected a predicted and a true label for each image, got {len(one)} and {len(other)}")
    require_images(other)
    rows = [row for row, label in enumerate(other) if is_label(label)]
    if not rows:
        raise UserError(f"none of the {len(other)} unlabelled images has a true category, so nothing can be evaluated")
    return [one[row] for row in rows], [other[row] for row in rows]


def as_list(values: Labels, what: str) -> list[Any]:
    values = _held(values)
    _in_line(values, what)
    return values.tolist() if hasattr(values, "tolist") else list(values)


def is_label(value: Any) -> bool:
    """Whether it is neither None nor NaN, nor what pandas has in their place."""
    try:
        return value is not None and bool(value == value)
    except TypeError:  # NA of pandas equals nothing, and does not differ either
        return False
