"""Growing beside training from scratch: writes benchmarks/grow/record.json.

    python benchmarks/grow/run.py --data ROOT [--seeds 0 1]     the result
    python benchmarks/grow/run.py --page                        its tables, into docs/grow.md

Categories come in three groups: known ones, those of a first pile, those of a later one. ``discover`` finds the first
pile's, and ``grow`` then the later pile's. Beside it stand one run from scratch that has both piles at once, and, as an
upper bound, one that is given the true labels of the first pile. Digits: 0 to 3 known, 4 to 6, then 7 to 9; every
fourth image is a test image; apl has 12 epochs of stage I, a fifth of its recipe's. CIFAR-100: 20 of the classes 0 to
79, drawn by the seed, 10 known, 5, then 5; 60 images of each to train on, 20 others of the training set to test.
Nothing was chosen on these seeds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from steps import GROUPS, Folders, judged, lay_out, meanings, pile_accuracy

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write

import newfound
from newfound.data.cifar import read_cifar100
from newfound.runfolder import Run

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "grow.md"
BEGIN, END = "<!-- begin: benchmarks/grow/run.py -->\n", "<!-- end -->\n"

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "digits, apl": ("digits", {"recipe": "apl-digits", "settings": {"stage1.epochs": 12}}),
    "digits, apl-features": ("digits", {"backbone": "efficientnet-lite0"}),
    "CIFAR-100, apl-features": ("cifar", {"backbone": "efficientnet-lite0"}),
}
ROWS = ("first run", "grown", "from scratch", "true labels of the first pile")


def digits(root: Path, seed: int, data: Path) -> Folders:
    raw = load_digits()
    images, row = np.round(raw.images * (255 / 16)).astype(np.uint8), np.arange(len(raw.target))
    groups = {str(d): "known" if d < 4 else "first" if d < 7 else "later" for d in range(10)}
    return lay_out(root, images, [str(d) for d in raw.target], row % 4 == 3, groups)


def cifar(root: Path, seed: int, data: Path, *, classes: int = 20, train: int = 60, test: int = 20) -> Folders:
    collection = read_cifar100(data, 0).collection
    labels = collection.labels[: collection.n_labelled]
    chosen = np.random.default_rng(seed).permutation(80)[:classes]
    rows = np.concatenate([np.flatnonzero(labels == c)[: train + test] for c in chosen])
    images = collection.train.images.numpy()[rows].transpose(0, 2, 3, 1)
    # Names without "-", which parts the names of the files.
    names = {int(c): collection.classes[c].replace("-", "_") for c in chosen}
    half = classes // 4
    groups = {
        names[int(c)]: "known" if i < classes - 2 * half else "first" if i < classes - half else "later"
        for i, c in enumerate(chosen)
    }
    held_out = np.tile(np.arange(train + test) >= train, classes)
    return lay_out(root, images, [names[int(c)] for c in labels[rows]], held_out, groups)


DATA: dict[str, Callable[..., Folders]] = {"digits": digits, "cifar": cifar}


def run_case(
    make: Callable[..., Folders], options: dict[str, Any], seed: int, data: Path, cache: Path
) -> dict[str, Any]:
    """Accuracies and seconds of all rows for one seed."""
    with tempfile.TemporaryDirectory() as place:
        folders = make(Path(place), seed, data)
        n, how = folders.sizes, {"seed": seed, "device": "cpu", "threads": 1, "cache": cache, "verbose": False}
        rows: dict[str, dict[str, float]] = {}

        def find(name: str, call: Callable[[Path], newfound.Discovery], group: str | None, told: dict[str, str]) -> Any:
            began = time.monotonic()
            found = call(Path(place) / f"run-{len(rows)}")
            seconds = time.monotonic() - began
            meaning = told | meanings(found)
            row = {
                f"test {group}": share for group, share in judged(found.folder, folders["test"], meaning, cache).items()
            }
            if group is None:
                row |= {f"pile {one}": pile_accuracy(found, one) for one in GROUPS[1:]}
            else:
                row[f"pile {group}"] = pile_accuracy(found, group)
            if name == "grown":
                row["pile first"] = judged(found.folder, folders["first"], meaning, cache)["first"]
            if name == "first run":
                row.pop("test later")
            rows[name] = row | {"seconds": round(seconds, 1)}
            print(seed, name, {key: round(value, 3) for key, value in rows[name].items()}, flush=True)
            return found, meaning

        known, first, later, both = (folders[name] for name in ("known", "first", "later", "both"))
        some, n_all = {**how, **options}, n["first"] + n["later"]
        began, meaning = find(
            ROWS[0], lambda out: newfound.discover(known, first, n_novel=n["first"], out=out, **some), "first", {}
        )
        find(ROWS[1], lambda out: began.grow(later, n_novel=n["later"], out=out, **how), "later", meaning)
        find(ROWS[2], lambda out: newfound.discover(known, both, n_novel=n_all, out=out, **some), None, {})
        told = folders["first-labelled"]
        find(ROWS[3], lambda out: newfound.discover(told, later, n_novel=n["later"], out=out, **some), "later", {})
        return {"seed": seed, "rows": rows, "settings": Run.open(began.folder).settings}


COLUMNS = {
    "test known": "old, test", "test first": "first found, test", "pile first": "first found, pile",
    "test later": "later found, test", "pile later": "later found, pile",
}  # fmt: skip


def table(record: dict[str, Any]) -> str:
    """The record as docs/grow.md has it."""
    text = ""
    for case, found in record["results"].items():
        seeds = "1 seed" if len(found["runs"]) == 1 else f"mean of {len(found['runs'])} seeds"
        text += f"\n**{case}**, {seeds}:\n\n"
        text += "| |" + "".join(f" {name} |" for name in COLUMNS.values()) + "\n|---|" + "---|" * len(COLUMNS) + "\n"
        for row in ROWS:
            cells = []
            for column in COLUMNS:
                values = [run["rows"][row][column] for run in found["runs"] if column in run["rows"][row]]
                cells.append(f" {statistics.mean(values):.1%} |" if values else " |")
            text += f"| {row} |" + "".join(cells) + "\n"
    return f"{text}\nMade from benchmarks/grow/record.json ({record['hardware']}; {record['date'][:10]}).\n"


def join(records: list[dict[str, Any]], out: Path) -> None:
    """One record of several that have a case each, with the commit of each beside its figures."""
    for record in records:
        for found in record["results"].values():
            found["commit"] = record["commit"]
    both = {name: {k: v for record in records for k, v in record[name].items()} for name in ("results", "settings")}
    write(out, records[-1] | {name: {case: both[name][case] for case in CASES if case in both[name]} for name in both})


def replace_part(first: str, last: str, text: str) -> None:
    """Put the text between two lines of docs/grow.md."""
    before, _, rest = DOCS.read_text().partition(first)
    DOCS.write_text(before + first + text + last + rest.partition(last)[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder that CIFAR-100 is in")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "newfound-grow-cache")
    parser.add_argument("--out", type=Path, default=HERE / "record.json")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--join", type=Path, nargs="+", help="records of single cases, to make one of")
    options = parser.parse_args()
    if options.page:
        replace_part(BEGIN, END, table(json.loads(options.out.read_text())))
        return
    if options.join:
        join([json.loads(path.read_text()) for path in options.join], options.out)
        return
    torch.set_num_threads(1)
    results, settings = {}, {}
    for case in options.cases:
        name, how = CASES[case]
        runs = [run_case(DATA[name], how, seed, options.data, options.cache) for seed in options.seeds]
        settings[case] = next(run["settings"] for run in runs)
        results[case] = {"how": how, "runs": [{key: run[key] for key in ("seed", "rows")} for run in runs]}
        # After each case, so that nothing measured is lost.
        write(options.out, {"what": __doc__, **begin(settings=settings, seed=options.seeds), "results": results})


if __name__ == "__main__":
    main()
