"""The rows of the tables (rows.yaml), and the records that were made of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
Records = dict[str, dict[str, Any]]
"""By name: ROW-SEED."""
MARGIN = 1.05
AFTERWARDS = ("maps", "count")
"""Seconds of a record that are of what was made of a finished run, and not of the run."""


@dataclass(frozen=True)
class DataSet:
    """A data set of the tables: where its files are, and the parts it is run in, if any."""

    title: str
    folders: tuple[str, ...] = ()
    """Of its files, below ROOT."""
    parts: tuple[str, ...] = ()
    """Data sets that the seeds 0, 1, … stand for, such as ImageNet's three subsets; none: it is one itself."""
    note: str = ""
    """What the page says of it, where no row of it has a record."""
    dataset: str = ""
    """The name that `newfound discover --dataset` is given, where it is another one."""
    mixed: bool = False
    """Whether half of the known images are in the pile (--mixed)."""
    short: dict[str, Any] = field(default_factory=dict)
    """Settings of the rows that are ``short``: a schedule that leaves time for several seeds."""


@dataclass(frozen=True)
class Row:
    """A row of a table: a method with settings on a data set; or, with ``of``, what another row reached."""

    name: str
    label: str
    dataset: str
    method: str = ""
    recipe: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    backbone: str | None = None
    minutes: float = 0.0
    """A first guess of how long a run takes, on an H200 of its own."""
    published: str = ""
    """Accuracy on the unlabelled images, in per cent, as printed: "96.0 ± 0.4"."""
    source: str = "paper"
    """Who published it."""
    test: tuple[float, ...] = ()
    """Published figures on test images: old, new, all."""
    snapshots: tuple[int, ...] = ()
    """Epochs whose features, and whose confusion matrices, are kept beside the record, for pictures."""
    count: bool = False
    """Whether the record also has how many novel categories `newfound count --run` finds in the run's features."""
    unsaid: bool = False
    """Whether the run is not told that the pile of its data set is mixed."""
    of: str = ""
    figure: str = ""
    """Which figure on the way, of the row or of ``of``: "stage1" and so on; "" is what it reached in the end."""


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper, and where its counterpart is: a group of rows, on some data sets."""

    table: str
    group: str
    data: tuple[str, ...]
    test: bool = False
    """Whether it is of test images: of the rows with such published figures."""


@dataclass(frozen=True)
class Job:
    """A row with a seed: one run, one record."""

    row: Row
    seed: int

    @property
    def name(self) -> str:
        return f"{self.row.name}-{self.seed}"


@dataclass(frozen=True)
class Tables:
    """What rows.yaml says: data sets, groups of rows for the page, and jobs in the order in which they are run."""

    datasets: dict[str, DataSet]
    groups: dict[str, tuple[Row, ...]]
    jobs: tuple[Job, ...]
    earlier: dict[str, dict[str, str]]
    """Records of earlier runs, which are no row any more: the data set, and what the run was."""
    paper: tuple[PaperTable, ...] = ()

    @property
    def rows(self) -> dict[str, Row]:
        return {row.name: row for rows in self.groups.values() for row in rows}

    def dataset_of(self, job: Job) -> str:
        """The name that `newfound discover --dataset` is given."""
        found = self.datasets[job.row.dataset]
        return found.parts[job.seed] if found.parts else found.dataset or job.row.dataset


def read_tables(path: Path = HERE / "rows.yaml") -> Tables:
    content = yaml.safe_load(path.read_text())
    datasets = {name: DataSet(**_tuples(found)) for name, found in content["datasets"].items()}
    groups = {
        title: tuple(row for found in several for row in _rows(found, datasets))
        for title, several in content["groups"].items()
    }
    paper = tuple(PaperTable(**_tuples(found)) for found in content.get("paper", ()))
    rows = {row.name: row for found in groups.values() for row in found}
    jobs = [Job(rows[name], seed) for step in content["queue"] for name, seeds in step.items() for seed in seeds]
    return Tables(datasets, groups, tuple(jobs), content.get("earlier", {}), paper)


def _rows(found: dict[str, Any], datasets: dict[str, DataSet]) -> Iterator[Row]:
    """One row for each data set that the entry of rows.yaml names; a short one has its data set's short schedule."""
    common = {key: value for key, value in found.items() if key not in ("row", "data", "short")}
    for dataset, own in found["data"].items():
        values = _tuples(common | own)
        if found.get("short"):
            values["settings"] = datasets[dataset].short | values.get("settings", {})
        values["published"] = str(values.get("published", ""))
        if "of" in values:
            values["of"] = f"{dataset}-{values['of']}"
        yield Row(f"{dataset}-{found['row']}", dataset=dataset, **values)


def _tuples(found: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}


def read_records(*folders: Path) -> Records:
    """All records of these folders, by name."""
    paths = [path for folder in folders for path in sorted(folder.glob("*.json"))]
    return {path.stem: json.loads(path.read_text()) for path in paths}


def of_row(row: Row, tables: Tables, records: Records) -> list[dict[str, Any]]:
    """The records that the row is made from, by seed."""
    name = row.of or row.name
    seeds = sorted(job.seed for job in tables.jobs if job.row.name == name)
    return [records[f"{name}-{seed}"] for seed in seeds if f"{name}-{seed}" in records]


def accuracies(row: Row, found: list[dict[str, Any]]) -> list[float]:
    """The row's accuracy in per cent in each of its records; those without such a figure are left out."""
    parts = [record["earlier"].get(row.figure) if row.figure else record["unlabelled"] for record in found]
    return [100 * part["accuracy"] for part in parts if part]


def minutes_of(record: dict[str, Any]) -> float:
    """Minutes that a run took, without what was made of it afterwards; with the stage I that it began from, if that was
    another's."""
    seconds = dict(record["seconds"])
    beside = sum(seconds.pop(name, 0) for name in AFTERWARDS)
    whole = max(seconds.pop("process", 0) - beside, seconds.pop("since_start", 0))
    return max(whole, sum(seconds.values())) / 60


def estimate(row: Row, tables: Tables, records: Records, hardware: str) -> float:
    """Minutes that a run of the row will take: as the longest of its records on this hardware, else the first guess.

    Records from before whole processes were timed, and of runs beside another one, do not count.
    """
    same = [r for r in of_row(row, tables, records) if r["hardware"] == hardware and "process" in r["seconds"]]
    alone = [
        minutes_of(r) + sum(r["seconds"].get(name, 0) for name in AFTERWARDS) / 60
        for r in same
        if not r.get("gpu_shared")
    ]
    return MARGIN * max(alone, default=row.minutes)


def matches(job: Job, patterns: list[str]) -> bool:
    """Whether one of the patterns, such as "cifar10-*", names the row or the run (ROW-SEED)."""
    return any(fnmatch(name, pattern) for name in (job.row.name, job.name) for pattern in patterns)
