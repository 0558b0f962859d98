"""Embeddings that people have already: an .npy file of features, names for its rows, and the labels of some."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from tokenize import TokenError

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from newfound.data.alike import warn_of_like_names
from newfound.data.answers import read_table, read_text, require_a_name, same_name, separator_of
from newfound.data.collection import Pool, Reading, Skipped, assemble
from newfound.data.duplicates import leave_out_known
from newfound.data.vectors import VectorStore
from newfound.errors import UserError
from newfound.progress import Reporter
from newfound.strangers import require_regular

LARGEST = 1e12
"""Of a feature, so that float32 holds the squares of all features together."""


def read_embeddings(
    features: Path,
    *,
    ids: Path | None,
    labels: Path,
    n_novel: int,
    seed: int,
    mixed: bool = False,
    reporter: Reporter | None = None,
) -> Reading:
    """A collection whose images are the rows of ``features``.

    ``ids`` names them, row by row; without it they are called by their numbers, from 0. ``labels`` (image,label) has
    the category of the known ones; rows that it does not list, or lists without a label, are to be discovered in;
    those that are the same as a known one are ``skipped``. ``mixed`` says that they may be of known categories.
    """
    vectors = read_vectors(features)
    names = read_ids(ids, len(vectors)) if ids else [str(row) for row in range(len(vectors))]
    place = {name: row for row, name in enumerate(names)}
    categories: list[str | None] = [None] * len(names)
    for name, row in read_table(labels).items():
        if name not in place:
            known = f"{str(ids)!r} has no such line" if ids else f"rows are called 0 to {len(names) - 1}"
            raise UserError(f"{str(labels)!r}, line {row.line}: image {name!r} has no features: {known}")
        if row.label:
            require_a_name(row, labels)
        categories[place[name]] = row.label or None
    has_label = np.array([category is not None for category in categories])
    labelled, unlabelled = np.flatnonzero(has_label), np.flatnonzero(~has_label)
    pool = Pool(VectorStore(vectors), names, categories)
    reporter = reporter or Reporter(quiet=True)
    warn_of_like_names(categories, reporter)
    unlabelled, same = leave_out_known(pool, labelled, unlabelled, reporter)
    skipped = tuple(Skipped(names[one], f"the same features as {names[other]!r}") for one, other in same.items())
    return assemble(
        pool, labelled=labelled, unlabelled=unlabelled, n_novel=n_novel, seed=seed, mixed=mixed, skipped=skipped
    )


def read_vectors(path: Path) -> np.ndarray:
    """The features [N, D] in an .npy file, as float32; nothing in the file is executed."""
    try:
        require_regular(path)
        with open(path, "rb") as file:
            beginning = file.read(len(MAGIC_PREFIX))
        if beginning.startswith(b"PK"):
            raise UserError(f"{str(path)!r} holds several arrays (.npz): save the features alone with numpy.save")
        if beginning != MAGIC_PREFIX:
            raise ValueError("it does not begin as one")
        # Mapped first: a header that promises more than the file holds is found out before memory is taken for it.
        content = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise UserError(
            f"the features {str(path)!r} cannot be read: {(error.strerror or str(error)).lower()}"
        ) from None
    except UserError:
        raise
    except (ValueError, EOFError, SyntaxError, TypeError, OverflowError, MemoryError, TokenError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"{str(path)!r} is not a whole .npy file of numbers ({reason}); write it with numpy.save"
        ) from None
    return check_vectors(content, repr(str(path)))


def check_vectors(content: np.ndarray, where: str) -> np.ndarray:
    """The same as float32 [N, D]; a UserError unless they are numbers in a table that can be reckoned with."""
    if content.dtype.kind != "f" or content.ndim != 2 or not content.size:
        found = f"{content.dtype} of shape {list(content.shape)}"
        raise UserError(f"{where} has {found}: features are float16 or float32 of shape [images, numbers for each]")
    with np.errstate(over="ignore"):
        vectors = np.array(content, dtype=np.float32, order="C")
    usable = (vectors.max(axis=1) <= LARGEST) & (vectors.min(axis=1) >= -LARGEST)
    if not usable.all():
        found = f"row {int(np.flatnonzero(~usable)[0])} (from 0) has a feature that is infinite or not a number"
        raise UserError(f"{where}: {found} or beyond {LARGEST:g}; leave it out, or divide all features by one number")
    return vectors


def read_ids(path: Path, n: int) -> list[str]:
    """The names of n rows: the column "image" of a CSV file that has one, otherwise a name a line."""
    text = read_text(path, "the ids")
    lines = [line for line in text.splitlines() if line.strip()]
    separator = separator_of(lines[0], "image") if lines else None
    try:
        if separator:
            header, *rows = csv.reader(lines, delimiter=separator, strict=True)
            column = [field.strip() for field in header].index("image")
            lines = [fields[column] for fields in rows]
    except (csv.Error, IndexError):
        raise UserError(f"{str(path)!r} has a line without an image under its header") from None
    names = [same_name(line.strip()) for line in lines]
    if len(names) != n:
        raise UserError(
            f"{str(path)!r} names {len(names):,} images, and there are features of {n:,}: one line for each"
        )
    if len(set(names)) < n:
        twice = Counter(names).most_common(1)[0][0]
        raise UserError(f"{str(path)!r} names {twice!r} twice: every row needs a name of its own")
    return names
