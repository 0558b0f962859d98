"""Images and labels as Python callers give them: arrays, tensors, lists of paths."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from newfound.config.mapping import brief
from newfound.data.answers import LIKE_UNKNOWN
from newfound.data.embeddings import check_vectors
from newfound.data.store import ImageStore
from newfound.data.vectors import VectorStore
from newfound.errors import UserError

Images = np.ndarray | torch.Tensor | Sequence[str | Path]
"""uint8 [N, H, W] or [N, H, W, C]; a tensor also [N, C, H, W]; float features [N, D]; or paths."""
Labels = Iterable[Any]
"""A whole number or a string for each image; -1, NaN or None where it is unknown."""

MOST_PIXELS = 1024
"""The widest image: as wide as data.size may be."""

FIRST_NOVEL = 100
"""The smallest number that a novel category gets among whole-number labels."""


def read_images(images: Images) -> np.ndarray | list[str | Path]:
    """An array, channels last where it has any, or a list of paths."""
    if isinstance(images, torch.Tensor):
        return _channels_last(images.detach().cpu().numpy())
    if not isinstance(images, np.ndarray) or (images.ndim == 1 and images.dtype.kind in "UO"):
        return _paths(images)
    if np.ma.isMaskedArray(images) and np.ma.is_masked(images):
        raise UserError("X has masked values, and an image has none: fill them, or leave the images out")
    return np.ma.getdata(images)


def _channels_last(pixels: np.ndarray) -> np.ndarray:
    """Pixels [N, C, H, W], as torch orders them, as [N, H, W, C]; others as they are."""
    first = pixels.ndim == 4 and pixels.shape[1] in (1, 3)
    return np.moveaxis(pixels, 1, 3) if first else pixels


def make_store(pixels: np.ndarray) -> ImageStore:
    """A store of images uint8 [N, H, W] or [N, H, W, C], or of float features [N, D]."""
    if pixels.dtype.kind == "f" and pixels.ndim == 2:
        return VectorStore(check_vectors(pixels, "X"))
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4) or pixels.size == 0:
        found = f"{pixels.dtype} of shape {pixels.shape}"
        scaled = pixels.dtype.kind == "f" and pixels.ndim in (3, 4)
        remedy = "; floats in 0..1 become such by (255 * X).astype('uint8')" if scaled else ""
        raise UserError(f"expected uint8 images [N, H, W] or [N, H, W, C], got {found}{remedy}")
    if pixels.shape[1] != pixels.shape[2]:
        raise UserError(f"images have to be square, not {pixels.shape[1]} x {pixels.shape[2]}")
    if pixels.shape[1] > MOST_PIXELS:
        raise UserError(
            f"images have at most {MOST_PIXELS} x {MOST_PIXELS} pixels, not {pixels.shape[1]} x {pixels.shape[2]}"
        )
    if pixels.ndim == 4 and pixels.shape[3] not in (1, 3):
        raise UserError(
            f"images have 1 channel (grey) or 3 (red, green, blue), the last axis of an array; not {pixels.shape[3]}"
        )
    return ImageStore.from_pixels(pixels)


def _paths(images: Any) -> list[str | Path]:
    if isinstance(images, str | bytes | os.PathLike):
        raise UserError(f"X is the single path {brief(os.fspath(images))}: give a list of paths")
    try:
        paths = list(images)
    except TypeError:
        raise UserError(f"images are a uint8 array or a list of paths, not {brief(images)}") from None
    if not paths:
        raise UserError("there are no images: the list of paths is empty")
    for path in paths:
        if isinstance(path, str | os.PathLike):
            continue
        if hasattr(path, "shape"):
            stack = "torch.stack" if isinstance(path, torch.Tensor) else "np.stack"
            raise UserError(f"images are one array or a list of paths, not a list of arrays: stack them with {stack}")
        raise UserError(f"images are a uint8 array or a list of paths; the list holds {brief(path)}")
    return [str(path) if isinstance(path, str) else Path(path) for path in paths]


def number_labels(labels: Labels, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The known categories, sorted, and for every image its number among them or -1."""
    if np.ma.isMaskedArray(labels):
        labels = labels.tolist()  # None where masked
    try:
        values = [_label(value) for value in (labels.tolist() if isinstance(labels, torch.Tensor) else labels)]
    except TypeError:
        raise UserError(f"y is a list or an array with one label an image, not {brief(labels)}") from None
    if len(values) != n:
        raise UserError(f"{n} images but {len(values)} labels")
    known = {value for value in values if value is not None}
    odd = sorted(value for value in known if isinstance(value, str) and value.strip().lower() in LIKE_UNKNOWN)
    if odd:
        raise UserError(
            f"a label is the text {odd[0]!r}, which looks like one that is unknown: say None for unknown images, or "
            "give the category another name"
        )
    if not known:
        raise UserError("no image has a label: give the labels of the categories you know")
    numbered = {value for value in known if isinstance(value, int)}
    if numbered and numbered != known:
        one, other = min(numbered), min(known - numbered)
        raise UserError(f"labels are either whole numbers or strings; these are both, such as {one} and {brief(other)}")
    names = np.array(sorted(known), dtype=np.int64 if numbered else object)
    number = {name: i for i, name in enumerate(names.tolist())}
    return names, np.array([-1 if value is None else number[value] for value in values], dtype=np.int64)


def _label(value: Any) -> int | str | None:
    """A label as a whole number or a string; None if it says that the category is unknown."""
    if type(value).__module__.startswith("pandas.") and type(value).__name__ in ("NAType", "NaTType"):
        return None
    if value is None or value is np.ma.masked:
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float | np.floating):
        if np.isnan(value):
            return None
        value = int(value) if float(value).is_integer() else value  # a column with gaps holds floats
    if not isinstance(value, int | np.integer | np.bool_) or abs(int(value)) >= 2**62:
        raise UserError(f"a label is a whole number or a string, or -1, None or NaN if unknown; not {brief(value)}")
    return None if value == -1 else int(value)


def novel_numbers(known: np.ndarray, n: int) -> np.ndarray:
    """Labels [n] of novel categories where the known ones are whole numbers: from the first power of ten that is at
    least ten times as large as them, and at least ``FIRST_NOVEL``.

    The next free number would look like a label that the caller uses for something else: where the digits 0, 2, 4, 6
    and 8 are known, 9 would not be the digit 9.
    """
    largest, first = max(int(known.max()), 0), FIRST_NOVEL
    while first < 10 * (largest + 1):
        first *= 10
    if first + n >= 2**63:
        first = largest + 1
    return first + np.arange(n, dtype=np.int64)
