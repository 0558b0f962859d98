"""Several runs side by side: their figures, what differs in their settings, and how far they agree."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from newfound.config.mapping import to_mapping
from newfound.errors import UserError
from newfound.evaluate.accuracy import clustering_accuracy
from newfound.files import write_text, writing_to
from newfound.runfolder import Run
from newfound.runs.found import Discovery
from newfound.tables import format_table

if TYPE_CHECKING:
    import pandas as pd

FIGURES = ("accuracy", "nmi", "ari", "old", "new", "test_old", "test_new", "test_all", "stability", "minutes")
"""What a run may have, in the order of the columns. Shares of images are from 0 to 1; those of test images are under
the strict protocol."""
MOST = 500
"""Runs at the most."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """Runs side by side."""

    runs: list[dict[str, Any]]
    """Of each run "run", "method", "data", "seed", "novel" (how many categories), those of ``FIGURES`` that it has, and
    "settings": those in which it differs from other runs here, by name. An unfinished run has no figures."""
    means: list[dict[str, Any]]
    """Of finished runs that differ in their seeds alone "method", "data", "settings", "seeds", and for each figure its
    "mean" and its "deviation", the sample standard deviation: None for one seed."""
    agreement: np.ndarray
    """[runs, runs]: the share of images that are in matching categories, which is as accuracy is, with another run in
    the place of the truth. NaN where the piles are not the same images, or a run is unfinished."""

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
        names = dict.fromkeys(name for run in self.runs for name in run["settings"])
        figures = [name for name in FIGURES if any(name in run for run in self.runs)]
        columns = ["run", "method", "data", "seed", "novel", *figures]
        return [{c: run.get(c) for c in columns} | {n: run["settings"].get(n) for n in names} for run in self.runs]

    def write(self, path: str | Path) -> None:
        """Write ``lines`` to a CSV file."""
        lines, path = self.lines(), Path(path)
        rows = [["" if value is None else str(value) for value in line.values()] for line in lines]
        with writing_to(path, "--out"):
            write_text(path, format_table(list(lines[0]), rows))

    def to_mapping(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {"runs": self.runs, "means": self.means, "agreement": self.agreement.tolist()}


def compare(runs: str | Path | Iterable[str | Path | Discovery]) -> Comparison:
    """Put runs side by side: figures, means over seeds, and how far the runs agree. docs/compare.md explains these.

    ``runs`` are run folders, folders of run folders, or what ``discover`` gave.
    """
    given = [runs] if isinstance(runs, str | Path) else runs
    folders = _folders(one.folder if isinstance(one, Discovery) else one for one in given)
    opened = [Run.open(folder) for folder in folders]
    asked = [_asked(run) for run in opened]
    chosen = [_differing(of, asked) for of in asked]
    for method in {run.settings.method for run in opened}:  # settings of several methods have nothing in common
        those = [i for i, run in enumerate(opened) if run.settings.method == method]
        settings = {i: _flat(to_mapping(opened[i].settings)) for i in those}
        for i in those:
            chosen[i] = chosen[i] | _differing(settings[i], list(settings.values()))
    described = [_describe(run, settings) for run, settings in zip(opened, chosen, strict=True)]
    return Comparison(described, _means(described), _agreement(opened))


def _folders(given: Iterable[str | Path]) -> list[Path]:
    """The run folders, each once: those given, and those in folders that were given."""
    found: dict[Path, Path] = {}
    for folder in map(Path, given):
        inside = sorted(path.parent for path in folder.glob("*/settings.yaml"))
        for one in inside if inside and not (folder / "settings.yaml").exists() else [folder]:
            found.setdefault(one.absolute(), one)
    if not found:
        raise UserError("there are no runs to compare: name run folders, or a folder that has some")
    if len(found) > MOST:
        raise UserError(f"there are {len(found):,} runs: at most {MOST} can be compared at once")
    return list(found.values())


def _asked(run: Run) -> dict[str, Any]:
    """What the run was to work on, beside its data set, which is told apart; the seed does not count."""
    source = to_mapping(run.call.source)
    source["novel"] = source.pop("n_novel")
    return {name: value for name, value in source.items() if name not in ("dataset", "known", "next_name")}


def _flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Settings by their dotted names."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= _flat(value, f"{before}{name}.") if isinstance(value, dict) else {f"{before}{name}": value}
    return found


def _differing(own: Mapping[str, Any], all_of: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What of ``own`` is not the same in all."""
    return {name: value for name, value in own.items() if any(other.get(name) != value for other in all_of)}


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
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        if run["finished"]:
            groups.setdefault(repr((run["method"], run["data"], sorted(run["settings"].items()))), []).append(run)
    means = []
    for some in groups.values():
        seeds = [run["seed"] for run in some]
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
    piles: dict[tuple[str, ...], dict[int, np.ndarray]] = {}
    for place, run in enumerate(runs):
        if run.finished:
            rows = sorted((row["image"], row["category"]) for row in run.read_assignments())
            numbers = np.unique([category for _, category in rows], return_inverse=True)[1]
            piles.setdefault(tuple(image for image, _ in rows), {})[place] = numbers
    found = np.full((len(runs), len(runs)), np.nan)
    for several in piles.values():
        for (i, one), (j, other) in itertools.combinations_with_replacement(several.items(), 2):
            found[i, j] = found[j, i] = clustering_accuracy(one, other)
    return found


def _part(result: Mapping[str, Any], *names: str) -> float | None:
    """A number in a result, where it is."""
    found: Any = result
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return float(found) if isinstance(found, int | float) else None
