"""A rehearsal small enough for a CPU, on a data set that is none of the paper's: Fashion-MNIST.

Trousers, pullovers, coats, sandals and bags are known; T-shirts, dresses, shirts, sneakers and ankle boots play the
novel ones, 500 training images of each. Of a root, the files train-images-idx3-ubyte(.gz) and
train-labels-idx1-ubyte(.gz) are read, wherever they lie in it.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from newfound.data.collection import Pool, Reading, assemble
from newfound.data.store import ImageStore
from newfound.errors import UserError

NOVEL = (0, 3, 6, 7, 9)
EACH = 500


def read_fashion(root: Path, seed: int) -> Reading:
    """Images [1, 28, 28], which of a class drawn from the seed."""
    labels = np.frombuffer(_content(root, "train-labels-idx1-ubyte")[8:], np.uint8)
    images = np.frombuffer(_content(root, "train-images-idx3-ubyte")[16:], np.uint8).reshape(-1, 28, 28)
    rng = np.random.default_rng(seed)
    rows = np.concatenate([rng.permutation(np.flatnonzero(labels == kind))[:EACH] for kind in range(10)])
    images, labels = images[rows], labels[rows]
    pool = Pool(ImageStore.from_pixels(images), [str(i) for i in rows], [str(kind) for kind in labels])
    novel = np.isin(labels, NOVEL)
    known, pile = np.flatnonzero(~novel), np.flatnonzero(novel)
    return assemble(pool, labelled=known, unlabelled=pile, n_novel=len(NOVEL), seed=seed)


def _content(root: Path, name: str) -> bytes:
    for path in sorted(root.rglob(f"{name}*")):
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    raise UserError(f"{str(root)!r} has no file {name}: give with --data the folder that has Fashion-MNIST")
