"""Several runs side by side: their figures, what differs in their settings, and how far they agree."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from newfound.config.mapping import brief, to_mapping
from newfound.errors import UserError
from newfound.evaluate.accuracy import clustering_accuracy
from newfound.files import write_text, writing_to
from newfound.runfolder import Run
from newfound.runs.found import Discovery
from newfound.tables import format_table

if TYPE_CHECKING:
    import pandas as pd

FIGURES = {
    "accuracy": "accuracy",
    "nmi": "NMI",
    "ari": "ARI",
    "old": "old",
    "new": "new",
    "test_old": "test old",
    "test_new": "test new",
    "test_all": "test all",
    "stability": "stability",
    "minutes": "minutes",
}
"""What a run may have, in the order of the columns, and their titles. Shares of images are from 0 to 1; those of test
images are under the strict protocol."""
MOST = 500
"""Runs at the most."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """Runs side by side.

    Attributes
    ----------
    runs : list of dict
        Of each run "run", "method", "data", "seed", "novel" (how many categories), "finished", those of the figures
        that it has, and "settings": those in which it differs from other runs here, by name. The figures are
        "accuracy", "nmi", "ari", "old", "new", "test_old", "test_new", "test_all", "stability" and "minutes"; an
        unfinished run has none.
    means : list of dict
        Of finished runs that differ in their seeds alone "method", "data", "settings", "seeds", and for each figure its
        "mean" and its "deviation", the sample standard deviation: None for one seed.
    agreement : array [runs, runs]
        The share of images that are in matching categories, which is as accuracy is, with another run in the place of
        the truth. NaN where the piles are not the same images, or a run is unfinished.
    """

    runs: list[dict[str, Any]]
    means: list[dict[str, Any]]
    agreement: np.ndarray

    def __repr__(self) -> str:
        return f"Comparison({len(self.runs)} runs)"

    def to_frame(self) -> pd.DataFrame:
        """A pandas table with a line for each run, and a column for each figure and each setting that differs."""
        try:
            import pandas as pd
        except ImportError:
            raise UserError('to_frame needs pandas: pip install "newfound[pandas]"') from None
        return pd.DataFrame(self.lines())

    def lines(self) -> list[dict[str, Any]]:
        """``runs`` with the settings as entries of their own; what a run does not have is None."""
        figures = [name for name in FIGURES if any(name in run for run in self.runs)]
        columns = ["run", "method", "data", "seed", "novel", *figures]
        names = dict.fromkeys(name for run in self.runs for name in run["settings"] if name not in columns)
        return [{c: run.get(c) for c in columns} | {n: run["settings"].get(n) for n in names} for run in self.runs]

    def write(self, path: str | Path) -> None:
        """Write ``lines`` to a CSV file, which lies in none of the runs."""
        lines, path = self.lines(), Path(path)
        for run in self.runs:
            if path.resolve().is_relative_to(Path(run["run"]).resolve()):
                raise UserError(
                    f"--out {path} lies in the run {run['run']}, whose files are its own: choose another place"
                )
        rows = [["" if value is None else str(value) for value in line.values()] for line in lines]
        with writing_to(path, "--out"):
            write_text(path, format_table(list(lines[0]), rows))

    def to_mapping(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {"runs": self.runs, "means": self.means, "agreement": self.agreement.tolist()}


def compare(runs: str | Path | Discovery | Iterable[str | Path | Discovery]) -> Comparison:
    """Put runs side by side: figures, means over seeds, and how far the runs agree. docs/compare.md explains these.

    ``runs`` are run folders, folders of run folders, or what ``discover`` gave.
    """
    opened = [Run.open(folder) for folder in _folders(runs)]
    chosen = _apart([_asked(run) for run in opened])
    for method in {run.settings.method for run in opened}:  # settings of several methods have nothing in common
        those = [i for i, run in enumerate(opened) if run.settings.method == method]
        settings = _apart([_flat(to_mapping(opened[i].settings)) for i in those])
        for i, differing in zip(those, settings, strict=True):
            chosen[i] = chosen[i] | differing
    described = [_describe(run, settings) for run, settings in zip(opened, chosen, strict=True)]
    return Comparison(described, _means(described), _agreement(opened))


def _folders(runs: Any) -> list[Path]:
    """The run folders, each once: those given, and those in folders that were given."""
    given = [runs] if isinstance(runs, str | Path | Discovery) else runs
    found: dict[str, Path] = {}
    try:
        for one in given:
            folder = one.folder if isinstance(one, Discovery) else Path(one)
            inside = sorted(path.parent for path in folder.glob("*/settings.yaml"))
            for run in inside if inside and not (folder / "settings.yaml").exists() else [folder]:
                found.setdefault(os.path.realpath(run), run)
    except (TypeError, ValueError):
        raise UserError(f"runs are folders, or what discover gave, not {brief(runs)}") from None
    if not found:
        raise UserError("there are no runs to compare: name run folders, or a folder that has some")
    if len(found) > MOST:
        raise UserError(f"there are {len(found):,} runs: at most {MOST} can be compared at once")
    return list(found.values())


def _asked(run: Run) -> dict[str, Any]:
    """What the run was to work on, and with how many threads; the seed does not count."""
    source = to_mapping(run.call.source)
    there = {name: value for name, value in source.items() if name not in ("dataset", "data", "n_novel", "next_name")}
    if there.pop("known") and (known := run.folder / "known.json").is_file():
        there["known"] = hashlib.sha256(known.read_bytes()).hexdigest()[:12]
    number = len(run.read_result()["novel"]) if run.finished else run.call.source.n_novel
    return {"novel": number, **there, "device": run.call.device.partition(":")[0], "threads": run.call.threads}


def _flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Settings by their dotted names."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= _flat(value, f"{before}{name}.") if isinstance(value, dict) else {f"{before}{name}": value}
    return found


def _apart(all_of: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of each its values that are not the same in all."""
    every = dict.fromkeys(name for own in all_of for name in own)
    names = [name for name in every if any(own.get(name) != all_of[0].get(name) for own in all_of)]
    return [{name: own.get(name) for name in names} for own in all_of]


def _describe(run: Run, settings: Mapping[str, Any]) -> dict[str, Any]:
    source = run.call.source
    about = {
        "run": str(run.folder),
        "method": run.settings.method,
        "data": source.dataset or ("features" if source.features else "folders"),
        "seed": run.call.seed,
    }
    if not run.finished:
        return {**about, "novel": source.n_novel, "finished": False, "settings": dict(settings)}
    result = run.read_result()
    figures = {name: _part(result, "unlabelled", name) for name in ("accuracy", "nmi", "ari", "old", "new")}
    figures |= {f"test_{part}": _part(result, "test", "strict", part) for part in ("old", "new", "all")}
    figures["stability"] = _part(result, "trust", "stability")
    seconds = _part(result, "seconds", "since_start")
    figures["minutes"] = None if seconds is None else seconds / 60
    there = {name: value for name, value in figures.items() if value is not None}
    return {**about, "novel": len(result["novel"]), "finished": True, **there, "settings": dict(settings)}


def _means(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[str, dict[int, dict[str, Any]]] = {}
    for run in runs:
        if run["finished"]:  # a run that was made twice counts once
            alike = repr((run["method"], run["data"], sorted(run["settings"].items())))
            groups.setdefault(alike, {}).setdefault(run["seed"], run)
    means = []
    for by_seed in groups.values():
        seeds, some = list(by_seed), list(by_seed.values())
        about = {name: some[0][name] for name in ("method", "data", "settings")}
        figures = {}
        for name in FIGURES:
            values = [run[name] for run in some if name in run]
            if len(values) == len(some):
                deviation = statistics.stdev(values) if len(values) > 1 else None
                figures[name] = {"mean": statistics.fmean(values), "deviation": deviation}
        means.append({**about, "seeds": seeds, **figures})
    return means


def _agreement(runs: Sequence[Run]) -> np.ndarray:
    piles: dict[Any, dict[int, np.ndarray]] = {}
    for place, run in enumerate(runs):
        if run.finished:
            rows = sorted((row["image"], row["category"]) for row in run.read_assignments())
            numbers = np.unique([category for _, category in rows], return_inverse=True)[1]
            piles.setdefault((_pile(run), *(image for image, _ in rows)), {})[place] = numbers
    found = np.full((len(runs), len(runs)), np.nan)
    for several in piles.values():
        for (i, one), (j, other) in itertools.combinations_with_replacement(several.items(), 2):
            found[i, j] = found[j, i] = clustering_accuracy(one, other)
    return found


def _pile(run: Run) -> tuple[Any, ...]:
    """Where the images of the pile are from; their names alone may be those of others."""
    source = run.call.source
    return source.dataset, source.task, source.features, source.ids, None if source.dataset else source.unlabelled


def _part(result: Mapping[str, Any], *names: str) -> float | None:
    """A number in a result, where it is."""
    found: Any = result
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    is_number = isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
    return float(found) if is_number else None
