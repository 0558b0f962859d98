"""Write the README's tables of results from the records.

python tools/readme.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks" / "tables"))
from rows import Records, Row, Tables, accuracies, minutes_of, of_row, read_records, read_tables  # noqa: E402

BEGIN, END = "<!-- results: made by tools/readme.py -->\n", "<!-- end of results -->"
PAPER = {
    "cifar10": "CIFAR-10, 5 classes known and 5 novel",
    "cifar100": "CIFAR-100, 80 known and 20 novel",
    "cifar100-50": "CIFAR-100, 50 known and 50 novel",
    "omniglot": "OmniGlot, 964 characters known and 659 novel",
}
METHODS = ("kmeans", "apl", "uno", "iic", "apl-plus")
FOLDERS = {
    "fashion": "clothes (Fashion-MNIST)",
    "omniglot": "characters (OmniGlot)",
    "cifar": "photographs (CIFAR-100)",
}


def large_sets(tables: Tables, records: Records) -> str:
    """The paper's data sets as Markdown: published figures beside ours; those without a record are left out."""
    text = f"| | APL, published | best published | {' | '.join(f'`{name}`' for name in METHODS)} |\n"
    text += "|---" * (len(METHODS) + 3) + "|\n"
    seeds: set[int] = set()
    for data, title in PAPER.items():
        rows = {name: tables.rows.get(f"{data}-{name}") for name in METHODS}
        found = {name: of_row(row, tables, records) for name, row in rows.items() if row}
        cells = [_cell(row, found[name]) if row else "" for name, row in rows.items()]
        if any(found.values()):
            seeds |= {len(several) for several in found.values() if several}
            published = rows["apl"].published if rows["apl"] else ""
            text += f"| {' | '.join([title, published or '–', _best(data, tables), *cells])} |\n"
    runs = f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else f"{min(seeds)}"
    return text + (
        "\nEach method trains its network from nothing, with these images alone. In brackets: minutes on one NVIDIA\n"
        f"H200. –: not run yet. Ours are of {runs} seeds, the APL paper's of ten. `kmeans` clusters the features of a\n"
        "classifier; `apl-plus` is ours.\n"
    )


def _cell(row: Row, found: list[dict[str, Any]]) -> str:
    """A method's mean accuracy, and the minutes of a run where it was run on a GPU."""
    values = accuracies(row, found)
    if not values:
        return "–"
    timed = [
        minutes_of(record)
        for record in found
        if not record["hardware"].startswith("cpu") and not record.get("gpu_shared")
    ]
    return f"{mean(values):.1f}" + (f" ({mean(timed):.0f})" if timed else "")


def _best(data: str, tables: Tables) -> str:
    """The best figure that anybody published for the data set, and whose it is."""
    rows = [row for row in tables.rows.values() if row.dataset == data and row.published]
    best = max(rows, key=lambda row: float(row.published.split()[0]))
    return f"{best.published.split()[0]} ({'APL' if best.source == 'paper' else best.source})"


def folders(results: dict[str, Any]) -> str:
    """Small folders as Markdown."""
    text = "| a small folder of | k-means on pixels | k-means on the network's features | `discover` |\n"
    text += "|---|---|---|---|\n"
    for data, title in FOLDERS.items():
        runs = [run["accuracy"] for run in results[data]["runs"]]
        ways = ("k-means on raw pixels", "k-means on efficientnet-lite0", "apl-features")
        text += f"| {title} | {' | '.join(f'{100 * mean(run[way] for run in runs):.1f}' for way in ways)} |\n"
    draws = len(results["cifar"]["runs"])
    return text + (
        f"\nMeans of {draws} draws. A run takes about a minute on a CPU. The network is the small pretrained one that\n"
        "is installed with newfound.\n"
    )


def filled(text: str) -> str:
    """The README with its tables made anew."""
    place = ROOT / "benchmarks"
    small = json.loads((place / "folders" / "record.json").read_text())["results"]
    made = f"{large_sets(read_tables(), read_records(place / 'tables'))}\n{folders(small)}"
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(filled(path.read_text()))
