"""How many images `predict --reject` flags, of known, novel and foreign categories: writes reject.json.

    python benchmarks/trust/reject.py --data ROOT --fashion FOLDER [--cache CACHE] [--seeds 20]

Each seed draws categories that are known, novel and foreign, the latter in no image that is trained on, and of each
known and novel one the images to train on; the others are fresh. As `discover` does, a run holds some labelled images
out. Strangeness as such was chosen on other data, scikit-learn's digits (benchmarks/reject). That apl-features tells it
from the network's own features was decided here, on the seeds 100 to 105, which the record does not have; the features
it used before, after self-training, are beside it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pools import POOLS, Pool, embed, options, write

from newfound.data.collection import Pool as Rows
from newfound.data.collection import Reading, assemble
from newfound.data.holdout import set_aside
from newfound.data.store import ImageStore
from newfound.data.vectors import VectorStore
from newfound.engine.loop import Engine
from newfound.evaluate.protocol import evaluate_unlabelled
from newfound.methods.base import Outcome, learn_strangeness, run_method
from newfound.plan.recipe import resolve_settings

RECORD = Path(__file__).parent / "reject.json"
SHARES = (0.05, 0.1, 0.2)
PARTS = ("known", "novel", "foreign")


@dataclass(frozen=True)
class Draw:
    """Categories of each part, and images of a known or novel one that are trained on."""

    known: int
    novel: int
    foreign: int
    train: int


DRAWS = {
    "fashion": Draw(known=4, novel=3, foreign=3, train=75),
    "omniglot": Draw(known=20, novel=10, foreign=20, train=14),
    "cifar100": Draw(known=10, novel=10, foreign=20, train=40),
}
KMEANS = {"network": "tiny", "data.size": 28, "stage1.batch": 32}
SETTINGS = {
    "apl-features": resolve_settings("apl-features", "apl-features", {}),
    "kmeans": resolve_settings("kmeans", "kmeans-folder", KMEANS),
}
KMEANS_SEEDS = 3
"""A minute each: it trains a network."""


def split(pool: Pool, draw: Draw, store: ImageStore, seed: int) -> tuple[Reading, dict[str, ImageStore]]:
    """What a run reads, and the fresh images of each part."""
    rng = np.random.default_rng([seed, 0x5712])
    chosen = rng.permutation(np.unique(pool.categories))[: draw.known + draw.novel + draw.foreign]
    rows = [rng.permutation(pool.of(category)) for category in chosen]
    known, novel, foreign = rows[: draw.known], rows[draw.known :][: draw.novel], rows[draw.known + draw.novel :]
    trained = [np.concatenate([some[: draw.train] for some in part]) for part in (known, novel)]
    fresh = [np.concatenate([some[draw.train :] for some in part]) for part in (known, novel)]
    every = Rows(store, [str(row) for row in range(len(store))], pool.categories.tolist())
    reading = assemble(every, labelled=trained[0], unlabelled=trained[1], n_novel=draw.novel, seed=seed)
    parts = zip(PARTS, [*fresh, np.concatenate(foreign)], strict=True)
    return set_aside(reading, None, seed), {name: store.take(some) for name, some in parts}


def ways(method: str, outcome: Outcome) -> Iterator[tuple[str, Outcome]]:
    yield method, outcome
    if outcome.backbone_features is not None:
        yield f"{method}, after self-training", replace(outcome, backbone_features=None)


def run_one(method: str, split_: tuple[Reading, dict[str, ImageStore]], seed: int) -> dict[str, Any]:
    """The share of each part that is rejected, by the way and the share asked for; and how good the run is."""
    reading, fresh = split_
    collection, began = reading.collection, time.monotonic()
    assert collection.test is not None
    assert reading.answers is not None
    assert reading.answers.unlabelled is not None
    engine = Engine(collection, torch.device("cpu"), seed=seed)
    outcome = run_method(SETTINGS[method], collection, engine)
    rejected: dict[str, Any] = {}
    for way, told in ways(method, outcome):
        learn_strangeness(told, collection, engine)
        model = told.model
        assert model.strangeness is not None
        for name, images in fresh.items():
            fit = model.strangeness.p_value(engine.features(model, images, title="", of=model.judge)[:, -1]).numpy()
            for share in SHARES:
                rejected.setdefault(way, {}).setdefault(str(share), {})[name] = float((fit <= share).mean())
    found = [str(number) for number in outcome.assignments]
    return {
        "seed": seed,
        "held_out": len(collection.test),
        "novel_accuracy": evaluate_unlabelled(found, reading.answers.unlabelled)["accuracy"],
        "rejected": rejected,
        "seconds": round(time.monotonic() - began, 1),
    }


def table(record: dict[str, Any]) -> str:
    """Means over the seeds, with the smallest and the largest of known ones."""
    lines = ["| | way | `--reject` | known | novel | foreign |", "|---|---|---|---|---|---|"]
    for name, found in record["results"].items():
        for way in found["runs"][0]["rejected"]:
            for share in map(str, record["shares"]):
                each = {part: [run["rejected"][way][share][part] for run in found["runs"]] for part in PARTS}
                cells = [f"{np.mean(each[part]):.1%}" for part in PARTS]
                cells[0] += f" ({min(each['known']):.0%} to {max(each['known']):.0%})"
                lines.append(f"| {name} | {way} | {share} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    chosen = options(__doc__, seeds=20)
    results: dict[str, Any] = {}
    for name, draw in DRAWS.items():
        pool = POOLS[name](chosen.roots[name])
        stores = {"apl-features": VectorStore(torch.from_numpy(embed(pool, chosen.cache))), "kmeans": pool.images}
        for method in SETTINGS if name == "fashion" else ("apl-features",):
            seeds = chosen.seeds if method == "apl-features" else min(KMEANS_SEEDS, chosen.seeds)
            runs = [run_one(method, split(pool, draw, stores[method], seed), seed) for seed in range(seeds)]
            key = name if method == "apl-features" else f"{name}, {method}"
            results[key] = {"title": POOLS[name].__doc__, **asdict(draw), "runs": runs}
    record = {"what": "shares rejected", "shares": SHARES, "results": results}
    print(table(record))
    write(RECORD, record, chosen, dict(SETTINGS))


if __name__ == "__main__":
    main()
