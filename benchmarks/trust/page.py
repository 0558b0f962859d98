"""docs/trust.md from look.json, gauges.json and reject.json:    python benchmarks/trust/page.py"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gauges
import look
import numpy as np
import reject
import uneven
from pools import POOLS

HERE = Path(__file__).parent
PARTS = {
    "look": """## Symbols or not

The share of background and of other pixels with a colour, smallest and largest of {seeds} folders, each of 100
images of three categories; and how many of them came out as they should: digits and omniglot are symbols, the
others are not. Symbols have {BACKGROUND:.0%} background or more (images below {SMALL} px {BACKGROUND_IF_SMALL:.0%})
and less than {MOST_COLOUR:.0%} colour; these bars were chosen before, on some of the images as they are.

{table}
What remains wrong: the digits' {DIGITS} px enlarged are grey blobs that have less background than clothes, which no
bar on the background can tell apart; strokes that have a colour themselves (the digits, light on black, in yellow)
count as natural. Of what is natural, clothes come nearest to the bar. `--domain` says it where the look is wrong.
""",
    "gauges": """## Warnings and what results are worth

{runs} small runs of apl-features, each in a situation that its seed draws: 4 to 12 known categories of 3 to 20 images,
3 to 8 novel ones of 2 to 150, one of them up to ten times as large as the others, and a `--novel` that is right, half
or twice the number. Some have pixels in the place of features, which do not suit them. A result is called bad if fewer
than {bad:.0%} of the images are in the right group; then a warning should be told, and of the others none. Gauges and
bars were chosen on other seeds, and so on other draws from the same data sets: for images of another kind the figures
may be worse. kmeans and apl have the same bars, which were not measured with them.

{folders}
{warnings}
Bars: few {FEW} images a category, few known {FEW_KNOWN}, strays {STRAY}, rehearsal {REHEARSED}, stability {STABLE},
parted {PARTED}. *Few known* and *largest* are not told of apl-features: in the runs that bars were
chosen on, the first was told as often of good results as of bad ones, the second of good ones alone. Whether halves
of one category lie apart, for a `--novel` that is too small, was tried on the seeds of this table and dropped: it was
told as often of good results as of bad ones.

What other bars would have done, bad results told / others told, with the rank correlation of the gauge and the
accuracy, over the runs that have the gauge:

{bars_table}
By what is difficult:

{cases}
With one large category the clusterings tend to cut it and to throw small ones together; what is found then looks like
a pile of equal categories. Of {large} such runs {large_told:.0%} are
warned of, and {large_parted:.0%} by the warning that names the halves. A `--novel` that is too small is hard to see,
since what is found then is coarser and not wrong in itself. And warnings come often: {others:.0%} of the results that
are not bad have one. They say where to look, not what is wrong; a run without a warning can be wrong, too.
""",
    "uneven": """## Categories that differ in size

{seeds} draws each, one of 3 to 8 novel categories as large as the others, three or ten times as large: accuracy of the
clusters of whitened features, before self-training, by what many clusterings agree on (*consensus*) and by what
apl-features takes (*uneven*: that, or many small clusters put together, by the silhouette;
[pretrained.md](pretrained.md)).

{table}
Candidates, silhouette and bar were chosen on other draws from the same data sets.
""",
    "reject": """## Images that fit no category

Categories are drawn anew for each of 20 seeds: known ones (with labels), novel ones (the pile), and foreign ones,
of which no image is trained on. {held_out} labelled images are held out, as `discover` does by itself. The table
has the share of *fresh* images, neither trained on nor held out, that `predict --reject` flags: of known and novel
categories it should be at most the share asked for, of foreign ones as large as possible. In brackets the smallest
and the largest of the seeds.

{folders}
{table}
**The promise holds** in the mean over seeds, for novel categories too, although held-out images are of known ones
alone: of apl-features no mean is more than {excess:.1f} points above the share asked for. A single run strays far
from it, since {held_out} held-out images say little: more of them (`--hold-out`, `--calibrate`) narrow that. **Most
strangers pass** at 0.05: of other clothes, other characters, other things in photographs a fifth is found.

Rows called *after self-training* are what apl-features did before: strangeness in the features that the categories
were found in. Whitening and self-training draw the labelled images together, and fresh images of the same
categories stay outside. So known images looked nearly as strange as foreign ones, most of all in photographs, and
images of novel categories were hardly ever flagged. That was found and changed on other seeds; strangeness itself
was chosen on scikit-learn's digits ([export.md](export.md)). Methods that train their network on the labels
(kmeans) have no such features.
""",
}


def page(records: dict[str, Any]) -> str:
    """The page that the records make."""
    made = [
        f"{name}.json: commit {record['commit'][:12]}, {record['date'][:10]}, {record['hardware']}, PyTorch "
        f"{record['versions']['torch']}"
        for name, record in records.items()
    ]
    head = (
        "# Look, trust and strangers, in figures\n\n"
        "Made by benchmarks/trust/page.py from the records beside it, which benchmarks/trust/look.py, gauges.py, "
        "uneven.py and reject.py wrote.\n\nData sets with labels play the part of people's own images: "
        "scikit-learn's digits, Fashion-MNIST, five of OmniGlot's background alphabets, CIFAR-10's classes 0 to 4 and "
        "CIFAR-100's 0 to 79; what is novel in the paper's splits is not read. Features are EfficientNet-Lite0's, "
        "except for kmeans.\n\n"
    )
    texts = [PARTS[name].format(**FACTS[name](record)) for name, record in records.items()]
    return head + "\n".join(texts) + "\n" + "".join(f"- {line}\n" for line in made)


def _look(record: dict[str, Any]) -> dict[str, Any]:
    side = record["results"]["digits"]["side"]
    return record["bars"] | {"seeds": record["seeds"], "table": look.table(record), "DIGITS": side}


def _gauges(record: dict[str, Any]) -> dict[str, Any]:
    folders = "".join(
        f"- {name}: {_title(name)} {len(found['runs'])} runs\n" for name, found in record["results"].items()
    )
    tables = {"warnings": gauges.warnings_table(record), "bars_table": gauges.bars_table(record)}
    tables |= {"cases": gauges.cases_table(record), "folders": folders}
    runs = gauges.every_run(record)
    large = [run["told"] for run in runs if gauges.case_of(run) == gauges.CASES[2]]
    facts = {
        "runs": len(runs),
        "bad": record["bad"],
        "large": len(large),
        "large_told": np.mean([bool(told) for told in large]),
        "large_parted": np.mean(["parted" in told for told in large]),
        "others": np.mean([bool(run["told"]) for run in runs if run["accuracy"] >= record["bad"]]),
    }
    return record["bars"] | tables | facts


def _reject(record: dict[str, Any]) -> dict[str, Any]:
    results = record["results"]
    held_out = {run["held_out"] for found in results.values() for run in found["runs"]}
    folders = "".join(
        f"- {name}: {_title(name)} {found['known']} categories known, {found['novel']} novel, {found['foreign']} "
        f"foreign; {found['train']} images of a category to train on; {len(found['runs'])} seeds\n"
        for name, found in results.items()
    )
    excess = max(
        np.mean([run["rejected"]["apl-features"][str(share)][part] for run in found["runs"]]) - share
        for found in results.values()
        for share in record["shares"]
        for part in ("known", "novel")
        if "apl-features" in found["runs"][0]["rejected"]
    )
    return {
        "held_out": " or ".join(map(str, sorted(held_out))),
        "folders": folders,
        "table": reject.table(record),
        "excess": 100 * excess,
    }


def _uneven(record: dict[str, Any]) -> dict[str, Any]:
    return {"table": uneven.table(record), "seeds": len(next(iter(record["results"].values()))["1"])}


FACTS = {"look": _look, "gauges": _gauges, "uneven": _uneven, "reject": _reject}


def _title(name: str) -> str:
    return str(POOLS[name.partition(",")[0]].__doc__)


def read() -> dict[str, Any]:
    return {name: json.loads((HERE / f"{name}.json").read_text()) for name in PARTS}


if __name__ == "__main__":
    (HERE.parents[1] / "docs" / "trust.md").write_text(page(read()))
