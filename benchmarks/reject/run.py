"""How many images `predict --reject 0.05` rejects, of categories it knows and of one it has never met: record.json.

    python benchmarks/reject/run.py [--methods kmeans apl-features apl] [--digits 0 1 …]     other rows stay

Each of scikit-learn's digits in turn is foreign: it is in no image that is trained on. Of the others the even ones are
known and the odd ones novel, and a run holds some labelled images out as it does for folders. Every fourth image of
these digits was neither trained on nor held out; of them, and of all images of the foreign digit, the share rejected is
counted. apl-features learns from the 64 pixels, as from embeddings somebody has.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write

from newfound.data.digits import read_split
from newfound.data.holdout import set_aside
from newfound.data.store import ImageStore
from newfound.data.vectors import VectorStore
from newfound.engine.loop import Engine
from newfound.methods.base import run_method
from newfound.plan.recipe import resolve_settings

RECORD = Path(__file__).parent / "record.json"
REJECT = 0.05
RECIPES = {"kmeans": "kmeans-digits", "apl": "apl-digits", "apl-features": "apl-features"}


def foreign_images(digit: int) -> ImageStore:
    """All images of that digit."""
    reading = read_split(0, known=(digit,), novel=((digit + 1) % 10,))
    collection = reading.collection
    assert collection.test is not None
    assert reading.answers is not None
    test = np.array(reading.answers.test) == str(digit)
    parts = [collection.train.take(collection.labelled), collection.test.take(np.flatnonzero(test))]
    return ImageStore(torch.cat([part.images for part in parts]))


def run_one(method: str, digit: int) -> dict[str, float]:
    """The shares rejected, and the time."""
    known, novel = ([d for d in range(10) if d % 2 == odd and d != digit] for odd in (0, 1))
    reading = read_split(0, tuple(known), tuple(novel))
    test, answers, foreign = reading.collection.test, reading.answers, foreign_images(digit)
    assert test is not None
    assert answers is not None
    reading = set_aside(replace(reading, collection=replace(reading.collection, test=None)), None, 0)
    collection = reading.collection
    if method == "apl-features":
        test, foreign = as_vectors(test), as_vectors(foreign)
        collection = replace(collection, train=as_vectors(collection.train), test=as_vectors(collection.test))
    began = time.monotonic()
    engine = Engine(collection, torch.device("cpu"))
    outcome = run_method(resolve_settings(method, RECIPES[method], {}), collection, engine)
    old = np.isin(answers.test, [str(d) for d in known])
    rejected = {
        name: _rejected(outcome.model, engine, images) for name, images in {"": test, "foreign": foreign}.items()
    }
    return {
        "known": float(rejected[""][old].mean()),
        "novel": float(rejected[""][~old].mean()),
        "foreign": float(rejected["foreign"].mean()),
        "held_out": len(collection.test) if collection.test is not None else 0,
        "seconds": round(time.monotonic() - began, 1),
    }


def as_vectors(images: ImageStore | None) -> VectorStore:
    assert images is not None
    return VectorStore(images.images.flatten(1).float() / 255)


def _rejected(model: Any, engine: Engine, images: ImageStore) -> np.ndarray:
    strange = engine.features(model, images, title="", of=model.judge)[:, -1]
    return model.strangeness.p_value(strange).numpy() <= REJECT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=list(RECIPES), choices=list(RECIPES))
    parser.add_argument("--digits", nargs="+", type=int, default=list(range(10)))
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, Any] = json.loads(RECORD.read_text())["rows"] if RECORD.exists() else {}
    for method in chosen.methods:
        found = {str(digit): run_one(method, digit) for digit in chosen.digits}
        mean = {k: statistics.mean(one[k] for one in found.values()) for k in ("known", "novel", "foreign")}
        rows[method] = {"foreign_digits": found, "mean": mean, **begin(settings=settings_of(method), seed=0)}
        print(method, {name: f"{value:.1%}" for name, value in mean.items()}, flush=True)
        every = {name: settings_of(name) for name in RECIPES}
        write(RECORD, {"reject": REJECT, **begin(settings=every, seed=0), "rows": rows})


def settings_of(method: str) -> Any:
    return resolve_settings(method, RECIPES[method], {})


def table(record: dict[str, Any]) -> str:
    """The record as docs/export.md has it."""
    lines = ["| method | known | novel | foreign | foreign digits |", "|---|---|---|---|---|"]
    for method, row in record["rows"].items():
        found = {digit: one["foreign"] for digit, one in row["foreign_digits"].items()}
        least, most = min(found, key=lambda d: found[d]), max(found, key=lambda d: found[d])
        digits = "all ten in turn" if len(found) == 10 else ", ".join(found)
        span = f"{digits}: from {found[least]:.0%} ({least}) to {found[most]:.0%} ({most})"
        name = f"{method}, on the pixels" if method == "apl-features" else method
        lines.append(f"| {name} |" + "".join(f" {row['mean'][part]:.1%} |" for part in row["mean"]) + f" {span} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
