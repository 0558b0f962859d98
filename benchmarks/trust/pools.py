"""Images with their categories, from data sets that play the part of people's own images; and their features.

Of data sets in the paper only what is labelled there is read: CIFAR-100's classes 0 to 79, CIFAR-10's 0 to 4, and
OmniGlot's background alphabets.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits

sys.path.append(str(Path(__file__).parents[1]))
from record import begin
from record import write as write_record

from newfound.data.cache import default_cache
from newfound.data.cifar import read_cifar10, read_cifar100
from newfound.data.collection import Reading
from newfound.data.store import ImageStore
from newfound.engine.frozen import frozen_features
from newfound.model import Encoder
from newfound.nets.pretrained import load_backbone
from newfound.progress import Reporter

BACKBONE = "efficientnet-lite0"
ALPHABETS = ("Balinese", "Futurama", "Greek", "Hebrew", "Latin")


@dataclass(frozen=True)
class Pool:
    """Images of one size, and the category of each [N]."""

    images: ImageStore
    categories: np.ndarray

    def of(self, category: str) -> np.ndarray:
        """The rows of that category."""
        return np.flatnonzero(self.categories == category)


def digits(root: Path) -> Pool:
    """scikit-learn's digits, 8 px."""
    found = load_digits()
    pixels = (found.images * 15.9).astype(np.uint8)
    return Pool(ImageStore(pixels[:, None].repeat(3, 1)), found.target.astype(str))


def fashion(root: Path, each: int = 150) -> Pool:
    """Test images of Fashion-MNIST, 28 px, from Debian's package dataset-fashion-mnist."""

    def content(name: str) -> bytes:
        return gzip.decompress(next(root.rglob(name)).read_bytes())

    labels = np.frombuffer(content("t10k-labels-idx1-ubyte.gz"), np.uint8, offset=8)
    pixels = np.frombuffer(content("t10k-images-idx3-ubyte.gz"), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    rows = _first(labels, each)
    return Pool(ImageStore(pixels[rows].repeat(3, 1)), labels[rows].astype(str))


def omniglot(root: Path) -> Pool:
    """All characters of five background alphabets, 105 px."""
    files = [file for name in ALPHABETS for file in sorted((root / "images_background" / name).rglob("*.png"))]
    pixels = np.stack([np.asarray(Image.open(file).convert("L")) for file in files])
    categories = np.array([f"{file.parts[-3]}/{file.parts[-2]}" for file in files])
    return Pool(ImageStore(pixels[:, None].repeat(3, 1)), categories)


def cifar100(root: Path, each: int = 60) -> Pool:
    """Training images of CIFAR-100's classes 0 to 79, 32 px."""
    return _labelled(read_cifar100(root, 0), each)


def cifar10(root: Path, each: int = 150) -> Pool:
    """Training images of CIFAR-10's classes 0 to 4, 32 px."""
    return _labelled(read_cifar10(root, 0), each)


POOLS: dict[str, Callable[[Path], Pool]] = {
    "digits": digits,
    "fashion": fashion,
    "omniglot": omniglot,
    "cifar10": cifar10,
    "cifar100": cifar100,
}


def embed(pool: Pool, cache: Path) -> np.ndarray:
    """The features [N, D] that apl-features would read of the images, kept in ``cache``."""
    backbone = load_backbone(BACKBONE, "", cache)
    statistics = torch.tensor(backbone.mean), torch.tensor(backbone.deviation)
    encoder = Encoder(backbone.network, 3, pool.images.shape[1], *statistics, resized=backbone.size)
    encoder.net.load_state_dict(backbone.net.state_dict())
    cpu, reporter = torch.device("cpu"), Reporter()
    found = frozen_features(
        encoder, pool.images, cpu, reporter, of=encoder.backbone_features, identity=backbone.digest(), cache=cache
    )
    return found.numpy()


def _labelled(whole: Reading, each: int) -> Pool:
    labels = whole.collection.labels[: whole.collection.n_labelled]
    rows = _first(labels, each)
    return Pool(whole.collection.train.take(rows), np.array(whole.collection.classes)[labels[rows]])


def _first(labels: np.ndarray, each: int) -> np.ndarray:
    """The rows of the first images of every label."""
    return np.concatenate([np.flatnonzero(labels == label)[:each] for label in np.unique(labels)])


@dataclass(frozen=True)
class Options:
    """What the scripts here are called with."""

    roots: dict[str, Path]
    cache: Path
    seeds: int
    first: int
    show: bool


def options(what: str | None, seeds: int) -> Options:
    """The call, with that many seeds unless it says otherwise."""
    parser = argparse.ArgumentParser(description=what, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="has CIFAR and OmniGlot (`newfound data get`)")
    parser.add_argument("--fashion", type=Path, required=True, help="what Debian's dataset-fashion-mnist installs")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="features found there cost no time")
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--first", type=int, default=0, help="the first seed: others than the record's to choose with")
    parser.add_argument("--print", action="store_true", help="print instead of writing the record")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    roots = dict.fromkeys(POOLS, chosen.data) | {"fashion": chosen.fashion}
    return Options(roots, chosen.cache, chosen.seeds, chosen.first, chosen.print)


def write(path: Path, record: dict[str, Any], chosen: Options, settings: Any = None) -> None:
    """Write the record, with ``settings`` where something was trained, or print it."""
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    record = begin(settings=settings or {}, seed=seeds) | record
    if chosen.show:
        print(json.dumps(record, indent=1))
    else:
        write_record(path, record)
