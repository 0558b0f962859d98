"""The demonstration: discover the odd digits, beside what clustering the pixels themselves gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from newfound.cluster.kmeans import kmeans
from newfound.cluster.spectral import spectral
from newfound.data.collection import Reading
from newfound.data.digits import read_digits
from newfound.data.sources import Source
from newfound.engine.device import pick_device
from newfound.engine.loop import Engine
from newfound.evaluate.protocol import evaluate_unlabelled
from newfound.methods.base import run_method
from newfound.plan.auto import choose
from newfound.plan.recipe import resolve_settings
from newfound.progress import Reporter
from newfound.runfolder import claimed
from newfound.runs.discovery import discover
from newfound.runs.figures import evaluate_run
from newfound.runs.found import Discovery

if TYPE_CHECKING:
    from rich.console import Console

BASELINE = "kmeans"
"""The method that every other is shown beside."""


@dataclass(frozen=True)
class DemoTable:
    """Novel accuracy of each way to cluster the odd digits, and the run that the last row comes from."""

    rows: dict[str, float]
    found: Discovery

    def to_mapping(self) -> dict[str, Any]:
        return {"run": str(self.found.folder), "novel_accuracy": self.rows, "result": self.found.result}

    def print(self, console: Console | None = None, folder: Path | None = None) -> None:
        from rich.console import Console
        from rich.table import Table

        images = self.found.result["images"]
        table = Table()
        table.add_column("method")
        table.add_column("novel accuracy", justify="right")
        for name, accuracy in self.rows.items():
            table.add_row(name, f"{accuracy:.1%}")
        console = console or Console(soft_wrap=True)
        question = f"How many of {images['unlabelled']} unlabelled digits (1, 3, 5, 7, 9) fall into the right group?"
        console.print(question, highlight=False)
        console.print(table)
        test = self.found.result["test"]["strict"]
        shares = ", ".join(f"{part} {test[part]:.1%}" for part in ("old", "new", "all"))
        console.print(f"On {images['test']} digits never seen, one classifier over all ten: {shares}.", highlight=False)
        place = folder or self.found.folder
        console.print(f"The run is in {place}/ (assignments.csv, result.json, model/).", highlight=False)
        console.print(f"A page to look at what was found: {place / 'report.html'}", highlight=False)


def run_demo(out: Path | None, *, method: str, device: str, seed: int, reporter: Reporter) -> DemoTable:
    """Discover the odd digits with ``method``, and cluster their raw pixels for comparison."""
    out = out or free_folder(Path("newfound-demo"))
    chosen = choose(Source(dataset="digits"), str(pick_device(device)), method=method, settings={})
    resolve_settings(chosen.method, chosen.recipe, {})
    with claimed(out):  # what `discover` would refuse is refused before anything is computed
        reading = read_digits(seed)
        rows = pixel_rows(reading, seed, reporter)
        if method != BASELINE:
            rows["k-means on a classifier's features"] = baseline_row(reading, device, seed, reporter)
    # One thread: images of 8 x 8 pixels are slower on two (43 s against 32 on two cores).
    verbose = not reporter.quiet
    found = discover(dataset="digits", method=method, device=device, seed=seed, threads=1, out=out, verbose=verbose)
    rows[f"newfound, {method}"] = found.result["unlabelled"]["accuracy"]
    return DemoTable(rows, found)


def baseline_row(reading: Reading, device: str, seed: int, reporter: Reporter) -> float:
    """Novel accuracy of the paper's k-means row."""
    settings = resolve_settings(BASELINE, f"{BASELINE}-digits", {})
    engine = Engine(reading.collection, pick_device(device), seed=seed, reporter=reporter)
    outcome = run_method(settings, reading.collection, engine)
    accuracy: float = evaluate_run(outcome, reading, engine)["unlabelled"]["accuracy"]
    return accuracy


def free_folder(wanted: Path) -> Path:
    """``wanted``, or the first of wanted-2, wanted-3, … that does not exist."""
    candidate, number = wanted, 1
    while candidate.exists():
        number += 1
        candidate = wanted.with_name(f"{wanted.name}-{number}")
    return candidate


def pixel_rows(reading: Reading, seed: int, reporter: Reporter) -> dict[str, float]:
    """Novel accuracy of clustering raw pixels: k-means, spectral, and k-means on a t-SNE map."""
    from sklearn.manifold import TSNE

    collection, answers = reading.collection, reading.answers
    truth = answers.unlabelled if answers else None
    assert truth is not None
    pixels = collection.train.images[collection.n_labelled :].flatten(1).float()
    k = len(set(truth))
    rows = {}
    with reporter.task("clustering raw pixels", 3, "ways") as task:
        ways = {
            "raw pixels, k-means": lambda: kmeans(pixels, k, seed=seed),
            "raw pixels, spectral": lambda: spectral(pixels, k, metric="euclidean", seed=seed),
            "raw pixels, t-SNE + k-means": lambda: kmeans(
                torch.from_numpy(TSNE(random_state=seed).fit_transform(pixels.numpy()).astype(np.float64)), k, seed=seed
            ),
        }
        for name, way in ways.items():
            labels = way().labels.tolist()
            rows[name] = evaluate_unlabelled([str(label) for label in labels], truth)["accuracy"]
            task.advance(1)
    return rows
