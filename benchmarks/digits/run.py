"""APL and its ablations on the digits, five seeds each: writes benchmarks/digits/record.json.

    python benchmarks/digits/run.py [--jobs 2] [--seeds 5]         the result
    python benchmarks/digits/run.py --rehearse --set NAME=VALUE    labelled digits only: what settings are chosen with
    python benchmarks/digits/run.py --page                         docs/digits.md from the record

In the rehearsal two of the five labelled digits are known and three pretend to be novel, in all ten ways.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write

HERE = Path(__file__).parent
LITERAL: dict[str, Any] = {"prototypes.soft": False, "prototypes.balance": "first_of_epoch"}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "k-means row": ("kmeans", {}),
    "APL": ("apl", {}),
    "APL without instance discrimination": ("apl", {"instance.learner": "none"}),
    "APL without category discrimination": ("apl", {"category": False}),
    "APL without online prototypes": ("apl", {"online": False}),
    "APL without self-training": ("apl", {"selftraining.iterations": 0}),
    "APL, labels as the paper words them": ("apl", LITERAL),
}


def run_one(method: str, changes: dict[str, Any], seed: int, split: tuple[int, ...] | None) -> dict[str, Any]:
    """The figures of one run, on the real split or, given the known digits, in rehearsal."""
    import torch

    from newfound.data.digits import read_digits, read_split
    from newfound.engine.loop import Engine
    from newfound.methods.base import run_method
    from newfound.plan.recipe import resolve_settings
    from newfound.runs.figures import evaluate_run

    torch.set_num_threads(1)
    began = time.monotonic()
    even = (0, 2, 4, 6, 8)
    reading = read_digits(seed) if split is None else read_split(seed, split, tuple(d for d in even if d not in split))
    settings = resolve_settings(method, f"{method}-digits", changes)
    engine = Engine(reading.collection, torch.device("cpu"), seed=seed)
    outcome = run_method(settings, reading.collection, engine)
    figures = evaluate_run(outcome, reading, engine)
    return {
        "seed": seed,
        "accuracy": figures["unlabelled"]["accuracy"],
        "nmi": figures["unlabelled"]["nmi"],
        "test": figures["test"],
        "earlier": {name: found["accuracy"] for name, found in figures.get("earlier", {}).items()},
        "seconds": round(time.monotonic() - began, 1),
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    accuracies = [run["accuracy"] for run in runs]
    return {"mean": statistics.mean(accuracies), "deviation": statistics.pstdev(accuracies), "runs": runs}


def page(record: dict[str, Any]) -> str:
    """docs/digits.md: what the record says."""
    raw = "".join(f"| {name} | {accuracy:.1%} | |\n" for name, accuracy in record["raw_pixels"].items())
    learnt = "".join(f"| {n} | {v['mean']:.1%} | {v['deviation']:.1%} |\n" for n, v in record["results"].items())
    runs = len(next(iter(record["results"].values()))["runs"])
    return (
        "# The digits, in figures\n\n"
        "Made from benchmarks/digits/record.json by benchmarks/digits/run.py --page.\n\n"
        "Novel accuracy on the unlabelled digits (1, 3, 5, 7, 9): mean and deviation over "
        f"{runs} seeds. Hardware: {record['hardware']}; PyTorch {record['versions']['torch']}; "
        f"commit {record['commit'][:12]}, {record['date'][:10]}. The exact settings are in the record.\n\n"
        f"| | novel accuracy | deviation |\n|---|---|---|\n{raw}{learnt}"
        + "".join(f"\n{note}\n" for note in record.get("notes", []))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--out", type=Path, default=HERE / "record.json")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.page:
        (HERE.parents[1] / "docs" / "digits.md").write_text(page(json.loads(options.out.read_text())))
        return
    from newfound.plan.recipe import parse_changes, resolve_settings

    if options.rehearse:
        splits = list(itertools.combinations((0, 2, 4, 6, 8), 2))
        jobs = [("rehearsal", ("apl", parse_changes(options.set), 0, split)) for split in splits]
    else:
        seeds = range(options.seeds)
        jobs = [(name, (*what, seed, None)) for name, what in VARIANTS.items() for seed in seeds]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        futures = [(name, pool.submit(run_one, *job)) for name, job in jobs]
        done: dict[str, list[dict[str, Any]]] = {}
        for name, future in futures:
            done.setdefault(name, []).append(future.result())
            print(name, done[name][-1]["accuracy"], done[name][-1]["earlier"], flush=True)
    if options.rehearse:
        stages = {
            k: statistics.mean(r["earlier"][k] for r in done["rehearsal"]) for k in done["rehearsal"][0]["earlier"]
        }
        print("rehearsal", options.set, summary(done["rehearsal"])["mean"], stages)
        return
    import torch

    from newfound.data.digits import read_digits
    from newfound.progress import Reporter
    from newfound.runs.demo import pixel_rows

    settings = {
        name: resolve_settings(method, f"{method}-digits", changes) for name, (method, changes) in VARIANTS.items()
    }
    torch.set_num_threads(1)  # as each run has
    record = {
        "what": "novel accuracy on the unlabelled digits",
        **begin(settings=settings, seed=range(options.seeds)),
        "raw_pixels": pixel_rows(read_digits(0), 0, Reporter(quiet=True)),
        "results": {name: summary(runs) for name, runs in done.items()},
    }
    write(options.out, record)
    for name, result in record["results"].items():
        print(f"{name}: {result['mean']:.1%} ± {result['deviation']:.1%}")


if __name__ == "__main__":
    main()
