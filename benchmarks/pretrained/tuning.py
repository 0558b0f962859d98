"""Tuning the last blocks of a pretrained network, 10 classes known, 10 novel: benchmarks/pretrained/tuning.json.

    python benchmarks/pretrained/tuning.py --data ROOT                                           to choose with
    python benchmarks/pretrained/tuning.py --data ROOT --seeds 0 1 2 --record tuning-result.json

A way is a number of blocks and a learning rate. Each seed draws its classes as run.py does, from CIFAR-100's classes
0 to 79, and takes the first 50 training images of each. The seeds 10 to 12 are for choosing; the result is that of the
seeds 0 to 2, looked at once, with what was chosen. The figure before tuning is that of the same run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from run import METHOD, draw

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write

from newfound.data.cache import default_cache
from newfound.data.cifar import read_cifar100
from newfound.data.collection import Reading
from newfound.engine.loop import Engine
from newfound.methods.base import run_method
from newfound.plan.recipe import resolve_settings
from newfound.progress import Reporter
from newfound.runs.figures import evaluate_run

HERE = Path(__file__).parent
CLASSES, EACH = 10, 50


def run_one(whole: Reading, seed: int, settings: Any, cache: Path) -> dict[str, Any]:
    """Novel accuracy before and after tuning, and the seconds of tuning."""
    reading = draw(whole, seed, CLASSES, EACH)
    engine = Engine(reading.collection, torch.device("cpu"), seed=seed, reporter=Reporter(), cache=cache)
    used = time.process_time()
    outcome = run_method(settings, reading.collection, engine)
    used = time.process_time() - used
    figures = evaluate_run(outcome, reading, engine)
    return {
        "seed": seed,
        "frozen": figures["earlier"]["frozen"]["accuracy"],
        "tuned": figures["unlabelled"]["accuracy"],
        "seconds": round(engine.seconds["tune"], 1),
        "processor_seconds": round(used, 1),
    }


def table(record: dict[str, Any]) -> str:
    """The record as docs/pretrained.md has it."""
    seeds = [run["seed"] for run in record["ways"][0]["runs"]]
    head = "".join(f" seed {seed} |" for seed in seeds)
    lines = [f"| novel accuracy |{head} mean |", "|---|" + "---|" * (len(seeds) + 1)]
    rows = [("frozen", "frozen", record["ways"][0])]
    rows += [(f"{way['blocks']} blocks, rate {way['lr']:g}", "tuned", way) for way in record["ways"]]
    for name, which, way in rows:
        each = "".join(f" {run[which]:.1%} |" for run in way["runs"])
        lines.append(f"| {name} |{each} {way['mean'][which]:.1%} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12])
    parser.add_argument("--ways", nargs="+", default=["4:3e-4"])
    parser.add_argument("--record", default="tuning.json", help="the name of the file beside this one")
    parser.add_argument("--cache", type=Path, default=default_cache())
    options = parser.parse_args()
    whole = read_cifar100(options.data, 0)
    record: dict[str, Any] = {
        "data": f"CIFAR-100, {CLASSES} classes known and {CLASSES} novel of the classes 0 to 79, {EACH} images each",
        "ways": [],
        **begin(settings=resolve_settings(METHOD, METHOD, {}), seed=options.seeds),
    }
    for way in options.ways:
        blocks, lr = way.split(":")
        settings = resolve_settings(METHOD, METHOD, {"tune.blocks": int(blocks), "tune.lr": float(lr)})
        runs = []
        for seed in options.seeds:
            runs.append(run_one(whole, seed, settings, options.cache))
            print(way, json.dumps(runs[-1]), flush=True)
        means = {name: statistics.mean(run[name] for run in runs) for name in ("frozen", "tuned")}
        record["ways"].append({"blocks": int(blocks), "lr": float(lr), "mean": means, "runs": runs})
        write(HERE / options.record, record)


if __name__ == "__main__":
    main()
