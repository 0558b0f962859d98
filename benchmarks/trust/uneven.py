"""Categories that differ in size: writes uneven.json.

    python benchmarks/trust/uneven.py --data ROOT --fashion FOLDER [--cache CACHE] [--seeds 20]

A seed draws known and novel categories, one of the novel ones as large as the others, three or ten times as large.
What clusterings of the whitened features agree on (consensus.py) is held against what apl-features takes
(uneven): accuracy of the clusters, before self-training. The ways to merge, the silhouette and its bar were chosen on
the seeds 3000 to 3017, which the record does not have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from gauges import MOST, SETTINGS, Situation, gather
from pools import POOLS, Pool, embed, options, write

from newfound.cluster.consensus import consensus
from newfound.cluster.uneven import uneven
from newfound.data.vectors import VectorStore
from newfound.evaluate.accuracy import clustering_figures
from newfound.methods.parts.backbone import start_whitened
from newfound.nets.heads import Whitened

RECORD = Path(__file__).parent / "uneven.json"
TIMES = (1, 3, 10)
WAYS = {"consensus": consensus, "uneven": uneven}


def situation(name: str, times: int, rng: np.random.Generator) -> Situation:
    few = name == "fashion"  # ten categories in all
    known, novel = int(rng.integers(4, 7 if few else 13)), int(rng.integers(3, 5 if few else 9))
    largest = MOST[name] if times == 10 else min(MOST[name], int(rng.choice([20, 40, 60])))
    sizes = (largest, *[max(2, largest // times)] * (novel - 1))
    return Situation(known, int(min(MOST[name], rng.choice([5, 10, 20]))), sizes, novel)


def run_one(name: str, pool: Pool, store: VectorStore, times: int, seed: int) -> dict[str, float]:
    """The accuracy of each way's clusters."""
    rng = np.random.default_rng([seed, times, 77])
    reading = gather(pool, store, situation(name, times, rng), rng, seed)
    collection = reading.collection
    assert reading.answers is not None
    assert isinstance(collection.train, VectorStore)
    features = collection.train.images.flatten(1)
    size = min(SETTINGS.whitening.dimension, len(features) - 1, features.shape[1])
    project = Whitened(features.shape[1], size)
    known = torch.from_numpy(collection.labels[: collection.n_labelled])
    white = project.linear(start_whitened(project, features, known, SETTINGS.whitening)).detach()[
        collection.n_labelled :
    ]
    truth = np.unique(np.array(reading.answers.unlabelled), return_inverse=True)[1]
    found = {way: cluster(white, collection.n_novel, seed=seed).labels.numpy() for way, cluster in WAYS.items()}
    return {way: round(clustering_figures(labels, truth)["accuracy"], 4) for way, labels in found.items()}


def table(record: dict[str, Any]) -> str:
    """The mean accuracy of each way, by data set and by how much larger one category is."""
    lines = ["| | " + " | ".join(f"{way}, {t} x" for t in TIMES for way in WAYS) + " |", "|---|" + "---|" * 6]
    for name, found in record["results"].items():
        cells = [f"{np.mean([run[way] for run in found[str(t)]]):.1%}" for t in TIMES for way in WAYS]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    chosen = options(__doc__, seeds=20)
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    results: dict[str, Any] = {}
    for name in MOST:
        pool = POOLS[name](chosen.roots[name])
        store = VectorStore(torch.from_numpy(embed(pool, chosen.cache)))
        results[name] = {str(t): [run_one(name, pool, store, t, seed) for seed in seeds] for t in TIMES}
    write(RECORD, {"what": "clusters of categories that differ in size", "results": results}, chosen, SETTINGS)


if __name__ == "__main__":
    main()
