"""What was chosen for growing, on labelled categories alone: writes benchmarks/grow/rehearsal.json.

    python benchmarks/grow/rehearsal.py --data ROOT [--seeds 10 11 12 13]

Photographs, a frozen network: draws of CIFAR-100 as in run.py, other seeds. What is done with images of the first pile
by their calibrated confidence: "all" count as labelled; below .5 or .7 they are left out; or put into the later pile;
"truth" gives the true labels. Drawings, a network that is trained: OmniGlot's background alphabets (10 characters
known, 5, then 5): the later run goes on from the network of the first one, or begins with fresh weights.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from run import cifar
from steps import Folders, judged, lay_out, meanings, pile_accuracy, truth_of, write_labels

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write

import newfound
from newfound.methods import get_method
from newfound.runfolder import Run

HERE = Path(__file__).parent
BARS = (0.5, 0.7)
DRAWN = {
    "recipe": "apl-folder-symbolic",
    "settings": {"network": "tiny", "data.size": 24, "views.fill": 255, "stage1.epochs": 40},
}


def drawings(root: Path, seed: int, data: Path) -> Folders:
    """Twenty characters of the background alphabets, 15 drawings of each to train on and 5 to test."""
    rng = np.random.default_rng(seed)
    every = sorted(path for path in (data / "images_background").glob("*/*") if path.is_dir())
    chosen = [every[i] for i in rng.permutation(len(every))[:20]]
    images, labels, held_out = [], [], []
    for number, character in enumerate(chosen):
        for i, file in enumerate(sorted(character.iterdir())):
            images.append(np.asarray(Image.open(file).convert("L").resize((24, 24), Image.Resampling.BOX)))
            labels.append(f"c{number:02d}")
            held_out.append(i >= 15)
    groups = {f"c{i:02d}": "known" if i < 10 else "first" if i < 15 else "later" for i in range(20)}
    return lay_out(root, np.stack(images), labels, np.array(held_out), groups)


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
            of_later = {c: m for c, m in meanings(found).items()}
            row = {f"test {group}": v for group, v in judged(out, folders["test"], known | of_later, cache).items()}
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
        folders = drawings(root / "data", seed, data)
        how: dict[str, Any] = {"seed": seed, "device": "cpu", "threads": 1, "cache": cache, "verbose": False}
        first = newfound.discover(
            folders["known"], folders["first"], n_novel=folders.sizes["first"], out=root / "first", **DRAWN, **how
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that CIFAR-100 and OmniGlot are in")
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12, 13])
    parser.add_argument("--only", choices=["confidence", "start"])
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "newfound-grow-cache")
    parser.add_argument("--out", type=Path, default=HERE / "rehearsal.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = json.loads(options.out.read_text())["results"] if options.only and options.out.exists() else {}
    settings: dict[str, Any] = {}
    for name, measure in (("confidence", by_confidence), ("start", by_start)):
        if options.only in (None, name):
            runs = [measure(seed, options.data, options.cache) for seed in options.seeds]
            settings[name] = next(run["settings"] for run in runs)
            results[name] = [{key: run[key] for key in ("seed", "rows")} for run in runs]
    write(options.out, {"what": __doc__, **begin(settings=settings, seed=options.seeds), "results": results})


if __name__ == "__main__":
    main()
