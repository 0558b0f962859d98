"""The paper's tables on the digits: every method and every part of APL, several seeds each; writes record.json.

    python benchmarks/digits/run.py [--jobs 2] [--seeds 3]         the result; what --keep has is not run again
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
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write

HERE = Path(__file__).parent
Row = tuple[str, dict[str, Any], str]
"""A method, settings over its recipe, and which accuracy counts: "" for the last one, or a step on the way to it."""
APL: Row = ("apl", {}, "")
SS = {"self_supervision": True}
GROUPS: dict[str, dict[str, Row]] = {
    "Systems": {
        "k-means": ("kmeans", {}, ""),
        "KCL": ("kcl", {}, ""),
        "KCL with self-supervision": ("kcl", SS, ""),
        "MCL": ("mcl", {}, ""),
        "MCL with self-supervision": ("mcl", SS, ""),
        "DTC": ("dtc", {}, ""),
        "DTC with self-supervision": ("dtc", SS, ""),
        "AutoNovel": ("autonovel", {}, ""),
        "AutoNovel with incremental learning": ("autonovel", {"incremental": True}, ""),
        "WTA-NCD": ("wta", {}, ""),
        "APL": APL,
        "UNO": ("uno", {}, ""),
        "IIC": ("iic", {}, ""),
        "apl-plus (ours)": ("apl-plus", {}, ""),
    },
    "APL without a part of it": {
        "without instance discrimination": ("apl", {"instance.learner": "none"}, ""),
        "without category discrimination": ("apl", {"category": False}, ""),
        "without online prototypes": ("apl", {"online": False}, ""),
        "without self-training: clusters after stage I": ("apl", {}, "stage1"),
    },
    "Labels at the end of stage I": {
        "clusters, without online prototypes": ("apl", {"online": False}, "stage1"),
        "online prototypes": ("apl", {}, "online"),
        "APL, stage II from the online prototypes' labels": ("apl", {"selftraining.labels": "online"}, ""),
        "APL, labels as the paper words them": (
            "apl",
            {"prototypes.soft": False, "prototypes.balance": "first_of_epoch"},
            "",
        ),
    },
    "Iterations of stage II (APL has 2)": {
        "1": ("apl", {}, "stage2-1"),
        "3": ("apl", {"selftraining.iterations": 4}, "stage2-3"),
        "4": ("apl", {"selftraining.iterations": 4}, ""),
    },
    "Views (APL has appearance and restricted rotation)": {
        "appearance": ("apl", {"views.rotation": 0}, ""),
        "geometric": ("apl", {"views.appearance": False, "views.geometric": True, "views.rotation": 0}, ""),
        "appearance, geometric": ("apl", {"views.geometric": True, "views.rotation": 0}, ""),
        "appearance, geometric, restricted rotation": ("apl", {"views.geometric": True}, ""),
    },
    "Learners of instances (APL has DINO)": {
        "SimCLR and k-means": ("simclr", {}, ""),
        "MoCo and k-means": ("moco", {}, ""),
        "MoCo v2 and k-means": ("mocov2", {}, ""),
        "DINO and k-means": ("apl", {"category": False}, "stage1"),
        "SimCLR in APL": ("apl", {"instance.learner": "simclr"}, ""),
        "MoCo in APL": ("apl", {"instance.learner": "moco"}, ""),
        "MoCo v2 in APL": ("apl", {"instance.learner": "mocov2"}, ""),
    },
    "Similarity to a prototype (APL: cosine)": {
        "Euclidean": ("apl", {"prototypes.similarity": "euclidean"}, ""),
        "dot product": ("apl", {"prototypes.similarity": "dot"}, ""),
    },
    "Dimension of the prototypes (APL: 128, the network's own)": {
        "16": ("apl", {"dimension": 16}, ""),
        "64": ("apl", {"dimension": 64}, ""),
        "256": ("apl", {"dimension": 256}, ""),
        "512": ("apl", {"dimension": 512}, ""),
    },
}
"""The rows of benchmarks/tables/rows.yaml, as far as they mean something on the digits."""


def run_name(method: str, changes: dict[str, Any]) -> str:
    """What a run is called in the record; rows may share one."""
    return " ".join([method, *(f"{name}={json.dumps(value)}" for name, value in sorted(changes.items()))])


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


def figure(run: dict[str, Any], which: str) -> float:
    """The accuracy of a run that a row shows."""
    accuracy: float = run["earlier"][which] if which else run["accuracy"]
    return accuracy


def mean_and_deviation(accuracies: list[float]) -> str:
    """In per cent, with the sample deviation where there are two or more."""
    spread = f" ± {100 * statistics.stdev(accuracies):.1f}" if len(accuracies) > 1 else ""
    return f"{100 * statistics.mean(accuracies):.1f}{spread}"


def tables(record: dict[str, Any]) -> str:
    """Markdown: a table of all groups."""
    text = "| | accuracy on the pile | seconds |\n|---|---|---|\n"
    text += "| **Pixels, no training** | | |\n"
    text += "".join(f"| {name} | {100 * accuracy:.1f} | |\n" for name, accuracy in record["raw_pixels"].items())
    for group, rows in GROUPS.items():
        text += f"| **{group}** | | |\n"
        for label, (method, changes, which) in rows.items():
            runs = record["results"][run_name(method, changes)]
            seconds = "" if which else f"{statistics.median(run['seconds'] for run in runs):.0f}"
            text += f"| {label} | {mean_and_deviation([figure(run, which) for run in runs])} | {seconds} |\n"
    return text


def page(record: dict[str, Any]) -> str:
    """docs/digits.md: page.md with the tables of the record."""
    said = {
        "SEEDS": len(record["seed"]),
        "HARDWARE": record["hardware"],
        "TORCH": record["versions"]["torch"],
        "COMMIT": record["commit"][:7],
        "DATE": record["date"][:10],
        "TABLES": tables(record),
    }
    text = (HERE / "page.md").read_text()
    for name, value in said.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def kept(path: Path | None) -> dict[tuple[str, int], dict[str, Any]]:
    """Runs that an earlier call wrote to ``path``, by name and seed."""
    if path is None or not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {(line["name"], line["run"]["seed"]): line["run"] for line in lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="Takes each run as soon as it is done.")
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--out", type=Path, default=HERE / "record.json")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.page:
        (HERE.parents[1] / "docs" / "digits.md").write_text(page(json.loads(options.out.read_text())))
    elif options.rehearse:
        rehearse(options)
    else:
        measure(options)


def rehearse(options: argparse.Namespace) -> None:
    """Print the mean accuracy over the ten ways to hide three of the labelled digits."""
    from newfound.plan.recipe import parse_changes

    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        splits = itertools.combinations((0, 2, 4, 6, 8), 2)
        futures = [pool.submit(run_one, "apl", parse_changes(options.set), 0, split) for split in splits]
        runs = [future.result() for future in futures]
    stages = {name: statistics.mean(run["earlier"][name] for run in runs) for name in runs[0]["earlier"]}
    print("rehearsal", options.set, statistics.mean(run["accuracy"] for run in runs), stages)


def measure(options: argparse.Namespace) -> None:
    """Run every row with every seed, and write the record."""
    import torch

    from newfound.data.digits import read_digits
    from newfound.plan.recipe import resolve_settings
    from newfound.progress import Reporter
    from newfound.runs.demo import pixel_rows

    distinct = {run_name(row[0], row[1]): row[:2] for rows in GROUPS.values() for row in rows.values()}
    done = kept(options.keep)
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        waiting = {
            pool.submit(run_one, *distinct[name], seed, None): name
            for seed in range(options.seeds)
            for name in distinct
            if (name, seed) not in done
        }
        for future in as_completed(waiting):
            name, run = waiting[future], future.result()
            done[name, run["seed"]] = run
            print(name, run["seed"], run["accuracy"], run["earlier"], flush=True)
            if options.keep:
                with options.keep.open("a") as lines:
                    lines.write(json.dumps({"name": name, "run": run}) + "\n")
    torch.set_num_threads(1)  # as each run has
    record = {
        "what": "accuracy on the unlabelled digits",
        **begin(
            settings={
                name: resolve_settings(method, f"{method}-digits", changes)
                for name, (method, changes) in distinct.items()
            },
            seed=range(options.seeds),
        ),
        "raw_pixels": pixel_rows(read_digits(0), 0, Reporter(quiet=True)),
        "results": {name: [done[name, seed] for seed in range(options.seeds)] for name in distinct},
    }
    write(options.out, record)


if __name__ == "__main__":
    main()
