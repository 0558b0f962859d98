"""How well a run tells that known categories hide in its pile: writes within.json.

    python benchmarks/trust/within.py --data ROOT --fashion FOLDER [--cache CACHE] [--seeds 40]

A seed draws a situation: 4 to 20 known categories of 10 to 40 labelled images, 3 to 12 novel ones of 15 to 40, in half
of the seeds no known image in the pile and in the others a tenth to two fifths of it, and a --novel that is right, half
or twice the number. The gauge needs no result of a method, so none is run. Its bar, and the number of clusters for each
novel category, were chosen on the seeds from 300 on, which the record does not have.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from pools import cifar100, embed, options, write

from newfound.data.collection import Pool as Rows
from newfound.data.collection import assemble
from newfound.data.vectors import VectorStore
from newfound.trust.warnings import WITHIN
from newfound.trust.within import share_within

RECORD = Path(__file__).parent / "within.json"
MOST = 60
BARS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)


def run_one(store: VectorStore, categories: np.ndarray, seed: int) -> dict[str, Any]:
    """The situation of that seed, and what the gauge says of it."""
    rng = np.random.default_rng([seed, 0x3171])
    known, novel = int(rng.integers(4, 21)), int(rng.integers(3, 13))
    labelled, each = int(rng.choice([10, 20, 40])), int(rng.choice([15, 30, 40]))
    share = float(rng.choice([0.1, 0.2, 0.4])) if seed % 2 else 0.0
    hidden = min(round(share / (1 - share) * novel * each / known), MOST - labelled)
    asked = max(2, int(novel * rng.choice([0.5, 1, 1, 1, 2])))
    names = rng.permutation(np.unique(categories))[: known + novel]
    rows = [rng.permutation(np.flatnonzero(categories == name)) for name in names]
    pile = [own[labelled : labelled + hidden] for own in rows[:known]] + [own[:each] for own in rows[known:]]
    pool = Rows(store, [str(row) for row in range(len(store))], categories.tolist())
    first = np.concatenate([own[:labelled] for own in rows[:known]])
    collection = assemble(pool, labelled=first, unlabelled=np.concatenate(pile), n_novel=asked, seed=seed).collection
    outcome: Any = SimpleNamespace(backbone_features=collection.train.images.flatten(1))
    found = share_within(collection, outcome, seed)
    assert found is not None
    old = known * hidden / collection.n_unlabelled
    return {
        "seed": seed, "known": known, "labelled": labelled, "novel": novel, "each": each, "asked": asked,
        "old": round(old, 3), "within": round(found, 3),
    }  # fmt: skip


def table(record: dict[str, Any]) -> str:
    """How often each bar is reached, by the share of known images in the pile."""
    runs = record["runs"]
    groups = {
        "none": [run for run in runs if run["old"] == 0],
        "below 15%": [run for run in runs if 0 < run["old"] < 0.15],
        "15% or more": [run for run in runs if run["old"] >= 0.15],
    }
    bars = sorted({*BARS, WITHIN})
    head = "| known images in the pile | situations | mean gauge |" + "".join(f" told at {bar:.0%} |" for bar in bars)
    lines = [head, "|---" * (3 + len(bars)) + "|"]
    for name, some in groups.items():
        gauges = np.array([run["within"] for run in some])
        told = "".join(f" {(gauges >= bar).mean():.0%} |" for bar in bars)
        lines.append(f"| {name} | {len(some)} | {gauges.mean():.1%} |{told}")
    return "\n".join(lines) + "\n"


def main() -> None:
    chosen = options(__doc__, seeds=40)
    torch.set_num_threads(1)
    pool = cifar100(chosen.roots["cifar100"])
    store = VectorStore(embed(pool, chosen.cache))
    runs = []
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        runs.append(run_one(store, pool.categories, seed))
        if chosen.show:
            print(runs[-1], flush=True)
    record = {"data": "CIFAR-100, classes 0 to 79, features of EfficientNet-Lite0", "bar": WITHIN, "runs": runs}
    print(table(record))
    write(RECORD, record, chosen)


if __name__ == "__main__":
    main()
