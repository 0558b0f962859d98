"""docs/trust.md (its text is trust.md) and docs/trust-figures.md, from the records beside this file: call
`python benchmarks/trust/page.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import confidence
import gauges
import learned
import look
import numpy as np
import reject
import uneven
import within
from pools import POOLS

from newfound.cluster.fixed import FINER

HERE = Path(__file__).parent
PARTS = {
    "confidence": """## Confidence

Piles of the sizes of [folders.md](folders.md), {seeds} draws each, found by apl-features:

{piles}
The run looks for the right number of categories, and once more for half of it. *Before* is the model's own
probability, *after* is calibrated confidence. AUROC is the probability that a right image has more confidence than a
wrong one. The calibration error is the mean difference between confidence and the share of right images, in ten bins
of confidence.

{confidence_table}
With the right number, of the images with a calibrated confidence in each bin so many are right:

{bins_table}
How it is calibrated: a third of the known categories at a time is hidden in the pile, the others whiten the features,
and k-means looks for as many categories more. A hidden image counts as right if it is in the group of its category, and
that group holds more of the category than of the pile. Logistic regression then gives the probability of being right
from the margin: an image's cosine with the mean of its category, less that with the next one, in the features before
self-training. This needs features that no label has touched. So it works with a pretrained network or given features,
two known categories and 20 known images; elsewhere confidence stays the model's own and is called not calibrated.

## Two categories in one

The same runs. A found category counts as two if its second true category has {two:.0%} of its images or more, and as
one if it has at most {one:.0%}; what lies between is left out.

{merged_table}
The bar, {above} deviations above the mean spread of known categories, and the spread itself were chosen on other seeds
(600 to 605), where halves that lie apart told less. The warning does not find categories that are more alike than the
images of one known category.

## Plain features

Is k-means on the plain features of the same network better than apl-features? With the right number of categories, in
the same runs. The last two columns say how often the rehearsal on known categories would have chosen the better of the
two, and how often the worse.

{plain_table}
So the rehearsal does not choose: a run keeps the result of the method and has the plain groups beside it
([pretrained.md](pretrained.md)).
""",
    "gauges": """## Warnings

{runs} small runs of apl-features. Each seed draws a situation: 4 to 12 known categories of 3 to 20 images, 3 to 8 novel
ones of 2 to 150, one of them up to ten times as large as the others, and a `--novel` that is right, half or twice the
number. Some runs have pixels in the place of features, which do not suit them. A result is called bad if fewer than
{bad:.0%} of the images are in the right group. Ideally all bad results have a warning and no other has. Gauges and bars
were chosen on other seeds, and so on other draws from the same data sets; for images of another kind the figures may be
worse. kmeans and apl have the same bars, which were not measured with them. The warning of two categories in one is
newer than this record.

{folders}
{warnings}
Bars: few {FEW} images a category, few known {FEW_KNOWN}, strays {STRAY}, rehearsal {REHEARSED}, stability {STABLE},
parted {PARTED}. apl-features does not tell *few known* and *largest*: in the runs that bars were chosen on, the first
came as often with good results as with bad ones, the second with good ones alone.

Other bars, as share of bad results told / share of others told, with the rank correlation of gauge and accuracy, over
the runs that have the gauge:

{bars_table}
By situation:

{cases}
With one large category the clustering tends to cut it and to join small ones; the result then looks like a pile of
equal categories. Of {large} such runs {large_told:.0%} have a warning, and {large_parted:.0%} have the one that names
the halves. Warnings come often: {others:.0%} of the results that are not bad have one. They say where to look, not what
is wrong. A run without a warning can be wrong, too.
""",
    "uneven": """## Categories that differ in size

{seeds} draws each; one of 3 to 8 novel categories is as large as the others, three times or ten times as large. The
table has the accuracy of the clusters of whitened features before self-training: by what many clusterings agree on
(*consensus*), and by what apl-features takes (*uneven*: that, or many small clusters put together, by the silhouette;
[pretrained.md](pretrained.md)).

{table}
Candidates, silhouette and bar were chosen on other draws from the same data sets.
""",
    "reject": """## Images that fit no category

Each of 20 seeds draws known categories (with labels), novel ones (the pile), and foreign ones, of which no image is
trained on. {held_out} labelled images are held out, as `discover` does by itself. The table has the share of *fresh*
images, neither trained on nor held out, that `predict --reject` flags. Of known and novel categories it should be at
most the share asked for, of foreign ones as large as possible. In brackets are the smallest and the largest of the
seeds.

{folders}
{table}
**The promise holds** in the mean over seeds, for novel categories too, although held-out images are of known ones
alone: of apl-features no mean is more than {excess:.1f} points above the share asked for. A single run can be far from
it, since {held_out} held-out images say little; more of them (`--hold-out`, `--calibrate`) help. **Most strangers
pass** at 0.05: a fifth of other clothes, other characters and other things in photographs is found.

Rows called *after self-training* measure strangeness in the features that the categories were found in, as apl-features
once did. Whitening and self-training draw the labelled images together, and fresh images of the same categories stay
outside. So known images looked nearly as strange as foreign ones, most of all in photographs, and images of novel
categories were hardly ever flagged. That was found and changed on other seeds; strangeness itself was chosen on
scikit-learn's digits ([export.md](export.md)). Methods that train their network on the labels (kmeans) have no such
features.
""",
    "within": """## Known categories in the pile

A run without `--mixed` gives every image of the pile a novel category. The gauge *within* says how much of the pile
lies within known categories: labelled images and the pile are clustered together, with the known categories as
clusters to which their labelled images belong, and {FINER} new clusters for each category that is looked for. It is the
share of the pile that joins known categories. From {bar:.0%} on a warning names `--mixed`.

{n} situations: {data}; 4 to 20 known categories of 10 to 40 labelled images, 3 to 12 novel ones of 15 to 40, and a
`--novel` that is right, half or twice the number. The columns say how often the gauge reaches each bar.

{table}
In the first row a warning is a false alarm: {false:.0%} at {bar:.0%}, {right} of {right_runs} with the right number or
more, {half} of {half_runs} with half of it, where novel categories that have no cluster of their own join known ones.
The number of clusters and the bar were chosen on other seeds (from 300 on).
""",
    "learned": """### Where the run trains its own network

By learned features the warning comes from {bar:.0%} on. {n} runs of {methods}, {seconds:.0f} seconds of training each,
with and without known images in the pile:

{table}
Where little has been learned, as in so short a time from photographs, a part of any pile lies within known categories,
and the gauge says little about the images. The bar was chosen on other draws (seeds 710 and 711, not recorded), where 2
of 18 piles without known images reached it, and 10 of 18 with them.
""",
    "look": """## Symbols or not

The share of background, and of other pixels with a colour: smallest and largest of {seeds} folders, each of 100 images
of three categories; and how many folders came out right. digits and omniglot are symbols, the others are not. Symbols
have {BACKGROUND:.0%} background or more (images below {SMALL} px {BACKGROUND_IF_SMALL:.0%}) and less than
{MOST_COLOUR:.0%} colour. These bars were chosen before, on some of the images as they are.

{table}
What remains wrong: the digits' {DIGITS} px enlarged are grey blobs that have less background than clothes, which no bar
on the background can tell apart. Strokes that have a colour themselves (the digits, light on black, in yellow) count
as natural. Of what is natural, clothes come nearest to the bar. Where the look is wrong, say it with `--domain`.
""",
}

FIGURES = """# Figures on trust

What is behind [when to trust a result](trust.md). benchmarks/trust/page.py makes this page from the records beside it,
which the scripts of the same names wrote. Data sets with labels play the part of people's own images: scikit-learn's
digits, Fashion-MNIST, five of OmniGlot's background alphabets, CIFAR-10's classes 0 to 4 and CIFAR-100's 0 to 79; what
is novel in the paper's splits is not read. Features are EfficientNet-Lite0's, except for kmeans.

"""


def pages(records: dict[str, Any]) -> dict[str, str]:
    """The pages that the records make, by name."""
    advice = (HERE / "trust.md").read_text().format(**_verdict(records))
    return {"trust.md": advice, "trust-figures.md": _figures(records)}


def _figures(records: dict[str, Any]) -> str:
    made = [
        f"{name}.json: commit {record['commit'][:12]}, {record['date'][:10]}, {record['hardware']}, PyTorch "
        f"{record['versions']['torch']}"
        for name, record in records.items()
    ]
    texts = [PARTS[name].format(**FACTS[name](record)) for name, record in records.items()]
    return FIGURES + "\n".join(texts) + "\n" + "".join(f"- {line}\n" for line in made)


def _verdict(records: dict[str, Any]) -> dict[str, Any]:
    record, warned = records["confidence"], gauges.every_run(records["gauges"])
    right, half = (confidence.every_run(record, share) for share in confidence.SHARES)
    first = next(iter(confidence.SHARES))
    (two, one), (half_two, half_one) = (confidence.told_of(runs, record) for runs in (right, half))
    better = {
        name: confidence.reliability(found[first], "after") < confidence.reliability(found[first], "before")
        for name, found in record["results"].items()
    }
    bad = [bool(run["told"]) for run in warned if run["accuracy"] < records["gauges"]["bad"]]
    others = [bool(run["told"]) for run in warned if run["accuracy"] >= records["gauges"]["bad"]]
    falls = [_fall(found) for found in records["uneven"]["results"].values()]
    return records["gauges"]["bars"] | {
        "WITHIN": records["within"]["bar"],
        "WITHIN_LEARNED": records["learned"]["bar"],
        "above": record["above"],
        "bad": records["gauges"]["bad"],
        "fall_low": f"{100 * min(falls):.0f}",
        "fall_high": f"{100 * max(falls):.0f}",
        "before": confidence.mean(right, "before", "mean"),
        "after": confidence.mean(right, "after", "mean"),
        "auroc": confidence.mean(right, "after", "auroc"),
        "accuracy": np.mean([run["accuracy"] for run in right]),
        "half_after": confidence.mean(half, "after", "mean"),
        "half_accuracy": np.mean([run["accuracy"] for run in half]),
        "hit": sum(two),
        "twos": len(two),
        "half_hit": np.mean(half_two),
        "wolf": np.mean(one + half_one),
        "gap_before": 100 * confidence.gap(right, "before"),
        "gap_after": 100 * confidence.gap(right, "after"),
        "auroc_before": confidence.mean(right, "before", "auroc"),
        "better": " and ".join(name for name, is_better in better.items() if is_better) or "none",
        "worse": " and ".join(name for name, is_better in better.items() if not is_better) or "none",
        "plain": sum(run["plain"] > run["accuracy"] for run in right),
        "plain_runs": len(right),
        "bad_told": np.mean(bad),
        "others": np.mean(others),
    }


def _fall(found: dict[str, Any]) -> float:
    """By how much accuracy is lower where a category is ten times as large as the others, than where none is."""
    return float(np.subtract(*(np.mean([run["uneven"] for run in found[times]]) for times in ("1", "10"))))


def _confidence(record: dict[str, Any]) -> dict[str, Any]:
    share = next(iter(confidence.SHARES))
    piles = [
        f"- {name}: {known} known and {novel} novel categories of {each} images\n"
        for name, (known, novel, each) in record["piles"].items()
    ]
    return {
        "seeds": len(record["seed"]),
        "piles": "".join(piles),
        "above": record["above"],
        "two": record["two"],
        "one": record["one"],
        "confidence_table": confidence.confidence_table(record),
        "bins_table": confidence.bins_table(record, share),
        "merged_table": confidence.merged_table(record),
        "plain_table": confidence.plain_table(record, share),
    }


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


def _within(record: dict[str, Any]) -> dict[str, Any]:
    pure = [run for run in record["runs"] if run["old"] == 0]
    told = [run["within"] >= record["bar"] for run in pure]
    half = [one for run, one in zip(pure, told, strict=True) if run["asked"] < run["novel"]]
    return {
        "FINER": FINER, "bar": record["bar"], "n": len(record["runs"]), "data": record["data"],
        "table": within.table(record), "false": np.mean(told), "half": sum(half), "half_runs": len(half),
        "right": sum(told) - sum(half), "right_runs": len(told) - len(half),
    }  # fmt: skip


def _learned(record: dict[str, Any]) -> dict[str, Any]:
    return record | {"table": learned.table(record), "n": len(record["runs"]), "methods": ", ".join(learned.METHODS)}


FACTS = {
    "confidence": _confidence,
    "look": _look,
    "gauges": _gauges,
    "uneven": _uneven,
    "reject": _reject,
    "within": _within,
    "learned": _learned,
}


def _title(name: str) -> str:
    return str(POOLS[name.partition(",")[0]].__doc__)


def read() -> dict[str, Any]:
    return {name: json.loads((HERE / f"{name}.json").read_text()) for name in PARTS}


if __name__ == "__main__":
    for name, text in pages(read()).items():
        (HERE.parents[1] / "docs" / name).write_text(text)
