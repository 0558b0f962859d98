"""What there is to choose about growing, on labelled categories alone: writes benchmarks/grow/rehearsal.json.

    python benchmarks/grow/rehearsal.py --data ROOT [--seeds 10 11]
    python benchmarks/grow/rehearsal.py --page                          its tables, into docs/grow.md

"confidence": photographs, a frozen network; draws of CIFAR-100 as in run.py, other seeds. What is done with images of
the first pile by their calibrated confidence: "all" count as labelled; those below .5 or .7 are left out, or put into
the later pile; "truth" gives the true labels. "start": the digits 0 to 3 in an order drawn by the seed, two known, one
in the first pile, one in the later one; the later run goes on from the network of the first, or has fresh weights.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from run import cifar, replace_part
from sklearn.datasets import load_digits
from steps import Folders, judged, lay_out, meanings, pile_accuracy, truth_of, write_labels

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write

import newfound
from newfound.methods import get_method
from newfound.runfolder import Run

HERE = Path(__file__).parent
BARS = (0.5, 0.7)
TRAINED: dict[str, Any] = {"recipe": "apl-digits", "settings": {"stage1.epochs": 12}}
BEGIN, END = "<!-- begin: benchmarks/grow/rehearsal.py -->\n", "<!-- end -->\n"


def labelled_digits(root: Path, seed: int) -> Folders:
    """The digits 0 to 3; every fourth image is a test image."""
    raw = load_digits()
    rows = np.flatnonzero(raw.target < 4)
    images, labels = np.round(raw.images[rows] * (255 / 16)).astype(np.uint8), raw.target[rows].astype(str)
    order = np.random.default_rng(seed).permutation(4).astype(str)
    groups = dict(zip(order.tolist(), ("known", "known", "first", "later"), strict=True))
    return lay_out(root, images, labels.tolist(), rows % 4 == 3, groups)


def by_confidence(seed: int, data: Path, cache: Path) -> dict[str, Any]:
    """Of each way to treat images of the first pile: accuracies by group after growing."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        folders = cifar(root / "data", seed, data)
        how: dict[str, Any] = {"seed": seed, "device": "cpu", "threads": 1, "cache": cache, "verbose": False}
        first = newfound.discover(
            folders["known"], folders["first"], n_novel=folders.sizes["first"], out=root / "first",
            backbone="efficientnet-lite0", **how,
        )  # fmt: skip
        told = meanings(first)
        sure = dict(zip(first.images, first.confidence, strict=True))
        rows: dict[str, Any] = {"first run": {"pile first": pile_accuracy(first)}}

        def grown(name: str, later: Path, corrected: Path | None, known: dict[str, str]) -> None:
            out = root / f"grown-{len(rows)}"
            found = first.grow(later, n_novel=folders.sizes["later"], out=out, corrected=corrected, **how)
            row = judged(out, folders["test"], known | meanings(found), cache)
            row = {f"test {group}": share for group, share in row.items()}
            rows[name] = row | {"pile later": pile_accuracy(found, "later")}
            print(seed, name, rows[name], flush=True)

        grown("all", folders["later"], None, told)
        for bar in BARS:
            doubtful = {image: "" for image in first.images if sure[image] < bar}
            if not doubtful:
                continue
            table = write_labels(root / f"below-{bar}.csv", doubtful)
            grown(f"left out below {bar}", folders["later"], table, told)
            rows[f"left out below {bar}"]["images"] = len(doubtful)
            more = root / f"later-{bar}"
            shutil.copytree(folders["later"], more)
            for image in doubtful:
                shutil.copy(folders["first"] / image, more)
            grown(f"left unlabelled below {bar}", more, table, told)
        truth = {image: truth_of(image)[1] for image in first.images}
        grown("truth", folders["later"], write_labels(root / "truth.csv", truth), {})
        return {"seed": seed, "rows": rows, "settings": Run.open(root / "first").settings}


def by_start(seed: int, data: Path, cache: Path) -> dict[str, Any]:
    """Accuracies by group after growing, going on from the network or with fresh weights."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        folders = labelled_digits(root / "data", seed)
        how: dict[str, Any] = {"seed": seed, "device": "cpu", "threads": 1, "cache": cache, "verbose": False}
        first = newfound.discover(
            folders["known"], folders["first"], n_novel=folders.sizes["first"], out=root / "first", **TRAINED, **how
        )
        told, rows = meanings(first), {"first run": {"pile first": pile_accuracy(first)}}
        method = get_method("apl")
        for name, goes_on in (("goes on", True), ("fresh weights", False)):
            method.goes_on = goes_on
            found = first.grow(folders["later"], n_novel=folders.sizes["later"], out=root / name, **how)
            row = judged(root / name, folders["test"], told | meanings(found), cache)
            rows[name] = {f"test {group}": v for group, v in row.items()} | {"pile later": pile_accuracy(found)}
            print(seed, name, rows[name], flush=True)
        method.goes_on = True
        return {"seed": seed, "rows": rows, "settings": Run.open(root / "first").settings}


def table(record: dict[str, Any]) -> str:
    """The record as docs/grow.md has it."""
    text = ""
    titles = {
        "confidence": "In rehearsal on photographs, images of the first pile below a confidence of .5 or .7",
        "start": "In rehearsal on the digits 0 to 3, a network that goes on from that of the run, or has fresh weights",
    }
    for name, runs in record["results"].items():
        seeds = ", ".join(str(run["seed"]) for run in runs)
        text += f"\n{titles[name]} (seeds {seeds}):\n\n"
        text += "| after growing | old, test | first found, test | later found, test | later found, pile |\n"
        text += "|---|---|---|---|---|\n"
        for row in list(runs[0]["rows"])[1:]:
            cells = [statistics.mean(run["rows"][row][column] for run in runs) for column in COLUMNS]
            text += f"| {row} |" + "".join(f" {mean:.1%} |" for mean in cells) + "\n"
    return text.lstrip("\n") + f"\nMade from benchmarks/grow/rehearsal.json (commit {record['commit'][:12]}).\n"


COLUMNS = ("test known", "test first", "test later", "pile later")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder that CIFAR-100 is in")
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11])
    parser.add_argument("--only", nargs="+", choices=["confidence", "start"], default=["confidence", "start"])
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "newfound-grow-cache")
    parser.add_argument("--out", type=Path, default=HERE / "rehearsal.json")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.page:
        replace_part(BEGIN, END, table(json.loads(options.out.read_text())))
        return
    torch.set_num_threads(1)
    results: dict[str, list[Any]] = {}
    settings: dict[str, Any] = {}
    for name, measure in (("start", by_start), ("confidence", by_confidence)):
        for seed in options.seeds if name in options.only else ():
            run = measure(seed, options.data, options.cache)
            settings[name] = run["settings"]
            results.setdefault(name, []).append({key: run[key] for key in ("seed", "rows")})
            # After each seed, so that nothing measured is lost.
            write(options.out, {"what": __doc__, **begin(settings=settings, seed=options.seeds), "results": results})


if __name__ == "__main__":
    main()
