"""The start from a pretrained network, CIFAR-100, 20 classes known, 20 novel: benchmarks/pretrained/record.json.

    python benchmarks/pretrained/run.py --data ROOT [--seeds 0 1 2]
    python benchmarks/pretrained/run.py --data ROOT --seeds 10 11 … --set NAME=VALUE --print    to choose settings with

Each seed draws 40 of the classes 0 to 79 and takes the first 100 training images of each; the classes that are novel in
the paper's split, 80 to 99, are never read. Settings were chosen on the seeds 10 to 17, which draw other splits of the
same classes. The seeds 0 to 2 had been looked at once before, with a single k-means in place of the consensus, which
was below the aim of 10 points; the consensus was then tried and chosen on the seeds 10 to 17 alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write

from newfound.data.cache import default_cache
from newfound.data.cifar import read_cifar100
from newfound.data.collection import Pool, Reading, assemble
from newfound.engine.loop import Engine
from newfound.methods.base import run_method
from newfound.plan.recipe import parse_changes, resolve_settings
from newfound.progress import Reporter
from newfound.runs.figures import evaluate_run

RECORD = Path(__file__).parent / "record.json"
CLASSES, EACH, METHOD = 20, 100, "apl-features"


def draw(whole: Reading, seed: int, classes: int = CLASSES, each: int = EACH) -> Reading:
    """The split of that seed: so many classes known and as many novel."""
    labels = whole.collection.labels[: whole.collection.n_labelled]
    chosen = np.random.default_rng(seed).permutation(80)[: 2 * classes]
    rows = np.concatenate([np.flatnonzero(labels == c)[:each] for c in chosen])
    names = [whole.names.labelled[row] for row in rows]
    categories = [whole.collection.classes[labels[row]] for row in rows]
    row, known = np.arange(len(rows)), classes * each
    pool = Pool(whole.collection.train.take(rows), names, categories)
    return assemble(pool, labelled=row[:known], unlabelled=row[known:], n_novel=classes, seed=seed)


def run_one(whole: Reading, seed: int, settings: Any, cache: Path) -> dict[str, Any]:
    """Novel accuracy of every row, and the time from images to result."""
    reading = draw(whole, seed)
    began, used = time.monotonic(), time.process_time()
    engine = Engine(reading.collection, torch.device("cpu"), seed=seed, reporter=Reporter(), cache=cache)
    outcome = run_method(settings, reading.collection, engine)
    seconds, used = time.monotonic() - began, time.process_time() - used
    figures = evaluate_run(outcome, reading, engine)
    rows = {name: found["accuracy"] for name, found in figures["earlier"].items()}
    rows["apl-features"] = figures["unlabelled"]["accuracy"]
    return {"seed": seed, "accuracy": rows, "seconds": round(seconds, 1), "processor_seconds": round(used, 1)}


def table(record: dict[str, Any]) -> str:
    """The record as docs/pretrained.md has it."""
    runs = record["runs"]
    head = "".join(f" seed {run['seed']} |" for run in runs)
    lines = [f"| novel accuracy |{head} mean |", "|---|" + "---|" * (len(runs) + 1)]
    for name, mean in record["mean"].items():
        each = "".join(f" {run['accuracy'][name]:.1%} |" for run in runs)
        lines.append(f"| {name} |{each} {mean:.1%} |")
    took = "".join(f" {run['seconds']:.0f} |" for run in runs)
    return "\n".join([*lines, f"| seconds |{took} |"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--cache", type=Path, default=default_cache(), help="features found there cost no time")
    parser.add_argument("--print", action="store_true", help="print instead of writing the record")
    options = parser.parse_args()
    whole = read_cifar100(options.data, 0)
    settings = resolve_settings(METHOD, METHOD, parse_changes(options.set))
    runs = [run_one(whole, seed, settings, options.cache) for seed in options.seeds]
    means = {name: statistics.mean(run["accuracy"][name] for run in runs) for name in runs[0]["accuracy"]}
    record = {
        "data": f"CIFAR-100, {CLASSES} classes known and {CLASSES} novel of the classes 0 to 79, {EACH} images each",
        "mean": means,
        "runs": runs,
        **begin(settings=settings, seed=options.seeds),
    }
    if not options.print:
        write(RECORD, record)
    print(json.dumps({"mean": means, "runs": runs}, indent=1))


if __name__ == "__main__":
    main()
