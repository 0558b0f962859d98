"""Where a collection comes from: a data set by its name, or folders of images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from newfound.data.collection import Reading
from newfound.data.digits import read_digits, read_digits_rehearsal
from newfound.data.tasks import only_task, with_novel
from newfound.errors import UserError, did_you_mean
from newfound.progress import Reporter


@dataclass(frozen=True)
class Request:
    """How a collection is to be read."""

    size: int
    """Pixels that images of no fixed size are brought to."""
    seed: int
    reporter: Reporter
    mixed: bool = False
    """Whether known categories may hide in the pile; half of a data set's known images are then put there."""
    root: Path | None = None
    """The folder that a data set's files are in."""
    cache: Path | None = None
    """The folder that decoded images are kept in; without one they are decoded each time."""


@dataclass(frozen=True)
class DataSet:
    """A data set with a split of its own, hence a known number of novel categories."""

    summary: str
    read: Callable[[Request], Reading]
    recipe: str
    """Which recipes are for it: METHOD-RECIPE."""
    get: str | None = None
    """How its files are obtained; None if it has none."""
    mixed: bool = False
    """Whether it can be read as a mixed pile."""


def _read_cifar10(request: Request) -> Reading:
    from newfound.data.cifar import read_cifar10

    return read_cifar10(_root(request), request.seed, mixed=request.mixed)


def _read_cifar10_rehearsal(request: Request) -> Reading:
    from newfound.data.cifar import read_cifar10_rehearsal

    return read_cifar10_rehearsal(_root(request), request.seed, mixed=request.mixed)


def _read_cifar100(request: Request, known: int) -> Reading:
    from newfound.data.cifar import read_cifar100

    return read_cifar100(_root(request), request.seed, known=known, mixed=request.mixed)


def _read_cifar100_rehearsal(request: Request) -> Reading:
    from newfound.data.cifar import read_cifar100_rehearsal

    return read_cifar100_rehearsal(_root(request), request.seed, mixed=request.mixed)


def _read_omniglot(request: Request) -> Reading:
    from newfound.data.omniglot import read_omniglot

    return read_omniglot(
        _root(request), request.seed, size=request.size, reporter=request.reporter, cache=request.cache
    )


def _read_omniglot_rehearsal(request: Request) -> Reading:
    from newfound.data.omniglot import read_omniglot_rehearsal

    return read_omniglot_rehearsal(
        _root(request), request.seed, size=request.size, reporter=request.reporter, cache=request.cache
    )


def _read_imagenet(request: Request, subset: str) -> Reading:
    from newfound.data.imagenet import read_imagenet

    return read_imagenet(
        _root(request), subset, request.seed, size=request.size, reporter=request.reporter, cache=request.cache
    )


def _root(request: Request) -> Path:
    assert request.root is not None  # Source sees to it
    return request.root


def _getting(name: str) -> str:
    return f"obtain it with `newfound data get {name} --to ROOT`"


IMAGENET = "ImageNet has to be requested from image-net.org"

DATASETS = {
    "digits": DataSet(
        "handwritten digits, 8 x 8, inside scikit-learn: even ones known, odd ones novel",
        lambda request: read_digits(request.seed, mixed=request.mixed),
        recipe="digits",
        mixed=True,
    ),
    "digits-rehearsal": DataSet(
        "digits to choose settings with: 0 and 2 known, 4, 6 and 8 as if novel",
        lambda request: read_digits_rehearsal(request.seed, mixed=request.mixed),
        recipe="digits",
        mixed=True,
    ),
    "cifar10": DataSet(
        "CIFAR-10: classes 0-4 known, 5-9 novel", _read_cifar10, "cifar10", _getting("cifar10"), mixed=True
    ),
    "cifar10-rehearsal": DataSet(
        "CIFAR-10 to choose settings with: classes 0-2 known, 3 and 4 as if novel",
        _read_cifar10_rehearsal,
        "cifar10",
        _getting("cifar10"),
        mixed=True,
    ),
    "cifar100": DataSet(
        "CIFAR-100: classes 0-79 known, 80-99 novel",
        partial(_read_cifar100, known=80),
        "cifar100",
        _getting("cifar100"),
        mixed=True,
    ),
    "cifar100-50": DataSet(
        "CIFAR-100: classes 0-49 known, 50-99 novel",
        partial(_read_cifar100, known=50),
        "cifar100",
        _getting("cifar100"),
        mixed=True,
    ),
    "cifar100-rehearsal": DataSet(
        "CIFAR-100 to choose settings with: classes 0-63 known, 64-79 as if novel",
        _read_cifar100_rehearsal,
        "cifar100",
        _getting("cifar100"),
        mixed=True,
    ),
    "omniglot": DataSet(
        "OmniGlot: 964 characters of 30 alphabets known, 20 alphabets novel, a task each",
        _read_omniglot,
        "omniglot",
        _getting("omniglot"),
    ),
    "omniglot-rehearsal": DataSet(
        "OmniGlot to choose settings with: 795 characters of 25 alphabets known, 5 alphabets as if novel",
        _read_omniglot_rehearsal,
        "omniglot",
        _getting("omniglot"),
    ),
} | {
    f"imagenet-{subset.lower()}": DataSet(
        f"ImageNet: 882 classes known, the 30 of subset {subset} novel",
        partial(_read_imagenet, subset=subset),
        "imagenet",
        IMAGENET,
    )
    for subset in "ABC"
}


@dataclass(frozen=True)
class Source:
    """Either ``dataset``, or the folders ``labelled`` and ``unlabelled`` (with ``labels``, a CSV file, if any), or
    ``features``, an .npy file, with ``labels`` and, if its rows have names, ``ids``; or, of a run that goes on from
    another one, ``known``, the list of what that one knew and found, and ``unlabelled``.

    ``data`` is the folder that the data set's files are in; one without files needs none.
    ``n_novel`` is how many categories to look for; a data set knows it by itself, and can be given another number.
    """

    dataset: str | None = None
    labelled: str | None = None
    unlabelled: str | None = None
    labels: str | None = None
    n_novel: int | None = None
    data: str | None = None
    task: str | None = None
    """One task of a data set that has several."""
    features: str | None = None
    ids: str | None = None
    hold_out: float | None = None
    """The share of the labelled images that is kept from training, if others than ``data.holdout`` takes."""
    grown_from: str | None = None
    """The run folder that ``known`` came from."""
    known: str | None = None
    next_name: str | None = None
    """What the first category is called that is found beside the known ones, such as novel-04."""
    mixed: bool = False
    """Whether known categories may hide in the pile. A data set has half of its known images put there."""

    def __post_init__(self) -> None:
        if self.hold_out is not None and self.dataset:
            raise UserError("--hold-out is for folders and features: data sets have test images of their own")
        if self.hold_out is not None and not 0 <= self.hold_out <= 0.5:
            raise UserError(f"--hold-out {self.hold_out}: it has to be from 0 to 0.5, a share of the labelled images")
        if self.ids and not self.features:
            raise UserError("--ids names the rows of --features: give both")
        if self.features:
            self._check_features()
            return
        if self.known:
            self._check_grown()
            return
        if self.dataset is None and self.task is not None:
            raise UserError("--task is for data sets of several tasks; give --dataset")
        if self.dataset is not None and (self.labelled or self.unlabelled or self.labels):
            raise UserError("give either --dataset or --labelled and --unlabelled, not both")
        if self.dataset is None and not (self.labelled and self.unlabelled):
            raise UserError("give --labelled and --unlabelled folders, or the --dataset to use")
        if self.dataset is not None and self.dataset not in DATASETS:
            raise UserError(f"there is no data set {self.dataset}{did_you_mean(self.dataset, DATASETS)}")
        if self.dataset is None and self.data:
            raise UserError("--data says where a data set's files are: name the data set with --dataset")
        if self.dataset is not None and self.mixed and not DATASETS[self.dataset].mixed:
            those = ", ".join(name for name, found in DATASETS.items() if found.mixed)
            raise UserError(f"--mixed: the data set {self.dataset} has no mixed pile; those that have: {those}")
        if self.dataset is not None and not self.data and (get := DATASETS[self.dataset].get):
            raise UserError(f"the data set {self.dataset} is read from files: give --data ROOT; {get}")
        if self.dataset is None and self.n_novel is None:
            raise UserError("say with --novel how many categories to look for; --novel auto estimates it")
        if self.n_novel is not None and self.n_novel < 1:
            raise UserError(f"--novel {self.n_novel}: there has to be at least one category to look for")

    def _check_features(self) -> None:
        if self.dataset or self.data or self.task or self.labelled or self.unlabelled:
            raise UserError("--features stands for the images: leave --labelled, --unlabelled and --dataset out")
        if not self.labels:
            raise UserError("--features needs --labels, a CSV file image,label with the categories of the known rows")
        if self.n_novel is None or self.n_novel < 1:
            raise UserError("say with --novel how many categories to look for, at least one; --novel auto estimates it")

    def _check_grown(self) -> None:
        if self.dataset or self.data or self.task or self.labelled or self.labels or self.ids:
            raise UserError("known stands for the labelled images: leave labelled, labels, dataset, data and task out")
        if not self.unlabelled or not self.next_name:
            raise UserError("known needs unlabelled, the images to find categories in, and next_name")
        if self.n_novel is None or self.n_novel < 1:
            raise UserError("say with --novel how many categories to look for, at least one")

    @property
    def recipes(self) -> tuple[str, ...]:
        """Which recipes are for it, METHOD-RECIPE, the most fitting first."""
        return (self.dataset, DATASETS[self.dataset].recipe) if self.dataset else ("folder", "folder-natural")

    def absolute(self) -> Source:
        """The same with absolute paths: a run is resumed from anywhere."""
        names = ("labelled", "unlabelled", "labels", "data", "features", "ids", "grown_from", "known")
        paths = {name: getattr(self, name) for name in names}
        absolute: dict[str, Any] = {name: str(Path(path).absolute()) for name, path in paths.items() if path}
        return replace(self, **absolute)

    @cached_property
    def list_images(self) -> Callable[[Path], list[Path]]:
        """``folder.list_images``, which lists a folder once until the images have been read."""
        from newfound.data.folder import list_images

        return cache(list_images)

    def read(self, request: Request) -> Reading:
        """Its images, as the request wants them."""
        if self.features:
            from newfound.data.embeddings import read_embeddings

            assert self.labels
            assert self.n_novel
            ids = Path(self.ids) if self.ids else None
            return read_embeddings(
                Path(self.features),
                ids=ids,
                labels=Path(self.labels),
                n_novel=self.n_novel,
                seed=request.seed,
                mixed=self.mixed,
                reporter=request.reporter,
            )
        if self.dataset is not None:
            root = Path(self.data) if self.data else None
            reading = DATASETS[self.dataset].read(replace(request, root=root, mixed=self.mixed))
            reading = reading if self.task is None else only_task(reading, self.task)
            return reading if self.n_novel is None else with_novel(reading, self.n_novel)
        assert self.unlabelled
        assert self.n_novel
        if self.known:
            return self._read_grown(Path(self.known), request)
        from newfound.data.folder import read_folders

        assert self.labelled
        reading = read_folders(
            Path(self.labelled),
            Path(self.unlabelled),
            labels=Path(self.labels) if self.labels else None,
            n_novel=self.n_novel,
            size=request.size,
            seed=request.seed,
            mixed=self.mixed,
            reporter=request.reporter,
            cache=request.cache,
            listing=self.list_images,
        )
        vars(self).pop("list_images")  # a million paths need not stay in memory while a run trains
        return reading

    def _read_grown(self, known: Path, request: Request) -> Reading:
        from newfound.data.grown import Known, read_grown

        assert self.unlabelled
        assert self.n_novel
        return read_grown(
            Known.load(known),
            Path(self.unlabelled),
            n_novel=self.n_novel,
            size=request.size,
            seed=request.seed,
            mixed=self.mixed,
            reporter=request.reporter,
            cache=request.cache,
        )
