"""Settings compared where they may be: on labelled classes that play the novel ones. Writes a record.

    python benchmarks/rehearsal/run.py --dataset cifar100 --data ROOT --out record.json \\
        --set stage1.epochs=30 --run base --run hard:prototypes.soft=false --run sharp:prototypes.epsilon=0.02

Each --run is a name and the settings it changes, separated by commas; --set changes all of them. The record is written
after each run, so that one that is cut short (--minutes) keeps what it has.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def run_one(dataset: str, root: Path, changes: dict[str, Any], seed: int, device: str) -> dict[str, Any]:
    """What one run gave: the novel accuracy of each stage, and how stage I's figures went."""
    import torch

    from newfound.data.sources import DATASETS, Request
    from newfound.engine.device import pick_device
    from newfound.engine.loop import Engine
    from newfound.engine.metrics import Metrics
    from newfound.figures import evaluate_run
    from newfound.methods.apl import APL
    from newfound.progress import Reporter
    from newfound.recipe import resolve_settings

    settings = resolve_settings("apl", f"apl-{dataset}", changes)
    reading = DATASETS[f"{dataset}-rehearsal"].read(Request(settings.data.size, seed, Reporter(quiet=True), root))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        metrics = Metrics(Path(folder) / "metrics.jsonl")
        engine = Engine(reading.collection, pick_device(device), seed=seed, metrics=metrics, log_every=50)
        outcome = APL(settings).fit(reading.collection, engine)
        metrics.close()
        lines = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    figures = evaluate_run(outcome.model, reading, outcome.assignments, engine, outcome.earlier, outcome.features)
    curve = [line for line in lines if line["stage"] == "stage1"]
    some = curve[:: max(1, len(curve) // 12)][:-1] + curve[-1:]
    watched = ("epoch", "ins", "cls", "pas", "label_certainty", "similarity_range", "teacher_entropy")
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return {
        "changes": changes,
        "seed": seed,
        "accuracy": {name: round(found["accuracy"], 4) for name, found in figures.get("earlier", {}).items()},
        "test": figures["test"] if outcome.earlier and "stage2-1" in outcome.earlier else None,
        "stage1": [{name: round(line[name], 4) for name in watched if name in line} for line in some],
        "seconds": round(time.monotonic() - began, 1),
        "seconds_of_stages": {name: round(value, 1) for name, value in engine.seconds.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", choices=["cifar100", "omniglot"], required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--run", action="append", default=[])
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--seed", type=int, action="append", default=[])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    import torch

    from newfound.engine.device import describe_device, pick_device
    from newfound.recipe import parse_changes

    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=HERE, check=False)
    record: dict[str, Any] = {
        "what": f"APL in rehearsal on {options.dataset}: labelled classes play the novel ones",
        "recipe": f"apl-{options.dataset}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip() or "unknown",
        "hardware": describe_device(pick_device(options.device)),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "runs": {},
    }
    began, longest = time.monotonic(), 0.0
    for seed in options.seed or [0]:
        for run in options.run or ["base"]:
            start = time.monotonic()
            if start - began + longest > 60 * options.minutes:
                print(f"no time left for {run}", flush=True)
                continue
            name, _, text = run.partition(":")
            changes = parse_changes([*options.set, *(part for part in text.split(",") if part)])
            found = run_one(options.dataset, options.data, changes, seed, options.device)
            record["runs"][f"{name}, seed {seed}"] = found
            options.out.write_text(json.dumps(record, indent=1) + "\n")
            last = found["stage1"][-1]
            print(name, seed, found["accuracy"], last, found["seconds"], flush=True)
            longest = max(longest, time.monotonic() - start)


if __name__ == "__main__":
    main()
