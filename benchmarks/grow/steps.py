"""The folders that growing is measured on, and what a run's model says of them."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from newfound.data.cache import decode_cached
from newfound.engine.frozen import frozen_features
from newfound.evaluate.accuracy import match
from newfound.methods import get_method
from newfound.progress import Reporter
from newfound.runfolder import Run
from newfound.runs.found import Discovery
from newfound.runs.predict import Predictor

GROUPS = ("known", "first", "later")


@dataclass(frozen=True)
class Folders:
    """known/CATEGORY, first and later (piles), first-labelled/CATEGORY, both (the piles together) and test, whose
    images are called GROUP-CATEGORY-NUMBER.png in the piles and in test; and how many categories each group has."""

    root: Path
    sizes: dict[str, int]

    def __getitem__(self, name: str) -> Path:
        return self.root / name


def lay_out(root: Path, images: np.ndarray, labels: Sequence[str], test: np.ndarray, groups: dict[str, str]) -> Folders:
    """Folders of images uint8 [N, H, W] or [N, H, W, 3]; ``groups`` says which group each category is in, ``test``
    [N] which images are kept from training."""
    for row, (label, held_out) in enumerate(zip(labels, test, strict=True)):
        group = groups[label]
        name = f"{group}-{label}-{row:05d}.png"
        if held_out:
            places = [f"test/{name}"]
        elif group == "known":
            places = [f"known/{label}/{name}"]
        elif group == "first":
            places = [f"first/{name}", f"both/{name}", f"first-labelled/{label}/{name}"]
        else:
            places = [f"later/{name}", f"both/{name}"]
        for place in places:
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(images[row]).save(root / place)
    shutil.copytree(root / "known", root / "first-labelled", dirs_exist_ok=True)
    return Folders(root, {group: sum(one == group for one in groups.values()) for group in GROUPS})


def truth_of(name: str) -> tuple[str, str]:
    """Group and category of an image, by its name."""
    group, category, _ = Path(name).stem.split("-")
    return group, category


def meanings(found: Discovery) -> dict[str, str]:
    """What each found category stands for: the true one that it shares its images with, one to one."""
    truth = [truth_of(image)[1] for image in found.images]
    names, true = sorted(set(found.categories)), sorted(set(truth))
    pairs = match(np.array([names.index(c) for c in found.categories]), np.array([true.index(t) for t in truth]))
    return {names[one]: true[other] for one, other in pairs.items() if other < len(true)}


def pile_accuracy(found: Discovery, group: str | None = None) -> float:
    """The share of the pile, or of a group in it, that is in the category of its truth."""
    meaning = meanings(found)
    pairs = zip(found.images, found.categories, strict=True)
    return _share([meaning.get(c) == truth_of(i)[1] for i, c in pairs if group in (None, truth_of(i)[0])])


def judged(folder: Path, images: Path, meaning: dict[str, str], cache: Path) -> dict[str, float]:
    """By group, the share of the images that the run's model gives the right one of all its categories."""
    predictor = Predictor(folder, device="cpu", reporter=Reporter(quiet=True))
    _keep_features(Run.open(folder), predictor, images, cache)
    right: dict[str, list[bool]] = {}
    for one in predictor.predict([images]):
        group, truth = truth_of(one.image)
        right.setdefault(group, []).append(meaning.get(one.category, one.category) == truth)
    return {group: _share(values) for group, values in right.items()}


def _keep_features(run: Run, predictor: Predictor, images: Path, cache: Path) -> None:
    """Have the features of a frozen network in the cache: the same images are judged again and again."""
    if identity := get_method(run.settings.method)(run.settings).kept_as():
        store = decode_cached(sorted(images.iterdir()), run.settings.data.size, cache=cache, reporter=Reporter(True))
        encoder, quiet = predictor.model.encoder, Reporter(quiet=True)
        options: dict[str, Any] = {"identity": identity, "cache": cache, "of": encoder.backbone_features}
        frozen_features(encoder, store.images, torch.device("cpu"), quiet, **options)


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values)


def write_labels(path: Path, labels: dict[str, str]) -> Path:
    """A table image,label."""
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("image", "label"), *labels.items()])
    return path
