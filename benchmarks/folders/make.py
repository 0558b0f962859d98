"""Folders as people have them, made from data sets: known/CATEGORY/*.png, pile/*.png, and truth.csv for the judge."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

FASHION = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
ALPHABETS = ("Greek", "Latin", "Hebrew")


@dataclass(frozen=True)
class Kind:
    """A sort of folder: where its images come from, and how many categories of how many images it gets."""

    title: str
    known: int
    novel: int
    each: int


KINDS = {
    "fashion": Kind("Fashion-MNIST, 28 px grey", 5, 5, 40),
    "omniglot": Kind("OmniGlot, characters of Greek, Latin and Hebrew, 105 px line drawings", 10, 10, 20),
    "cifar": Kind("CIFAR-100, of the classes 0 to 79, 32 px photographs", 5, 5, 40),
}


def make(name: str, root: Path, seed: int, into: Path) -> None:
    """Fill the folder ``into``: categories, and images of each, are drawn by the seed."""
    kind, rng = KINDS[name], np.random.default_rng(seed)
    images = {"fashion": _fashion, "omniglot": _omniglot, "cifar": _cifar}[name](root)
    chosen = rng.permutation(sorted(images))[: kind.known + kind.novel].tolist()
    (into / "pile").mkdir(parents=True)
    pile = []
    for number, category in enumerate(chosen):
        rows = rng.permutation(len(images[category]))[: kind.each]
        if number < kind.known:
            (into / "known" / category).mkdir(parents=True)
            for i, row in enumerate(rows):
                images[category][row].save(into / "known" / category / f"{i:02d}.png")
        else:
            pile += [(category, images[category][row]) for row in rows]
    with open(into / "truth.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["image", "label"])
        for i, place in enumerate(rng.permutation(len(pile))):
            category, image = pile[place]
            image.save(into / "pile" / f"{i:03d}.png")
            table.writerow([f"{i:03d}.png", category])


def _fashion(root: Path) -> dict[str, list[Image.Image]]:
    """The test images of Debian's package dataset-fashion-mnist, wherever below ``root`` they are."""

    def content(name: str) -> bytes:
        return gzip.decompress(next(root.rglob(name)).read_bytes())

    labels = np.frombuffer(content("t10k-labels-idx1-ubyte.gz"), np.uint8, offset=8)
    pixels = np.frombuffer(content("t10k-images-idx3-ubyte.gz"), np.uint8, offset=16).reshape(-1, 28, 28)
    return {name: [Image.fromarray(image) for image in pixels[labels == i]] for i, name in enumerate(FASHION)}


def _omniglot(root: Path) -> dict[str, list[Image.Image]]:
    return {f"{alphabet}-{name}": images for alphabet in ALPHABETS for name, images in _characters(root, alphabet)}


def _characters(root: Path, alphabet: str) -> Iterator[tuple[str, list[Image.Image]]]:
    for folder in sorted((root / "images_background" / alphabet).iterdir()):
        yield folder.name, [Image.open(file).convert("L") for file in sorted(folder.iterdir())]


def _cifar(root: Path) -> dict[str, list[Image.Image]]:
    from newfound.data.cifar import read_cifar100

    whole = read_cifar100(root, 0).collection
    labels = whole.labels[: whole.n_labelled]
    found: dict[str, list[Image.Image]] = {}
    for number, name in enumerate(whole.classes):
        pixels = whole.train.take(np.flatnonzero(labels == number)).images.numpy().transpose(0, 2, 3, 1)
        found[name] = [Image.fromarray(image) for image in pixels]
    return found
