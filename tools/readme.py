"""Write the README's table of results from the records.

python tools/readme.py
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- results: made by tools/readme.py -->\n", "<!-- end of results -->"
PAPER = {
    "cifar10": "CIFAR-10, 5 classes known and 5 novel",
    "cifar100": "CIFAR-100, 80 known and 20 novel",
    "omniglot": "OmniGlot, 964 characters known and 659 novel",
}
FOLDERS = {
    "fashion": "of clothes (Fashion-MNIST)",
    "omniglot": "of characters (OmniGlot)",
    "cifar": "of photographs (CIFAR-100)",
}


def table() -> str:
    """The paper's data sets, and small folders, as Markdown."""
    recorded = json.loads((ROOT / "newfound" / "methods" / "recorded.json").read_text())
    folders = json.loads((ROOT / "benchmarks" / "folders" / "record.json").read_text())["results"]
    rows = ["| | k-means on features | APL, published | APL, here | best here |", "|---|---|---|---|---|"]
    seeds = set()
    for data, title in PAPER.items():
        ours, base = recorded["apl"][data], recorded["kmeans"][data]
        accuracy = {name: sets[data]["accuracy"] for name, sets in recorded.items() if data in sets}
        best = max(accuracy, key=accuracy.__getitem__)
        seeds |= {found["seeds"] for found in (base, ours, recorded[best][data])}
        named = f"{accuracy[best]:.1f} (`{best}`)"
        rows.append(f"| {title} | {base['accuracy']:.1f} | {ours['published']} | {ours['accuracy']:.1f} | {named} |")
    for data, title in FOLDERS.items():
        runs = [run["accuracy"] for run in folders[data]["runs"]]
        plain, ours = (
            100 * mean(run[way] for run in runs) for way in ("k-means on efficientnet-lite0", "apl-features")
        )
        rows.append(f"| a small folder {title} | {plain:.1f} | | | {ours:.1f} (`apl-features`) |")
    draws = len(folders["cifar"]["runs"])
    runs = f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else f"{min(seeds)}"
    note = (
        f"The first three rows are trained from nothing on a GPU, with {runs} seeds (the paper: ten), beside\n"
        "k-means on a classifier's features. The others are what `discover` does with small folders on a CPU in a\n"
        f"minute, means of {draws} draws, beside k-means on the same pretrained network."
    )
    return "\n".join(rows) + f"\n\n{note}\n\n"


def filled(text: str) -> str:
    """The README with its table made anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}{END}{after}"


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(filled(path.read_text()))
