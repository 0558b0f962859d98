"""What a method may see (Collection), and apart from it what only evaluation may see (Answers)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from newfound.data.store import ImageStore
from newfound.errors import UserError

UNKNOWN = -1


@dataclass(frozen=True)
class Collection:
    """Images, and the labels of those that have one: all that training ever sees.

    ``train`` holds the labelled images first and then the unlabelled ones, the latter in an order drawn from the seed,
    since orders on disk give classes away. ``labels`` [len(train)] counts into ``classes``; the unlabelled images have
    UNKNOWN. ``test`` holds images that are never trained on, old and new mixed, in an order drawn from the seed too.
    No file name is here, and no answer.
    """

    train: ImageStore
    labels: np.ndarray
    classes: tuple[str, ...]
    test: ImageStore | None = None

    def __post_init__(self) -> None:
        if self.labels.shape != (len(self.train),):
            raise ValueError(f"{len(self.train)} training images but labels of shape {self.labels.shape}")
        if (self.labels[: self.n_labelled] == UNKNOWN).any():
            raise ValueError("labelled images must come before the unlabelled ones")
        if self.n_labelled and self.labels.max() >= len(self.classes):
            raise ValueError(f"label {self.labels.max()} has no name: {len(self.classes)} classes were given")

    @property
    def n_labelled(self) -> int:
        return int((self.labels != UNKNOWN).sum())

    @property
    def n_unlabelled(self) -> int:
        return len(self.labels) - self.n_labelled

    @property
    def labelled(self) -> np.ndarray:
        """Indices into ``train`` of the labelled images."""
        return np.arange(self.n_labelled)

    @property
    def unlabelled(self) -> np.ndarray:
        """Indices into ``train`` of the unlabelled images."""
        return np.arange(self.n_labelled, len(self.labels))

    def fingerprint(self) -> str:
        """A digest of everything in it: a run that is resumed must see what it saw before."""
        parts = [self.train.fingerprint(), self.labels.tobytes().hex(), *self.classes]
        parts.append(self.test.fingerprint() if self.test is not None else "")
        return hashlib.blake2b("\0".join(parts).encode(errors="surrogateescape"), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Answers:
    """The true categories, by name, of the unlabelled training images and of the test images.

    Only ``newfound.evaluate`` is handed this object. Either part may be missing; a missing name (None) inside a part
    leaves that image out of the figures.
    """

    unlabelled: tuple[str | None, ...] | None = None
    test: tuple[str | None, ...] | None = None


@dataclass(frozen=True)
class Skipped:
    """A file that could not be used, and why."""

    file: str
    reason: str


@dataclass(frozen=True)
class Names:
    """What people call the images, row by row as in the Collection: paths, or a data set's own numbering."""

    labelled: tuple[str, ...]
    unlabelled: tuple[str, ...]
    test: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """What a reader gives back: the Collection for methods, names for people, answers for evaluation."""

    collection: Collection
    names: Names
    answers: Answers | None = None
    skipped: tuple[Skipped, ...] = field(default=())


@dataclass(frozen=True)
class Part:
    """Images [N, C, H, W] uint8 with their names and, where known, their categories: a reader's raw material."""

    images: np.ndarray
    names: tuple[str, ...]
    categories: tuple[str, ...] | None = None

    def take(self, index: np.ndarray) -> Part:
        categories = None if self.categories is None else tuple(self.categories[i] for i in index)
        return Part(self.images[index], tuple(self.names[i] for i in index), categories)


def assemble(
    labelled: Part, unlabelled: Part, test: Part | None = None, *, seed: int, skipped: tuple[Skipped, ...] = ()
) -> Reading:
    """Shuffle what must not keep its order, and part the answers from what methods see."""
    if labelled.categories is None:
        raise ValueError("the labelled part has no categories")
    if not len(labelled.images):
        raise UserError("no labelled image was found: give at least one image of each category you know")
    if not len(unlabelled.images):
        raise UserError("no unlabelled image was found: there is nothing to discover categories in")
    rng = np.random.default_rng([seed, 0xDA7A])
    unlabelled = unlabelled.take(rng.permutation(len(unlabelled.images)))
    if test is not None:
        test = test.take(rng.permutation(len(test.images)))
    classes = tuple(sorted(set(labelled.categories)))
    number = {name: i for i, name in enumerate(classes)}
    labels = np.full(len(labelled.images) + len(unlabelled.images), UNKNOWN, dtype=np.int64)
    labels[: len(labelled.images)] = [number[name] for name in labelled.categories]
    collection = Collection(
        train=ImageStore(np.concatenate([labelled.images, unlabelled.images])),
        labels=labels,
        classes=classes,
        test=None if test is None else ImageStore(test.images),
    )
    known = unlabelled.categories is not None or (test is not None and test.categories is not None)
    return Reading(
        collection=collection,
        names=Names(labelled.names, unlabelled.names, test.names if test is not None else ()),
        answers=Answers(unlabelled.categories, test.categories if test is not None else None) if known else None,
        skipped=skipped,
    )
