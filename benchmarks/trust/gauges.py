"""How the warnings of a run relate to what its result is worth: writes gauges.json.

    python benchmarks/trust/gauges.py --data ROOT --fashion FOLDER [--cache CACHE] [--seeds 40]

A seed draws a situation as people may have it: a few known and novel categories, few or many images of each, one novel
category up to ten times as large as the others, and now and then a --novel of half or twice the number. apl-features
runs on it, and what the warnings said is held against the share of the images that are in the right group. Gauges
and bars were chosen on the seeds 600 to 629 and 1000 to 1029, which the record does not have; stability, which became
another gauge when clusters of unequal size did, and its bar on the seeds 1000 to 1015.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from pools import POOLS, Pool, embed, options, write
from scipy.stats import spearmanr

from newfound.data.collection import Pool as Rows
from newfound.data.collection import Reading, assemble
from newfound.data.vectors import VectorStore
from newfound.engine.loop import Engine
from newfound.evaluate.accuracy import clustering_figures
from newfound.methods import get_method
from newfound.methods.base import run_method
from newfound.plan.recipe import resolve_settings
from newfound.trust import warnings
from newfound.trust.gauges import gauge

RECORD = Path(__file__).parent / "gauges.json"
METHOD = "apl-features"
SETTINGS: Any = resolve_settings(METHOD, METHOD, {})
KINDS = ("few", "few known", "rehearsal", "stability", "parted", "strays", "largest")
BAD = 0.6
"""A result with a smaller share of images in the right group is one to be warned of."""
BARS = (0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)
CASES = (
    "equal sizes, right number",
    "one category up to 5 times as large",
    "one category 5 to 10 times as large",
    "half the number asked for",
    "twice the number asked for",
)
MOST = {"fashion": 150, "omniglot": 20, "cifar100": 60}
"""Images there are of a category."""
PIXELS = ("omniglot", "cifar100")
"""Of these also images of 16 x 16 pixels in the place of features, which do not suit them."""


@dataclass(frozen=True)
class Situation:
    """``sizes`` are those of the novel categories in the pile, ``asked`` the number that is looked for."""

    known: int
    known_each: int
    sizes: tuple[int, ...]
    asked: int


def situation(name: str, rng: np.random.Generator) -> Situation:
    few = name == "fashion"  # ten categories in all
    known, novel = int(rng.integers(4, 7 if few else 13)), int(rng.integers(3, 5 if few else 9))
    times = int(rng.choice([1, 1, 3, 10]))
    largest = min(MOST[name], int(rng.choice([10, 20, 40, 60]) * max(1, times // 2)))
    sizes = (largest, *[max(2, largest // times)] * (novel - 1))
    asked = max(2, int(novel * rng.choice([0.5, 1, 1, 1, 2])))
    return Situation(known, int(min(MOST[name], rng.choice([3, 5, 10, 20]))), sizes, min(asked, sum(sizes)))


def gather(pool: Pool, store: VectorStore, what: Situation, rng: np.random.Generator, seed: int) -> Reading:
    chosen = rng.permutation(np.unique(pool.categories))[: what.known + len(what.sizes)]
    sizes = [what.known_each] * what.known + list(what.sizes)
    rows = [rng.permutation(pool.of(category))[:n] for category, n in zip(chosen, sizes, strict=True)]
    every = Rows(store, [str(row) for row in range(len(store))], pool.categories.tolist())
    parts = np.concatenate(rows[: what.known]), np.concatenate(rows[what.known :])
    return assemble(every, labelled=parts[0], unlabelled=parts[1], n_novel=what.asked, seed=seed)


def run_one(name: str, pool: Pool, store: VectorStore, seed: int) -> dict[str, Any]:
    """The situation of that seed, what the gauges and the warnings said of it, and the figures of the result."""
    rng = np.random.default_rng([seed, 0x7A46])
    what = situation(name, rng)
    reading, began = gather(pool, store, what, rng, seed), time.monotonic()
    collection = reading.collection
    engine = Engine(collection, torch.device("cpu"), seed=seed)
    outcome = run_method(SETTINGS, collection, engine)
    gauges = gauge(collection, outcome, get_method(METHOD)(SETTINGS), seed)
    told = warnings.doubts(collection, outcome, gauges)
    assert reading.answers is not None
    truth = np.unique(np.array(reading.answers.unlabelled), return_inverse=True)[1]
    return {
        "seed": seed,
        **asdict(what),
        "gauges": {key: round(value, 4) for key, value in gauges.items()},
        "told": list(told),
        **{key: round(value, 4) for key, value in clustering_figures(outcome.assignments, truth).items()},
        "seconds": round(time.monotonic() - began, 1),
    }


def warnings_table(record: dict[str, Any]) -> str:
    """For every warning the shares of bad and of other results it was told of, over all data sets."""
    runs = every_run(record)
    bad = np.array([run["accuracy"] < record["bad"] for run in runs])
    head = f"| warning | of {bad.sum()} bad results | of {(~bad).sum()} others | mean accuracy where told | where not |"
    lines = [head, "|---|---|---|---|---|"]
    for kind in (*KINDS, "any of them"):
        told = np.array([kind in run["told"] or (kind == "any of them" and bool(run["told"])) for run in runs])
        means = [_mean([run["accuracy"] for run, one in zip(runs, told, strict=True) if one == way]) for way in (1, 0)]
        lines.append(f"| {kind} | {told[bad].mean():.0%} | {told[~bad].mean():.0%} | {means[0]} | {means[1]} |")
    return "\n".join(lines) + "\n"


def bars_table(record: dict[str, Any]) -> str:
    """For every gauge its rank correlation with the accuracy, and what other bars would have told."""
    lines = ["| gauge | rank correlation | " + " | ".join(map(str, BARS)) + " |"]
    lines.append("|---|---|" + "---|" * len(BARS))
    for name in ("rehearsal", "stability", "parted"):
        runs = [run for run in every_run(record) if name in run["gauges"]]
        value = np.array([run["gauges"][name] for run in runs])
        accuracy = np.array([run["accuracy"] for run in runs])
        bad = accuracy < record["bad"]
        cells = [f"{(value[bad] < bar).mean():.0%} / {(value[~bad] < bar).mean():.0%}" for bar in BARS]
        lines.append(f"| {name} | {spearmanr(value, accuracy).statistic:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def cases_table(record: dict[str, Any]) -> str:
    """Accuracy and warnings by what is difficult in a situation."""
    lines = ["| situation | runs | mean accuracy | warned of | by parted | by stability |", "|---|---|---|---|---|---|"]
    for case in CASES:
        runs = [run for run in every_run(record) if case_of(run) == case]
        told = [[bool(run["told"]), "parted" in run["told"], "stability" in run["told"]] for run in runs]
        cells = " | ".join(_mean([one[i] for one in told]) for i in range(3))
        lines.append(f"| {case} | {len(runs)} | {_mean([run['accuracy'] for run in runs])} | {cells} |")
    return "\n".join(lines) + "\n"


def case_of(run: dict[str, Any]) -> str:
    if run["asked"] != len(run["sizes"]):
        return CASES[3] if run["asked"] < len(run["sizes"]) else CASES[4]
    times = run["sizes"][0] / run["sizes"][-1]
    return CASES[0] if times == 1 else CASES[1] if times < 5 else CASES[2]


def every_run(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [run for found in record["results"].values() for run in found["runs"]]


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.0%}" if values else "–"


def main() -> None:
    chosen = options(__doc__, seeds=40)
    results = {}
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    for name in MOST:
        pool = POOLS[name](chosen.roots[name])
        stores = {name: VectorStore(torch.from_numpy(embed(pool, chosen.cache)))}
        if name in PIXELS:
            small = F.interpolate(pool.images.images.float() / 255, (16, 16), mode="area")
            stores[f"{name}, pixels"] = VectorStore(small.flatten(1))
        for key, store in stores.items():
            some = seeds if key == name else seeds[: len(seeds) // 4]
            results[key] = {"title": POOLS[name].__doc__, "runs": [run_one(name, pool, store, seed) for seed in some]}
    names = ("FEW", "FEW_KNOWN", "STRAY", "STABLE", "REHEARSED", "PARTED")
    bars = {name: getattr(warnings, name) for name in names}
    record = {"what": "warnings and accuracy", "bad": BAD, "bars": bars, "results": results}
    write(RECORD, record, chosen, SETTINGS)


if __name__ == "__main__":
    main()
