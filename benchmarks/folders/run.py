"""Small folders as a person has them, through the command line: writes benchmarks/folders/record.json.

    python benchmarks/folders/run.py --data ROOT --fashion FOLDER [--seeds 0 1 2 3]       the result
    python benchmarks/folders/run.py --page                                           docs/folders.md from the record

ROOT has CIFAR-100 and OmniGlot's background images (`newfound data get`), FOLDER what Debian's package
dataset-fashion-mnist installs. The folders and the cache are made in a temporary place and go again. A seed draws the
categories, the images and everything a method draws. No setting was chosen on these folders.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from make import KINDS, make

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write

from newfound.cluster.kmeans import kmeans
from newfound.data.answers import read_answers
from newfound.data.folder import read_folders
from newfound.evaluate.protocol import evaluate_unlabelled

HERE = Path(__file__).parent
SIDE = 32
BACKBONE = "efficientnet-lite0"

COMMANDS = {
    "k-means on supervised features": "--method kmeans --set network=tiny --set stage1.batch=32",
    "apl-features": "",
}
"""What is typed beside the folders and ``--novel``; apl-features is what ``discover`` chooses."""
WAYS = ("k-means on raw pixels", "k-means on supervised features", f"k-means on {BACKBONE}", "apl-features")


def command(folder: Path, way: str, seed: int, cache: Path) -> tuple[dict[str, Any], dict[str, float], dict[str, Any]]:
    """The figures of `evaluate --answers`, the seconds of `discover` (on the clock, and of CPU), and its settings."""
    run = folder / f"run-{len(list(folder.iterdir()))}"
    newfound = [sys.executable, "-m", "newfound"]
    trees = ["--labelled", folder / "known", "--unlabelled", folder / "pile", "--novel", str(_novel(folder))]
    words = ["discover", *trees, "--out", run, "--seed", str(seed), "--cache", cache, *COMMANDS[way].split()]
    began, worked = time.monotonic(), _cpu_seconds()
    subprocess.run([*newfound, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = {"clock": time.monotonic() - began, "cpu": _cpu_seconds() - worked}
    judge = [*newfound, "evaluate", run, "--answers", folder / "truth.csv", "--json"]
    figures = json.loads(subprocess.run(judge, check=True, capture_output=True).stdout)
    settings = yaml.safe_load((run / "settings.yaml").read_text())["settings"]
    return figures, seconds, settings


def _cpu_seconds() -> float:
    """Of all commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def on_pixels(folder: Path, seed: int) -> float:
    """Novel accuracy of k-means on the pixels of images of 32 x 32."""
    novel = _novel(folder)
    reading = read_folders(folder / "known", folder / "pile", n_novel=novel, size=SIDE, seed=seed, cache=None)
    pixels = reading.collection.train.images[reading.collection.n_labelled :].flatten(1).float()
    found = kmeans(pixels, novel, seed=seed).labels
    truth = read_answers(folder / "truth.csv", reading.names.unlabelled)
    return float(evaluate_unlabelled([str(number) for number in found.tolist()], truth)["accuracy"])


def _novel(folder: Path) -> int:
    return KINDS[folder.name].novel


def run_one(name: str, root: Path, seed: int, place: Path) -> dict[str, Any]:
    """Every way on one folder: accuracies, seconds of those that are commands, and their settings."""
    folder, cache = place / str(seed) / name, place / "cache" / f"{name}-{seed}"
    make(name, root, seed, folder)
    accuracy, seconds, settings = {WAYS[0]: on_pixels(folder, seed)}, {}, {}
    for way in COMMANDS:
        figures, seconds[way], settings[way] = command(folder, way, seed, cache)
        accuracy[way] = figures["unlabelled"]["accuracy"]
    accuracy[WAYS[2]] = figures["earlier"]["plain"]["accuracy"]
    row = {"seed": seed, "accuracy": {way: accuracy[way] for way in WAYS}, "settings": settings}
    print(name, {way: f"{value:.1%}" for way, value in row["accuracy"].items()}, seconds, flush=True)
    rounded = {way: {kind: round(value, 1) for kind, value in taken.items()} for way, taken in seconds.items()}
    return row | {"seconds": rounded}


def _behind(runs: list[dict[str, Any]]) -> str:
    behind = sum(run["accuracy"][WAYS[3]] < run["accuracy"][WAYS[2]] for run in runs)
    return f"{behind} of {len(runs)}"


def page(record: dict[str, Any]) -> str:
    """docs/folders.md: what the record says."""
    results, ways = record["results"], record["ways"]
    head = "".join(f" {name} |" for name in results)
    lines = [f"| novel accuracy |{head}", "|---|" + "---|" * len(results)]
    for way in ways:
        means = [statistics.mean(run["accuracy"][way] for run in found["runs"]) for found in results.values()]
        lines.append(f"| {way} |" + "".join(f" {mean:.1%} |" for mean in means))
    behind = [_behind(found["runs"]) for found in results.values()]
    lines.append("| draws in which apl-features is behind its plain features |" + "".join(f" {n} |" for n in behind))
    for way in record["commands"]:
        for kind, title in (("clock", "seconds"), ("cpu", "CPU seconds")):
            times = [statistics.mean(run["seconds"][way][kind] for run in found["runs"]) for found in results.values()]
            lines.append(f"| {title} of {way} |" + "".join(f" {seconds:.0f} |" for seconds in times))
    folders = "".join(
        f"- {name}: {found['title']}; {found['known']} categories known and {found['novel']} novel, {found['each']} "
        "images each\n"
        for name, found in results.items()
    )
    commands = "".join(
        f"- {way}: `newfound discover … {words}`\n".replace(" `\n", "`\n") for way, words in record["commands"].items()
    )
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
    "A run keeps the groups of k-means on the plain features too, and `evaluate --answers` says which are better.",
    "Supervised features are those of a small network (`network=tiny`), trained on the known images alone: the "
    "ResNet-18 of the recipe for folders takes minutes on two cores.",
    "The pretrained network has seen photographs of a thousand categories, and maybe of these: "
    "[pretrained.md](pretrained.md) says what that means.",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--fashion", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3])
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
    settings = {name: runs[0]["settings"] for name, runs in done.items()}
    for name, run in ((name, run) for name, runs in done.items() for run in runs):
        assert run.pop("settings") == settings[name], "what is chosen for a folder depends on its kind, not on the draw"
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
