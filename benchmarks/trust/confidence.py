"""What confidence, the warning of merged categories and plain features are worth: writes confidence.json.

    python benchmarks/trust/confidence.py --data ROOT --fashion FOLDER [--cache CACHE] [--seeds 10]

Piles are of the sizes of benchmarks/folders. A seed draws categories and images; apl-features looks for the right
number of categories, and for half of it. ABOVE in newfound/trust/merged.py, and the score that confidence comes from,
were chosen on the seeds 600 to 611, which the record does not have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from gauges import METHOD, SETTINGS, Situation, gather
from pools import POOLS, Pool, embed, options, write
from sklearn.metrics import roc_auc_score

from newfound.data.vectors import VectorStore
from newfound.engine.loop import Engine
from newfound.evaluate.accuracy import clustering_accuracy, match
from newfound.methods import get_method
from newfound.methods.base import run_method
from newfound.trust import merged as module
from newfound.trust.confidence import calibrated
from newfound.trust.merged import merged
from newfound.trust.rehearsal import rehearse

RECORD = Path(__file__).parent / "confidence.json"
PILES = {"fashion": (5, 5, 40), "omniglot": (10, 10, 20), "cifar100": (5, 5, 40)}
"""Known and novel categories, and images of each, as in benchmarks/folders/make.py."""
TWO, ONE = 0.3, 0.15
"""A found category is two if its second true category has this share of its images or more, one if it has at most the
other; what lies between counts as neither."""
BINS = 10
SHARES = {"the right number": 1.0, "half of it": 0.5}


def run_one(name: str, pool: Pool, store: VectorStore, seed: int, share: float) -> dict[str, Any]:
    """One pile, with that share of the right number of categories looked for."""
    rng = np.random.default_rng([seed, 0xC0F])
    known, novel, each = PILES[name]
    what = Situation(known, each, (each,) * novel, max(2, round(novel * share)))
    reading = gather(pool, store, what, rng, seed)
    collection, method = reading.collection, get_method(METHOD)(SETTINGS)
    outcome = run_method(SETTINGS, collection, Engine(collection, torch.device("cpu"), seed=seed))
    rehearsal = rehearse(collection, outcome, method, seed)
    after = calibrated(collection, outcome, rehearsal)
    assert reading.answers is not None
    assert rehearsal is not None
    truth = np.unique(np.array(reading.answers.unlabelled), return_inverse=True)[1]
    meaning = match(outcome.assignments, truth)
    right = np.array([meaning.get(int(a)) == t for a, t in zip(outcome.assignments, truth, strict=True)])
    told = set(merged(collection, outcome, rehearsal))
    return {
        "seed": seed,
        "asked": what.asked,
        "accuracy": round(float(right.mean()), 4),
        "plain": round(clustering_accuracy(outcome.earlier["plain"], truth), 4),
        "agreement": round(clustering_accuracy(outcome.earlier["plain"], outcome.assignments), 4),
        "rehearsed": [round(float(rehearsal.right.mean()), 4), round(rehearsal.right_plain, 4)],
        "before": _judge(outcome.confidence, right),
        "after": _judge(after.confidence, right),
        "categories": [[round(_second(truth, outcome.assignments, c), 3), int(c in told)] for c in _found(outcome)],
    }


def _found(outcome: Any) -> list[int]:
    return np.unique(outcome.assignments).tolist()


def _second(truth: np.ndarray, found: np.ndarray, category: int) -> float:
    """The share of the second true category among the images of a found one."""
    counts = np.sort(np.bincount(truth[found == category], minlength=2))
    return float(counts[-2] / counts.sum())


def _judge(confidence: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """Mean, AUROC for being right, and for bins of confidence: images, sum of confidence, right ones."""
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    sums = [np.bincount(place, weights, BINS) for weights in (None, confidence, right)]
    auroc = roc_auc_score(right, confidence) if 0 < right.sum() < len(right) else None
    bins = [[int(n), round(float(total), 2), int(hits)] for n, total, hits in zip(*sums, strict=True)]
    return {"mean": round(float(confidence.mean()), 4), "auroc": auroc and round(float(auroc), 4), "bins": bins}


def every_run(record: dict[str, Any], share: str) -> list[dict[str, Any]]:
    return [run for found in record["results"].values() for run in found[share]]


def confidence_table(record: dict[str, Any]) -> str:
    """Accuracy, and mean confidence, AUROC and error of calibration before and after."""
    lines = [
        "| pile | looked for | accuracy | mean confidence before | after | AUROC before | after | calibration error "
        "before | after |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, found in record["results"].items():
        for share, runs in found.items():
            accuracy = np.mean([run["accuracy"] for run in runs])
            cells = [[mean(runs, way, key) for way in ("before", "after")] for key in ("mean", "auroc")]
            errors = [reliability(runs, way) for way in ("before", "after")]
            lines.append(
                f"| {name} | {share} | {accuracy:.1%} | {cells[0][0]:.1%} | {cells[0][1]:.1%} | {cells[1][0]:.2f} | "
                f"{cells[1][1]:.2f} | {errors[0]:.1%} | {errors[1]:.1%} |"
            )
    return "\n".join(lines) + "\n"


def mean(runs: list[dict[str, Any]], way: str, key: str) -> float:
    """Of a figure of confidence, over the runs that have it."""
    return float(np.mean([run[way][key] for run in runs if run[way][key] is not None]))


def gap(runs: list[dict[str, Any]], way: str) -> float:
    """How far mean confidence and accuracy of a run are apart, in the mean over runs."""
    return float(np.mean([abs(run[way]["mean"] - run["accuracy"]) for run in runs]))


def reliability(runs: list[dict[str, Any]], way: str) -> float:
    """The expected calibration error over the images of all runs, in ten bins."""
    bins = np.sum([run[way]["bins"] for run in runs], axis=0)
    return float(np.abs(bins[:, 1] - bins[:, 2]).sum() / bins[:, 0].sum())


def bins_table(record: dict[str, Any], share: str) -> str:
    """Of images by their calibrated confidence, how many are right."""
    lines = ["| calibrated confidence | images | right |", "|---|---|---|"]
    bins = np.sum([run["after"]["bins"] for run in every_run(record, share)], axis=0)
    for i, (n, _, hits) in enumerate(bins):
        if n:
            lines.append(f"| {i * 10}% to {(i + 1) * 10}% | {n:.0f} | {hits / n:.1%} |")
    return "\n".join(lines) + "\n"


def merged_table(record: dict[str, Any]) -> str:
    """How many categories that are two, and that are one, are told to be two; and how many runs warn."""
    lines = [
        "| pile | looked for | categories that are two | told | that are one | told | runs with a warning |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in record["results"].items():
        for share, runs in found.items():
            two, one = told_of(runs, record)
            warned = np.mean([any(told for _, told in run["categories"]) for run in runs])
            lines.append(
                f"| {name} | {share} | {len(two)} | {_share(two)} | {len(one)} | {_share(one)} | {warned:.0%} |"
            )
    return "\n".join(lines) + "\n"


def told_of(runs: list[dict[str, Any]], record: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Whether categories that are two were told, and whether those that are one were."""
    pairs = [pair for run in runs for pair in run["categories"]]
    two = [told for second, told in pairs if second >= record["two"]]
    return two, [told for second, told in pairs if second <= record["one"]]


def _share(told: list[int]) -> str:
    return f"{np.mean(told):.0%}" if told else "–"


def plain_table(record: dict[str, Any], share: str) -> str:
    """The method against k-means on plain features, and what the rehearsal says of which is better."""
    lines = [
        "| pile | apl-features | plain | images grouped alike | plain better | choice by rehearsal right | wrong |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in record["results"].items():
        runs = found[share]
        real = np.array([run["plain"] - run["accuracy"] for run in runs])
        said = np.array([run["rehearsed"][1] - run["rehearsed"][0] for run in runs])
        means = [np.mean([run[key] for run in runs]) for key in ("accuracy", "plain", "agreement")]
        decided = (real != 0) & (said != 0)
        agree = int(((real > 0) == (said > 0))[decided].sum())
        cells = " | ".join(f"{mean:.1%}" for mean in means)
        lines.append(f"| {name} | {cells} | {(real > 0).sum()} of {len(runs)} | {agree} | {decided.sum() - agree} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    chosen = options(__doc__, seeds=10)
    results = {}
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    for name in PILES:
        pool = POOLS[name](chosen.roots[name])
        store = VectorStore(torch.from_numpy(embed(pool, chosen.cache)))
        results[name] = {
            title: [run_one(name, pool, store, seed, share) for seed in seeds] for title, share in SHARES.items()
        }
    record = {"what": "confidence, merged categories, plain features", "above": module.ABOVE, "two": TWO, "one": ONE}
    record |= {"piles": PILES, "results": results}
    if chosen.show:
        print(confidence_table(record), bins_table(record, next(iter(SHARES))), merged_table(record), sep="\n")
        print(plain_table(record, next(iter(SHARES))))
    write(RECORD, record, chosen, SETTINGS)


if __name__ == "__main__":
    main()
