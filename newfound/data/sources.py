"""Where a collection comes from: a data set by its name, or folders of images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from newfound.data.collection import Reading
from newfound.data.digits import read_digits
from newfound.errors import UserError
from newfound.progress import Reporter


@dataclass(frozen=True)
class DataSet:
    """A data set with a split of its own, hence a known number of novel categories."""

    summary: str
    n_novel: int
    read: Callable[[int], Reading]


DATASETS = {
    "digits": DataSet("handwritten digits, 8 x 8, inside scikit-learn: even ones known, odd ones novel", 5, read_digits)
}


@dataclass(frozen=True)
class Source:
    """Either ``dataset``, or the folders ``labelled`` and ``unlabelled`` (with ``labels``, a CSV file, if any)."""

    dataset: str | None = None
    labelled: str | None = None
    unlabelled: str | None = None
    labels: str | None = None

    def __post_init__(self) -> None:
        if self.dataset is not None and (self.labelled or self.unlabelled or self.labels):
            raise UserError("give either --dataset or --labelled and --unlabelled, not both")
        if self.dataset is None and not (self.labelled and self.unlabelled):
            raise UserError("give --labelled and --unlabelled folders, or the --dataset to use")
        if self.dataset is not None and self.dataset not in DATASETS:
            raise UserError(f"there is no data set {self.dataset}; there are: {', '.join(DATASETS)}")

    @property
    def n_novel(self) -> int | None:
        """The number of novel categories, where the data set fixes it."""
        return DATASETS[self.dataset].n_novel if self.dataset else None

    def absolute(self) -> Source:
        """The same with absolute paths: a run is resumed from anywhere."""
        paths = (str(Path(p).absolute()) if p else None for p in (self.labelled, self.unlabelled, self.labels))
        return Source(self.dataset, *paths)

    def read(self, size: int, seed: int, reporter: Reporter) -> Reading:
        """Its images; folders are brought to ``size`` pixels."""
        if self.dataset is not None:
            return DATASETS[self.dataset].read(seed)
        from newfound.data.folder import read_folders

        labels = Path(self.labels) if self.labels else None
        labelled, unlabelled = Path(self.labelled or ""), Path(self.unlabelled or "")
        return read_folders(labelled, unlabelled, labels=labels, size=size, seed=seed, reporter=reporter)
