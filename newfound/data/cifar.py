"""CIFAR-10 and CIFAR-100 from the publishers' files: the first classes are labelled, the last are to be discovered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from newfound.data.collection import Pool, Reading, assemble
from newfound.data.hiding import hide_half
from newfound.data.store import ImageStore
from newfound.data.unpickle import read_pickle
from newfound.errors import UserError

SIDE = 32
VALUES = 3 * SIDE * SIDE
"""Bytes of an image: its red plane, then its green, then its blue one."""


@dataclass(frozen=True)
class Layout:
    """Which files there are, what they call their content, and how many images of each class they have."""

    name: str
    folder: str
    train: tuple[str, ...]
    test: str
    meta: str
    labels: bytes
    class_names: bytes
    classes: int
    train_per_class: int
    test_per_class: int


CIFAR10 = Layout(
    name="cifar10",
    folder="cifar-10-batches-py",
    train=tuple(f"data_batch_{k}" for k in range(1, 6)),
    test="test_batch",
    meta="batches.meta",
    labels=b"labels",
    class_names=b"label_names",
    classes=10,
    train_per_class=5000,
    test_per_class=1000,
)
CIFAR100 = Layout(
    name="cifar100",
    folder="cifar-100-python",
    train=("train",),
    test="test",
    meta="meta",
    labels=b"fine_labels",
    class_names=b"fine_label_names",
    classes=100,
    train_per_class=500,
    test_per_class=100,
)


def read_cifar10(root: Path, seed: int, *, mixed: bool = False, layout: Layout = CIFAR10) -> Reading:
    """Images [3, 32, 32]: classes 0 to 4 are labelled, 5 to 9 are to be discovered, all ten are tested."""
    return _read(root, layout, known=5, used=10, seed=seed, mixed=mixed)


def read_cifar10_rehearsal(root: Path, seed: int, *, mixed: bool = False, layout: Layout = CIFAR10) -> Reading:
    """Images [3, 32, 32] to choose settings with: of the five labelled classes the last two pretend to be novel.

    The classes that really are novel, 5 to 9, are left out, of the test images too.
    """
    return _read(root, layout, known=3, used=5, seed=seed, mixed=mixed)


def read_cifar100(root: Path, seed: int, *, known: int = 80, mixed: bool = False, layout: Layout = CIFAR100) -> Reading:
    """Images [3, 32, 32]: the first ``known`` classes are labelled, the others of the 100 are to be discovered."""
    return _read(root, layout, known=known, used=100, seed=seed, mixed=mixed)


def read_cifar100_rehearsal(root: Path, seed: int, *, mixed: bool = False, layout: Layout = CIFAR100) -> Reading:
    """Images [3, 32, 32] to choose settings with: of the 80 labelled classes the last 16 pretend to be novel.

    The classes that really are novel, 80 to 99, are left out, of the test images too.
    """
    return _read(root, layout, known=64, used=80, seed=seed, mixed=mixed)


def _read(root: Path, layout: Layout, *, known: int, used: int, seed: int, mixed: bool) -> Reading:
    """Classes below ``known`` labelled, those from there and below ``used`` to be discovered, the others left out. A
    ``mixed`` pile has half of the known images, too."""
    folder = _find(root, layout)
    class_names = _class_names(folder / layout.meta, layout)
    n_train, n_test = layout.classes * layout.train_per_class, layout.classes * layout.test_per_class
    images = np.empty((n_train + n_test, VALUES), np.uint8)
    labels = np.empty(n_train + n_test, np.int64)
    each = n_train // len(layout.train)
    for k, name in enumerate(layout.train):
        rows = slice(k * each, (k + 1) * each)
        images[rows], labels[rows] = _batch(folder / name, layout, each)
    images[n_train:], labels[n_train:] = _batch(folder / layout.test, layout, n_test)
    _require_equal_classes(labels[:n_train], class_names, layout.train_per_class, folder, "training")
    _require_equal_classes(labels[n_train:], class_names, layout.test_per_class, folder, "test")

    row = np.arange(len(labels))
    trained = row < n_train
    pool = Pool(
        images=ImageStore(images.reshape(-1, 3, SIDE, SIDE)),
        names=[f"train-{i:05d}" for i in range(n_train)] + [f"test-{i:05d}" for i in range(n_test)],
        categories=[class_names[label] for label in labels.tolist()],
    )
    labelled, hidden = row[trained & (labels < known)], row[:0]
    if mixed:
        labelled, hidden = hide_half(labelled, labels, seed)
    return assemble(
        pool,
        labelled=labelled,
        unlabelled=np.concatenate([hidden, row[trained & (labels >= known) & (labels < used)]]),
        test=row[~trained & (labels < used)],
        n_novel=used - known,
        seed=seed,
        mixed=mixed,
    )


def _find(root: Path, layout: Layout) -> Path:
    """The folder with the publishers' files: in ``root``, or ``root`` itself."""
    folder = root / layout.folder
    if not folder.is_dir() and (root / layout.meta).is_file():
        folder = root
    if not folder.is_dir():
        raise UserError(
            f"{str(root)!r} has no folder {layout.folder}: {_how_to_get(layout)}, or give with --data the folder that "
            "has it"
        )
    for name in (*layout.train, layout.test, layout.meta):
        if not (folder / name).is_file():
            raise UserError(f"{str(folder)!r} has no file {name}: it is not whole; {_how_to_get(layout)}")
    return folder


def _how_to_get(layout: Layout) -> str:
    return f"get the data set with `newfound data get {layout.name} --to ROOT`"


def _class_names(path: Path, layout: Layout) -> list[str]:
    found = read_pickle(path).get(layout.class_names)
    listed = [name for name in found if isinstance(name, bytes)] if isinstance(found, list) else []
    names = list(dict.fromkeys(name.decode("ascii", "replace") for name in listed))
    if len(names) != layout.classes:
        raise UserError(
            f"{str(path)!r} names {len(names)} classes under {layout.class_names.decode()}, and {layout.name} has "
            f"{layout.classes}: {_how_to_get(layout)}"
        )
    return names


def _batch(path: Path, layout: Layout, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Images [n, 3072] and labels [n] of one file."""
    content = read_pickle(path)
    images, labels = content.get(b"data"), content.get(layout.labels)
    if not isinstance(images, np.ndarray):
        raise UserError(f"{str(path)!r} has no array of images under the name data: {_how_to_get(layout)}")
    if images.shape != (n, VALUES):
        raise UserError(
            f"{str(path)!r} has images of shape {list(images.shape)}, and {layout.name}'s are of shape "
            f"{[n, VALUES]}: {_how_to_get(layout)}"
        )
    return images, _labels(labels, path, layout, n)


def _labels(found: Any, path: Path, layout: Layout, n: int) -> np.ndarray:
    key = layout.labels.decode()
    if not isinstance(found, list) or not all(type(label) is int for label in found):
        raise UserError(f"{str(path)!r} has no list of whole numbers under the name {key}: {_how_to_get(layout)}")
    if len(found) != n:
        raise UserError(f"{str(path)!r} has {len(found):,} {key} for {n:,} images: {_how_to_get(layout)}")
    labels = np.array(found, dtype=np.int64)
    if n and not 0 <= labels.min() <= labels.max() < layout.classes:
        wrong = labels.min() if labels.min() < 0 else labels.max()
        raise UserError(
            f"{str(path)!r} has the label {wrong} under {key}, and {layout.name}'s labels go from 0 to "
            f"{layout.classes - 1}: {_how_to_get(layout)}"
        )
    return labels


def _require_equal_classes(labels: np.ndarray, class_names: list[str], each: int, folder: Path, part: str) -> None:
    counts = np.bincount(labels, minlength=len(class_names))
    if (counts != each).any():
        odd = int(np.flatnonzero(counts != each)[0])
        raise UserError(
            f"{str(folder)!r} has {counts[odd]:,} {part} images of class {odd} ({class_names[odd]}), and the "
            f"publishers' files have {each:,}: one of the files is not theirs"
        )
