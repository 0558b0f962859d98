"""Piles in which known categories hide, with --mixed and without: writes record.json or METHOD.json.

    python benchmarks/mixed/run.py --data ROOT [--cache CACHE] [--draws 0 1 2] [--seeds 0 1] [--digits kmeans]
    python benchmarks/mixed/run.py --data ROOT --method simgcd --digits simgcd
    python benchmarks/mixed/run.py --data ROOT --method kmeans --digits
    python benchmarks/mixed/run.py --data ROOT --rehearse --draws 100 101 … --print    to choose with

A draw takes ten known categories among CIFAR-100's classes 0 to 79 and ten novel ones among 80 to 99, and makes three
piles of them: 200 known images among 500 novel ones, known images alone, and novel ones alone. Known categories have 50
labelled images each. The method, over EfficientNet-Lite0, runs on the first pile with all seeds, on others with one.
Choices were made with --rehearse on the draws from 100 on, whose novel categories are among the classes 0 to 79, too.
Of the digits half of the even ones are in the pile. whole.py beside this takes all of CIFAR-10 and CIFAR-100.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write
from unsaid import unsaid

from newfound.data.cache import default_cache
from newfound.data.cifar import read_cifar100
from newfound.data.collection import Pool, Reading, assemble
from newfound.data.digits import read_digits
from newfound.engine.loop import Engine
from newfound.evaluate.protocol import evaluate_mixed
from newfound.methods.base import run_method
from newfound.plan.recipe import resolve_settings
from newfound.progress import Reporter
from newfound.trust.warnings import WITHIN, WITHIN_LEARNED
from newfound.trust.within import share_within

RECORD = Path(__file__).parent / "record.json"
METHOD = "apl-features"
RECIPES = {METHOD: METHOD, "simgcd": "simgcd-folder", "kmeans": "kmeans-pretrained"}
"""Of the methods that run on the draws, over a pretrained network."""
KNOWN, LABELLED, HIDDEN, NOVEL, EACH = 10, 50, 20, 10, 50
FIRST = 80
"""Images of each class that draws take theirs from: the first ones."""
PILES = {"known among novel": (HIDDEN, EACH), "known alone": (HIDDEN, 0), "novel alone": (0, EACH)}


def draw(whole: Reading, seed: int, pile: str, *, mixed: bool, rehearse: bool) -> Reading:
    """The pile of that draw; known categories are the same in all of its piles."""
    collection, (hidden, each) = whole.collection, PILES[pile]
    assert whole.answers is not None
    assert whole.answers.unlabelled is not None
    known = [collection.classes[label] for label in collection.labels[: collection.n_labelled]]
    categories = np.array([*known, *whole.answers.unlabelled])
    rng = np.random.default_rng([seed, 0x313D])
    old = rng.permutation(np.array(collection.classes))
    novel = old[KNOWN:] if rehearse else rng.permutation(np.unique(np.array(whole.answers.unlabelled)))
    members = {name: rng.permutation(np.flatnonzero(categories == name)[:FIRST]) for name in (*old[:KNOWN], *novel)}
    labelled = [members[name][:LABELLED] for name in old[:KNOWN]]
    rest = [members[name][LABELLED : LABELLED + hidden] for name in old[:KNOWN]]
    rest += [members[name][:each] for name in novel[:NOVEL]]
    rows = np.concatenate([*labelled, *rest])
    pool = Pool(collection.train.take(rows), [str(row) for row in rows], categories[rows].tolist())
    row = np.arange(len(rows))
    known_rows, pile_rows = np.split(row, [KNOWN * LABELLED])
    return assemble(pool, labelled=known_rows, unlabelled=pile_rows, n_novel=NOVEL, seed=seed, mixed=mixed)


def run_one(reading: Reading, method: str, seed: int, cache: Path | None) -> dict[str, Any]:
    """Old, new and all, the share of the pile that was given known categories, and what the gauge says."""
    collection = reading.collection
    settings = resolve_settings(method, _recipe(method, on_digits=collection.train.shape[1] == 8), {})
    engine = Engine(collection, torch.device("cpu"), seed=seed, reporter=Reporter(quiet=True), cache=cache)
    outcome = run_method(settings, collection, engine)
    assert reading.answers is not None
    assert reading.answers.unlabelled is not None
    truth, classes = reading.answers.unlabelled, outcome.model.classes

    def judged(assignments: np.ndarray) -> dict[str, float | None]:
        return evaluate_mixed([classes[i] for i in assignments], truth, outcome.model.known)

    return {
        "seed": seed,
        **judged(outcome.assignments),
        "earlier": {name: judged(found) for name, found in outcome.earlier.items()},
        "given_known": float((outcome.assignments < len(collection.classes)).mean()),
        "within": share_within(collection, outcome, seed),
    }


def _recipe(method: str, *, on_digits: bool) -> str:
    return f"{method}-digits" if on_digits else RECIPES[method]


def table(record: dict[str, Any]) -> str:
    """Means over draws and seeds, as docs/mixed.md has them."""
    lines = ["| pile | | old | new | all | given a known category | warned |", "|---|---|---|---|---|---|---|"]
    for pile, ways in record["runs"].items():
        for way, runs in ways.items():
            columns = [_mean([run[key] for run in runs]) for key in ("old", "new", "all", "given_known")]
            bar = WITHIN_LEARNED if pile.startswith("digits") else WITHIN
            told = sum(run["within"] >= bar for run in runs)
            warned = "–" if way == "--mixed" else f"{told} of {len(runs)}"
            lines.append(f"| {pile} | {way} | {' | '.join(columns)} | {warned} |")
    return "\n".join(lines) + "\n"


def _mean(values: list[float | None]) -> str:
    there = [value for value in values if value is not None]
    return f"{np.mean(there):.1%}" if there else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--piles", nargs="*", choices=PILES, default=list(PILES), help="the others stay as recorded")
    parser.add_argument("--draws", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--method", choices=RECIPES, default=METHOD, help="that runs on the draws")
    parser.add_argument("--digits", nargs="*", default=["kmeans"], help="methods that run on the digits")
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--print", action="store_true", help="print instead of writing the record")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    settings = {f"{name}, digits": resolve_settings(name, f"{name}-digits", {}) for name in options.digits}
    settings[options.method] = resolve_settings(options.method, RECIPES[options.method], {})
    path = RECORD if options.method == METHOD else RECORD.with_name(f"{options.method}.json")
    data = f"CIFAR-100, {KNOWN} known and {NOVEL} novel classes" + ("; scikit-learn's digits" if options.digits else "")
    record = {"data": data, "runs": runs, **begin(settings=settings, seed=options.seeds)}

    def add(pile: str, reading: Reading, method: str, seed: int, **more: Any) -> None:
        way = "--mixed" if reading.collection.mixed else "without"
        found = more | run_one(reading, method, seed, options.cache)
        runs.setdefault(pile, {}).setdefault(way, []).append(found)
        print(pile, way, found, flush=True)
        if not options.print:
            write(path, record | {"runs": recorded(path) | runs})

    whole = read_cifar100(options.data, 0)
    for pile in options.piles:
        for number in options.draws:
            for seed in options.seeds if pile == next(iter(PILES)) else options.seeds[:1]:
                for mixed in (True, False):
                    reading = draw(whole, number, pile, mixed=mixed, rehearse=options.rehearse)
                    add(pile, reading, options.method, seed, draw=number)
    for seed, method in product(options.seeds, options.digits):
        reading = read_digits(seed, mixed=True)
        for said in (reading, unsaid(reading)):
            add(f"digits, {method}", said, method, seed)
    print(table({"runs": (recorded(path) | runs) if not options.print else runs}))


def recorded(path: Path) -> dict[str, Any]:
    """What the record has already, of which other piles stay."""
    return dict(json.loads(path.read_text())["runs"]) if path.exists() else {}


if __name__ == "__main__":
    main()
