"""Small folders as a person has them, through the command line: writes benchmarks/folders/record.json.

    python benchmarks/folders/run.py --data ROOT --fashion FOLDER [--seeds 0 1]       the result
    python benchmarks/folders/run.py --page                                           docs/folders.md from the record

ROOT has CIFAR-100 and OmniGlot's background images (`newfound data get`), FOLDER what Debian's package
dataset-fashion-mnist installs. The folders and the cache are made in a temporary place and go again. A seed draws the
categories, the images and everything a method draws. No setting was chosen on these folders.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import yaml
from make import KINDS, make

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write

from newfound.cluster.kmeans import kmeans
from newfound.data.answers import read_answers
from newfound.data.collection import Reading
from newfound.data.folder import read_folders
from newfound.engine.loop import Engine
from newfound.evaluate.protocol import evaluate_unlabelled
from newfound.methods.base import run_method
from newfound.plan.recipe import resolve_settings

HERE = Path(__file__).parent
SIDE = 32
BACKBONE = "efficientnet-lite0"

COMMANDS = {
    "k-means on supervised features": "--method kmeans --set network=tiny --set stage1.batch=32",
    "apl-features": f"--backbone {BACKBONE}",
}
WAYS = ("k-means on raw pixels", "k-means on supervised features", f"k-means on {BACKBONE}", "apl-features")


def command(folder: Path, way: str, seed: int, cache: Path) -> tuple[float, float, dict[str, Any]]:
    """Novel accuracy by `discover` and `evaluate --answers`, the seconds that `discover` took, and its settings."""
    run = folder / f"run-{len(list(folder.iterdir()))}"
    newfound = [sys.executable, "-m", "newfound"]
    trees = ["--labelled", folder / "known", "--unlabelled", folder / "pile", "--novel", str(_novel(folder))]
    words = ["discover", *trees, "--out", run, "--seed", str(seed), "--cache", cache, *COMMANDS[way].split()]
    began = time.monotonic()
    subprocess.run([*newfound, *words], check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - began
    judge = [*newfound, "evaluate", run, "--answers", folder / "truth.csv", "--json"]
    figures = json.loads(subprocess.run(judge, check=True, capture_output=True).stdout)
    settings = yaml.safe_load((run / "settings.yaml").read_text())["settings"]
    return figures["unlabelled"]["accuracy"], seconds, settings


def on_pixels(folder: Path, seed: int) -> tuple[float, float]:
    """Novel accuracy of k-means on the pixels of images of 32 x 32, and its seconds."""
    began = time.monotonic()
    reading = _read(folder, SIDE, seed, None)
    pixels = reading.collection.train.images[reading.collection.n_labelled :].flatten(1).float()
    found = kmeans(pixels, _novel(folder), seed=seed).labels
    return _judge(folder, reading, found.tolist()), time.monotonic() - began


def on_plain_features(folder: Path, seed: int, cache: Path) -> float:
    """Novel accuracy of k-means on the pretrained network's features, which apl-features left in the cache."""
    settings: Any = resolve_settings("apl-features", "apl-features", {"network": BACKBONE, "stage2.epochs": 1})
    reading = _read(folder, settings.data.size, seed, cache)
    engine = Engine(reading.collection, torch.device("cpu"), seed=seed, cache=cache)
    outcome = run_method(settings, reading.collection, engine)
    return _judge(folder, reading, outcome.earlier["plain"].tolist())


def _read(folder: Path, size: int, seed: int, cache: Path | None) -> Reading:
    trees = folder / "known", folder / "pile"
    return read_folders(*trees, n_novel=_novel(folder), size=size, seed=seed, cache=cache)


def _novel(folder: Path) -> int:
    return KINDS[folder.name].novel


def _judge(folder: Path, reading: Reading, found: list[int]) -> float:
    truth = read_answers(folder / "truth.csv", reading.names.unlabelled)
    return float(evaluate_unlabelled([str(number) for number in found], truth)["accuracy"])


def run_one(name: str, root: Path, seed: int, place: Path) -> dict[str, Any]:
    """Every way on one folder: accuracies, seconds of those that are commands, and their settings."""
    folder, cache = place / str(seed) / name, place / "cache" / f"{name}-{seed}"
    make(name, root, seed, folder)
    accuracy, seconds, settings = {}, {}, {}
    accuracy[WAYS[0]], seconds[WAYS[0]] = on_pixels(folder, seed)
    for way in COMMANDS:
        accuracy[way], seconds[way], settings[way] = command(folder, way, seed, cache)
    accuracy[WAYS[2]] = on_plain_features(folder, seed, cache)
    row = {"seed": seed, "accuracy": {way: accuracy[way] for way in WAYS}, "settings": settings}
    print(name, {way: f"{value:.1%}" for way, value in row["accuracy"].items()}, seconds, flush=True)
    return row | {"seconds": {way: round(value, 1) for way, value in seconds.items()}}


def page(record: dict[str, Any]) -> str:
    """docs/folders.md: what the record says."""
    results, ways = record["results"], record["ways"]
    head = "".join(f" {name} |" for name in results)
    lines = [f"| novel accuracy |{head}", "|---|" + "---|" * len(results)]
    for way in ways:
        means = [statistics.mean(run["accuracy"][way] for run in found["runs"]) for found in results.values()]
        lines.append(f"| {way} |" + "".join(f" {mean:.1%} |" for mean in means))
    for way in record["commands"]:
        times = [statistics.mean(run["seconds"][way] for run in found["runs"]) for found in results.values()]
        lines.append(f"| seconds of {way} |" + "".join(f" {seconds:.0f} |" for seconds in times))
    folders = "".join(
        f"- {name}: {found['title']}; {found['known']} categories known and {found['novel']} novel, {found['each']} "
        "images each\n"
        for name, found in results.items()
    )
    commands = "".join(f"- {way}: `newfound discover … {words}`\n" for way, words in record["commands"].items())
    seeds = len(next(iter(results.values()))["runs"])
    return (
        "# Small folders, in figures\n\n"
        "Made from benchmarks/folders/record.json by benchmarks/folders/run.py --page.\n\n"
        "Folders as people have them: a few dozen images a category, through the command line (`discover`, then "
        f"`evaluate --answers`). Means over {seeds} seeds, each of which draws categories and images anew; with a pile "
        "this small two draws differ by many points, and a row is no more than a hint. "
        f"Hardware: {record['hardware']}; PyTorch {record['versions']['torch']}; commit {record['commit'][:12]}, "
        f"{record['date'][:10]}. The exact settings and every single run are in the record.\n\n"
        + "\n".join(lines)
        + f"\n\n{folders}\nWhat was typed:\n\n{commands}"
        + "".join(f"\n{note}\n" for note in record["notes"])
    )


NOTES = [
    "Supervised features are those of a small network (`network=tiny`), trained on the known images alone: the "
    "ResNet-18 of the recipe for folders takes minutes on two cores.",
    "The pretrained network has seen photographs of a thousand categories, and maybe of these: "
    "[pretrained.md](pretrained.md) says what that means.",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--fashion", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--out", type=Path, default=HERE / "record.json")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.page:
        (HERE.parents[1] / "docs" / "folders.md").write_text(page(json.loads(options.out.read_text())))
        return
    if not options.data or not options.fashion:
        parser.error("--data and --fashion say where the images are")
    roots = {"fashion": options.fashion, "omniglot": options.data, "cifar": options.data}
    with tempfile.TemporaryDirectory() as place:
        done = {name: [run_one(name, roots[name], seed, Path(place)) for seed in options.seeds] for name in KINDS}
    settings = {way: done["cifar"][0]["settings"][way] for way in COMMANDS}
    for run in (run for runs in done.values() for run in runs):
        assert run.pop("settings") == settings
    record = {
        "what": "novel accuracy on small folders",
        **begin(settings=settings, seed=options.seeds),
        "ways": WAYS,
        "commands": COMMANDS,
        "results": {name: {**vars(KINDS[name]), "runs": runs} for name, runs in done.items()},
        "notes": NOTES,
    }
    write(options.out, record)


if __name__ == "__main__":
    main()
