"""What a method may see (Collection), and apart from it what only evaluation may see (Answers)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from newfound.data.store import ImageStore
from newfound.errors import UserError

UNKNOWN = -1


@dataclass(frozen=True)
class Task:
    """Unlabelled images, ``rows`` among the training images, and the categories they may have, ``candidates``.

    Categories are counted known ones first, then novel ones. The candidates are the task's own novel categories; where
    known ones may hide among the unlabelled images, they are candidates too. Most collections are one task without a
    name; OmniGlot has one for each alphabet.
    """

    name: str
    rows: np.ndarray
    candidates: np.ndarray


def novel_tasks(n_known: int, *tasks: tuple[str, int, np.ndarray], mixed: bool = False) -> tuple[Task, ...]:
    """Tasks from the name, the number of novel categories and the rows of each. Their candidates are novel; those of
    mixed piles are all known categories, too."""
    made, begun = [], n_known
    for name, n_novel, rows in tasks:
        if not 1 <= n_novel <= len(rows):
            images = f"the {len(rows):,} unlabelled images{f' of {name}' if name else ''}"
            raise UserError(f"cannot find {n_novel:,} novel categories among {images}: choose 1 to that many")
        known = np.arange(n_known if mixed else 0)
        made.append(Task(name, rows, np.concatenate([known, np.arange(begun, begun + n_novel)])))
        begun += n_novel
    return tuple(made)


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
    tasks: tuple[Task, ...]
    test: ImageStore | None = None

    def __post_init__(self) -> None:
        if self.labels.shape != (len(self.train),):
            raise ValueError(f"{len(self.train)} training images but labels of shape {self.labels.shape}")
        if (self.labels[: self.n_labelled] == UNKNOWN).any():
            raise ValueError("labelled images must come before the unlabelled ones")
        if len(self.labels) and not UNKNOWN <= self.labels.min() <= self.labels.max() < len(self.classes):
            raise ValueError(f"labels have to lie in {UNKNOWN} to {len(self.classes) - 1}")
        covered = np.sort(np.concatenate([np.empty(0, np.int64), *(task.rows for task in self.tasks)]))
        if not np.array_equal(covered, self.unlabelled):
            raise ValueError("every unlabelled image has to be in one task, and no other image in any")
        if not all(len(self.novel_of(task)) for task in self.tasks):
            raise ValueError("every task needs a novel category among its candidates")
        found = np.concatenate([np.empty(0, np.int64), *(self.novel_of(task) for task in self.tasks)])
        if not np.array_equal(found, len(self.classes) + np.arange(len(found))):
            raise ValueError("novel categories have to be counted after the known ones, task after task")
        known = [task.candidates[task.candidates < len(self.classes)] for task in self.tasks]
        if not all(np.array_equal(some, np.arange(len(self.classes) if self.mixed else 0)) for some in known):
            raise ValueError("either all known categories are candidates, in every task, or none is")

    @property
    def n_labelled(self) -> int:
        return int((self.labels != UNKNOWN).sum())

    @property
    def n_unlabelled(self) -> int:
        return len(self.labels) - self.n_labelled

    @property
    def n_novel(self) -> int:
        """Novel categories of all tasks together."""
        return sum(len(self.novel_of(task)) for task in self.tasks)

    def novel_of(self, task: Task) -> np.ndarray:
        """The novel categories among the task's candidates."""
        return task.candidates[task.candidates >= len(self.classes)]

    @property
    def mixed(self) -> bool:
        """Whether unlabelled images may be of known categories, too."""
        return any((task.candidates < len(self.classes)).any() for task in self.tasks)

    @property
    def candidates(self) -> np.ndarray:
        """The categories that any unlabelled image may have, rising."""
        return np.unique(np.concatenate([task.candidates for task in self.tasks]))

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
        digest = hashlib.blake2b(digest_size=16)
        parts = [self.train.fingerprint(), self.test.fingerprint() if self.test is not None else "", repr(self.classes)]
        parts += [repr((task.name, task.candidates.tolist(), task.rows.tolist())) for task in self.tasks]
        for part in parts:
            digest.update(part.encode())
        digest.update(self.labels.tobytes())
        return digest.hexdigest()


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
class Pool:
    """All images a reader found, one row each: pixels, a name, a category (None where nobody knows), a task."""

    images: ImageStore
    names: Sequence[str]
    categories: Sequence[str | None]
    tasks: Sequence[str] | None = None

    def names_of(self, rows: np.ndarray) -> tuple[str, ...]:
        return tuple(self.names[i] for i in rows)

    def categories_of(self, rows: np.ndarray) -> tuple[str | None, ...]:
        return tuple(self.categories[i] for i in rows)


def assemble(
    pool: Pool,
    *,
    labelled: np.ndarray,
    unlabelled: np.ndarray,
    test: np.ndarray | None = None,
    n_novel: int | Mapping[str, int],
    seed: int,
    mixed: bool = False,
    skipped: tuple[Skipped, ...] = (),
) -> Reading:
    """A Reading from rows of a pool: shuffles what must not keep its order, and parts the answers from the rest.

    ``n_novel`` is the number of novel categories, by the task's name where the pool has tasks. ``mixed`` says that
    unlabelled images may be of known categories, too.
    """
    if not len(labelled):
        raise UserError("no labelled image was found: give at least one image of each category you know")
    if not len(unlabelled):
        raise UserError("no unlabelled image was found: there is nothing to discover categories in")
    rng = np.random.default_rng([seed, 0xDA7A])
    unlabelled = rng.permutation(unlabelled)
    test = None if test is None else rng.permutation(test)
    known = [str(name) for name in pool.categories_of(labelled)]
    classes = tuple(sorted(set(known)))
    number = {name: i for i, name in enumerate(classes)}
    labels = np.full(len(labelled) + len(unlabelled), UNKNOWN, dtype=np.int64)
    labels[: len(labelled)] = [number[name] for name in known]
    collection = Collection(
        train=pool.images.take(np.concatenate([labelled, unlabelled])),
        labels=labels,
        classes=classes,
        tasks=_tasks(pool, unlabelled, len(labelled), len(classes), n_novel, mixed),
        test=None if test is None else pool.images.take(test),
    )
    answers = Answers(pool.categories_of(unlabelled), None if test is None else pool.categories_of(test))
    any_answer = any(name is not None for name in (*(answers.unlabelled or ()), *(answers.test or ())))
    names = Names(pool.names_of(labelled), pool.names_of(unlabelled), () if test is None else pool.names_of(test))
    return Reading(collection, names, answers if any_answer else None, skipped)


def _tasks(
    pool: Pool, unlabelled: np.ndarray, first: int, n_known: int, n_novel: int | Mapping[str, int], mixed: bool
) -> tuple[Task, ...]:
    if isinstance(n_novel, int):
        return novel_tasks(n_known, ("", n_novel, np.arange(first, first + len(unlabelled))), mixed=mixed)
    assert pool.tasks is not None
    task_of = np.array([pool.tasks[i] for i in unlabelled])
    rows = {name: first + np.flatnonzero(task_of == name) for name in sorted(n_novel)}
    return novel_tasks(n_known, *((name, n_novel[name], own) for name, own in rows.items()), mixed=mixed)
