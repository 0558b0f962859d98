"""The estimated beside the true number of novel categories: writes rehearsal.json, record.json or mixed.json here.

    python benchmarks/count/run.py --data ROOT --rehearsal     draws on which everything was decided
    python benchmarks/count/run.py --data ROOT                 the result, run once
    python benchmarks/count/run.py --data ROOT --mixed         the same with known categories in the pile, run once

ROOT has cifar10/, cifar100/ and omniglot/ as `newfound data get` leaves them. Features are those of efficientnet-lite0,
but for "digits, pixels"; with --cache they are kept. Categories, and which of them are known, are drawn by the seed.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write

from newfound import Count, count_novel
from newfound.data.unpickle import read_pickle

HERE = Path(__file__).parent
Pool = dict[str, list[Image.Image]]

REHEARSAL: list[tuple[str, str, Any, Any, int]] = [
    # title, pool, known categories (how many, or which), novel ones, images of each
    *((f"CIFAR-100 0-79, {k} known, {n} novel", "cifar100-base", k, n, 30) for k, n in ((5, 5), (10, 3), (8, 12))),
    *((f"OmniGlot background, {name}", f"images_background/{name}", 0.5, 0.5, 20) for name in ("Latin", "Cyrillic")),
]
RESULT: list[tuple[str, str, Any, Any, int]] = [
    ("digits, pretrained", "digits", "02468", "13579", 30),
    ("digits, pixels", "pixels", "02468", "13579", 30),
    *(
        (f"OmniGlot evaluation, {name}", f"images_evaluation/{name}", 0.5, 0.5, 12)
        for name in ("Angelic", "Atlantean", "Glagolitic", "Manipuri")
    ),
    ("CIFAR-10, 0-4 known, 5-9 novel", "cifar10", "01234", "56789", 30),
    ("CIFAR-10, 7 known, 3 novel", "cifar10", 7, 3, 30),
    *(
        (f"CIFAR-100, {k} of 0-79 known, {n} of 80-99 novel", "cifar100", k, n, 30)
        for k, n in ((5, 3), (10, 8), (10, 12), (20, 20))
    ),
]
MIXED = [task for task in RESULT if task[1] not in ("digits", "pixels")]


def cifar(file: list[Path], key: str, classes: range, each: int) -> Pool:
    """The first images of each class, from the publishers' batches."""
    pixels, labels = [], []
    for path in file:
        content = read_pickle(path)
        pixels.append(content[b"data"])
        labels += content[key.encode()]
    images, numbers = np.concatenate(pixels).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), np.array(labels)
    return {
        f"{c:02d}" if key == "fine_labels" else str(c): [
            Image.fromarray(images[row]) for row in np.flatnonzero(numbers == c)[:each]
        ]
        for c in classes
    }


def pool(name: str, root: Path, each: int) -> Pool:
    """Categories and their images."""
    if name.startswith("cifar100"):
        return cifar([root / "cifar100/cifar-100-python/train"], "fine_labels", range(100), each)
    if name == "cifar10":
        files = [root / f"cifar10/cifar-10-batches-py/data_batch_{i}" for i in range(1, 6)]
        return cifar(files, "labels", range(10), each)
    if name in ("digits", "pixels"):
        from sklearn.datasets import load_digits

        digits = load_digits()
        levels = np.round(digits.images * (255 / 16)).astype(np.uint8)
        return {str(c): [Image.fromarray(x) for x in levels[digits.target == c][:each]] for c in range(10)}
    folders = sorted((root / "omniglot" / name).iterdir())
    return {folder.name: [Image.open(file) for file in sorted(folder.iterdir())[:each]] for folder in folders}


def draw(name: str, known: Any, novel: Any, images: Pool, seed: int) -> tuple[list[str], list[str]]:
    """The known and the novel categories of a task."""
    if isinstance(known, str):
        return list(known), list(novel)
    rng, names = np.random.default_rng(seed), sorted(images)
    if name == "cifar100":
        old, new = rng.permutation(names[:80]), rng.permutation(names[80:])
        return old[:known].tolist(), new[:novel].tolist()
    order = rng.permutation(names[:80] if name == "cifar100-base" else names).tolist()
    if isinstance(known, float):
        known, novel = len(order) - int(novel * len(order)), int(novel * len(order))
    return order[:known], order[known : known + novel]


def count_task(
    name: str, images: Pool, known: list[str], novel: list[str], seed: int, cache: Path, each: int | None = None
) -> Count:
    """The estimate for a task, from folders (or, of pixels, from a file of features). With ``each`` the pile is mixed:
    so many images of a category are labelled or novel ones, and what is left of the known categories is in the pile."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        if name == "pixels":
            rows = [(c, image) for c in [*known, *novel] for image in images[c]]
            np.save(root / "x.npy", np.stack([np.asarray(image, np.float32).ravel() for _, image in rows]))
            with open(root / "labels.csv", "w", newline="") as file:
                table = csv.writer(file)
                table.writerow(["image", "label"])
                table.writerows([i, c] for i, (c, _) in enumerate(rows) if c in known)
            return count_novel(features=root / "x.npy", labels=root / "labels.csv", seed=seed, verbose=False)
        for tree, categories in (("known", known), ("pile", novel)):
            for category in categories:
                (root / tree / category).mkdir(parents=True)
                for i, image in enumerate(images[category][:each]):
                    image.save(root / tree / category / f"{i:03d}.png")
        for category in known if each else ():
            for i, image in enumerate(images[category][each:]):
                image.save(root / "pile" / f"{category} {i:03d}.png")
        return count_novel(root / "known", root / "pile", mixed=bool(each), seed=seed, cache=cache, verbose=False)


def run_one(task: tuple[str, str, Any, Any, int], root: Path, seed: int, cache: Path, mixed: bool) -> dict[str, Any]:
    """A task; of a ``mixed`` pile the known categories have half as many images there as labelled ones."""
    title, name, known, novel, each = task
    images = pool(name, root, each + each // 2 if mixed else each)
    old, new = draw(name, known, novel, images, seed)
    began = time.process_time()
    found = count_task(name, images, old, new, seed, cache, each if mixed else None)
    row = {"task": title, "seed": seed, "known": len(old), "each": each, "true": len(new)} | found.to_mapping()
    row |= {"cpu_seconds": round(time.process_time() - began, 1)}
    del row["curve"]
    print(title, seed, len(new), row["methods"], row["interval"], row["statement"], row["cpu_seconds"], flush=True)
    return row


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How often each way is within 10 and 20 %, its mean error, and how often the interval holds the truth."""
    ways = {}
    for way in ("owned", "dtc", "gcd", "shift"):
        pairs = [(row["methods"][way], row["true"]) for row in rows if way in row["methods"]]
        within = {f"within_{p}": sum(100 * abs(found - true) <= p * true for found, true in pairs) for p in (10, 20)}
        ways[way] = {"tasks": len(pairs), **within, "mean_error": statistics.mean(abs(f / t - 1) for f, t in pairs)}
    held = sum(row["interval"][0] <= row["true"] <= row["interval"][1] for row in rows)
    return {"ways": ways, "interval_holds": held, "of": len(rows)}


NAMED = {"owned": "ours", "dtc": "DTC", "gcd": "GCD", "shift": "mean shift"}


def table(record: dict[str, Any]) -> str:
    """Every task with its estimates, a seed after the other, and how good each way is, as docs/count.md has them."""
    tasks: dict[str, list[dict[str, Any]]] = {}
    for row in record["rows"]:
        tasks.setdefault(row["task"], []).append(row)
    lines = [f"| | true | interval | {' | '.join(NAMED.values())} |", "|---|---|---|---|---|---|---|"]
    for task, rows in tasks.items():
        true = ", ".join(dict.fromkeys(str(row["true"]) for row in rows))
        interval = ", ".join("{} to {}".format(*row["interval"]) for row in rows)
        found = [", ".join(str(row["methods"].get(way, "–")) for row in rows) for way in NAMED]
        lines.append(f"| {task} | {true} | {interval} | {' | '.join(found)} |")
    ways = [record["summary"]["ways"][way] for way in NAMED]
    for title, key in (("within 10 %", "within_10"), ("within 20 %", "within_20")):
        lines.append(f"| {title} | | | {' | '.join('{} of {}'.format(way[key], way['tasks']) for way in ways)} |")
    held = f"{record['summary']['interval_holds']} of {record['summary']['of']} hold it"
    lines.append(f"| mean error | | {held} | {' | '.join('{:.0%}'.format(way['mean_error']) for way in ways)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--rehearsal", action="store_true")
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    asked = parser.parse_args()
    record = begin(settings={}, seed=asked.seeds)
    if asked.rehearsal and asked.mixed:
        parser.error("--rehearsal is of piles that are not mixed")
    tasks, name = (
        (REHEARSAL, "rehearsal") if asked.rehearsal else (MIXED, "mixed") if asked.mixed else (RESULT, "record")
    )
    rows = []
    with tempfile.TemporaryDirectory() as place:
        cache = asked.cache or Path(place)
        for seed in asked.seeds:
            for task in tasks:
                rows.append(run_one(task, asked.data, seed, cache, asked.mixed))
                done = record | {"summary": summary(rows), "rows": rows}
                write(HERE / f"{name}.json", done)
    print(done["summary"])


if __name__ == "__main__":
    main()
