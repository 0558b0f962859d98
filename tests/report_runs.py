"""Finished run folders made by hand, so that a page can be tested without training anything."""

import json
from pathlib import Path

import numpy as np
import torch

from newfound.data.collection import Pool, Reading, assemble
from newfound.data.sources import Source
from newfound.data.store import ImageStore
from newfound.evaluate.confusion import count_pairs
from newfound.files import write_json
from newfound.plan.call import Call
from newfound.plan.recipe import resolve_settings
from newfound.progress import Reporter
from newfound.report.keep import keep
from newfound.runfolder import Run

QUIET = Reporter(quiet=True)


def make_run(
    folder: Path,
    *,
    n_novel: int = 3,
    n_images: int = 60,
    side: int = 16,
    channels: int = 3,
    known: tuple[str, ...] = ("cat", "dog"),
    name=lambda i: f"pile/{i:05d}.png",
    novel: tuple[str, ...] | None = None,
    truth=lambda category: f"true-{category}",
    answers: bool = True,
    skipped: tuple[tuple[str, str], ...] = (),
    noise: float = 0.0,
    kept: bool = True,
    warnings: tuple[str, ...] = (),
    auto: tuple[tuple[str, str, str], ...] = (),
    sure: tuple[float, float] = (0.3, 1),
    near: tuple[str, ...] = (),
    mixed: bool = False,
    source: Source | None = None,
) -> Run:
    """A finished run with ``n_images`` in ``n_novel`` categories of growing size; each category has a colour, to which
    ``noise`` adds grains that compress badly. ``auto`` has what, value and why of choices;
    confidence lies between the two numbers ``sure``; every category is ``near`` these known ones. In a
    ``mixed`` pile every third image was given a known category."""
    rng = np.random.default_rng(0)
    settings = resolve_settings("kmeans", "kmeans-digits", {})
    run = Run.create(folder, Call(source or Source(dataset="digits", mixed=mixed), 0, "cpu", 1, "nowhere"), settings)
    novel = novel or tuple(f"novel-{i:03d}" for i in range(1, n_novel + 1))
    reading, category_of = _reading(rng, n_novel, n_images, side, channels, known, name, noise, mixed)
    assignments = len(known) + np.array([category_of[name] for name in reading.names.unlabelled])
    if mixed:
        assignments[::3] = np.arange(len(assignments[::3])) % len(known)
    confidence = rng.uniform(*sure, n_images)
    centres = rng.normal(size=(len(known) + n_novel, 16))
    everyone = np.concatenate([reading.collection.labels[: len(known)], assignments])
    features = torch.from_numpy(centres[everyone] + 0.5 * rng.normal(size=(len(everyone), 16))).float()
    found = [(known + novel)[a] for a in assignments]
    rows = zip(reading.names.unlabelled, found, map("{:.6f}".format, confidence), strict=True)
    run.write_table("assignments.csv", ["image", "category", "confidence"], sorted(rows))
    run.write_table("skipped.csv", ["file", "reason"], skipped)
    lines = [{"stage": "stage1", "epoch": 1, "step": s, "lr": 0.1, "loss": 10 / s} for s in range(1, 900)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = {
        "newfound": "0", "method": "kmeans", "data": "folders", "seed": 0, "known": list(known), "novel": list(novel),
        "images": {"labelled": len(known), "unlabelled": n_images, "test": 0, "skipped": len(skipped)},
        "seconds": {"since_start": 12.5}, "hardware": "cpu", "versions": {}, "finished": "2026-01-01T00:00:00+00:00",
        "warnings": list(warnings), "near": {name: list(near) for name in novel},
        "auto": [dict(zip(("what", "value", "why"), choice, strict=True)) for choice in auto],
    }  # fmt: skip
    if answers:
        wrong = np.where(rng.uniform(size=n_images) < 0.2, rng.integers(0, n_novel, n_images), assignments - len(known))
        run.write_confusion({"unlabelled": count_pairs(found, [truth(w) for w in wrong])})
        result["unlabelled"] = {"accuracy": 0.8, "nmi": 0.7, "ari": 0.6, "images": n_images, "classes": n_novel}
        result["test"] = {"strict": {"old": 0.9, "new": None, "all": 0.9}}
    write_json(folder / "result.json", result)
    if kept:
        keep(run, reading.collection, reading.names.unlabelled, features, assignments, confidence, QUIET)
    return run


def _reading(rng, n_novel, n_images, side, channels, known, name, noise, mixed) -> tuple[Reading, dict[str, int]]:
    """Labelled images, one a known category, then the pile; and the category of every name in the pile."""
    categories = np.sort(np.concatenate([np.arange(n_novel), rng.integers(0, n_novel, n_images - n_novel)]))
    colours = rng.integers(40, 216, (n_novel + len(known), channels, 1, 1))
    everyone = np.concatenate([np.arange(n_novel, n_novel + len(known)), categories])
    grain = rng.normal(0, noise, (512, channels, side, side)) if noise else np.zeros((1, channels, side, side))
    pixels = np.empty((len(everyone), channels, side, side), np.uint8)
    for i, category in enumerate(everyone):
        pixels[i] = np.clip(colours[category] + grain[i % len(grain)], 0, 255)
    names = [f"known/{k}" for k in range(len(known))] + [name(i) for i in range(n_images)]
    pool = Pool(ImageStore(pixels), names, [*known, *[None] * n_images])
    rows = np.arange(len(everyone))
    reading = assemble(
        pool, labelled=rows[: len(known)], unlabelled=rows[len(known) :], n_novel=n_novel, seed=0, mixed=mixed
    )
    return reading, dict(zip(names[len(known) :], categories.tolist(), strict=True))
