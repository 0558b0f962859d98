"""What commands print of a result."""

from __future__ import annotations

import itertools
import json
import math
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newfound.progress import visible

if TYPE_CHECKING:
    from newfound.count.result import Count
    from newfound.model.onnx import Written
    from newfound.runs.cache import Kept
    from newfound.runs.compare import Comparison
    from newfound.runs.found import Discovery

WAYS = {
    "owned": "groups that known categories own",
    "dtc": "DTC, probe categories",
    "gcd": "GCD, labelled accuracy",
    "shift": "mean shift and Ward's tree",
}
"""What ways to the number of categories are called."""
MOST_COLUMNS = 16
"""Runs whose agreement is printed."""
MOST_LINES = 20
"""Categories that are printed one by one."""


def write(text: str) -> None:
    """Lines for people, on standard output; names may hold what a terminal would obey, which is shown instead."""
    write_data("\n".join(map(visible, text.split("\n"))))


def write_data(text: str) -> None:
    """Text for programs, on standard output as it is: names that are not UTF-8 with their bytes. On a terminal it is
    for people all the same."""
    if sys.stdout.isatty():
        text = "\n".join(map(visible, text.split("\n")))
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", errors="surrogateescape"))


def write_json(content: Any) -> None:
    """A result as JSON, in which what is no number is null: JSON knows neither NaN nor infinity."""
    write_data(json.dumps(_plain(content), allow_nan=False) + "\n")


def _plain(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _plain(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _images(n: int) -> str:
    return "1 image" if n == 1 else f"{n:,} images"


def print_discovery(found: Discovery, as_json: bool) -> None:
    if as_json:
        write_json({"run": str(found.folder), **found.result})
        return
    sizes = found.sizes()
    for name in list(sizes)[:MOST_LINES]:
        near = ", ".join(found.near(name))
        near = f"  near to: {visible(near)}" if near else ""
        write(f"{name}  {_images(sizes[name])}{near}  {visible(', '.join(found.images_of(name)[:3]))}\n")
    if len(sizes) > MOST_LINES:
        write(f"and {len(sizes) - MOST_LINES} categories more\n")
    print_trust(found.result)
    print_figures(found.result)
    write(f"{found.folder / 'assignments.csv'} has the category of every image\n")
    if (found.folder / "report.html").exists():
        write(f"to look at: {found.folder / 'report.html'}\n")


def print_count(found: Count, as_json: bool) -> None:
    """An estimate of the number of novel categories."""
    if as_json:
        write_json(found.to_mapping())
        return
    low, high = found.interval
    write(f"novel categories: {found.estimate} ({found.likely} {low} to {high})\n")
    write(f"{found.statement}\n")
    for name, figure in found.methods.items():
        write(f"{WAYS[name]}: {figure}\n")


def print_summary(summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        write_json(summary)
        return
    for name, images in summary["categories"].items():
        write(f"{name}  {_images(images)}\n")
    if "rejected" in summary:
        write(f"{summary['rejected']:,} of {summary['images']:,} images fit no category\n")
    write(f"{summary['out']}: the category of every image\n")


def print_cache(place: Path, found: list[Kept], cleared: bool, as_json: bool) -> None:
    """What the cache holds, or what of it was cleared."""
    size = sum(kept.bytes for kept in found)
    kinds = {kind: [kept for kept in found if kept.kind == kind] for kind in dict.fromkeys(k.kind for k in found)}
    if as_json:
        parts = {kind: sum(kept.bytes for kept in some) for kind, some in kinds.items()}
        write_json({"folder": str(place), "cleared": cleared, "bytes": size, "kinds": parts})
        return
    for kind, some in kinds.items() if not cleared else ():
        folders = "1 folder" if len(some) == 1 else f"{len(some):,} folders"
        write(f"{kind}  {folders}  {sum(kept.bytes for kept in some) / 1e6:,.1f} MB\n")
    if cleared:
        write(f"cleared {size / 1e6:,.1f} MB of {place}\n")
    else:
        write(f"{place} holds {size / 1e6:,.1f} MB; `newfound cache --clear` removes it, and runs make it again\n")


def print_folders(to: Path, folders: dict[str, int], as_json: bool) -> None:
    """The folders that images were laid out in."""
    if as_json:
        write_json({"to": str(to), "folders": folders})
        return
    for name, images in folders.items():
        write(f"{to / name}  {_images(images)}\n")


def print_written(written: Written, as_json: bool) -> None:
    """The ONNX file that was written, and how far it is from the model."""
    if as_json:
        write_json({**vars(written), "path": str(written.path)})
        return
    what = f"{written.images} images of the run" if written.real else f"{written.images} random images"
    write(f"{written.path}  {written.bytes / 1e6:,.1f} MB, outputs: {', '.join(written.outputs)}\n")
    write(f"compared with PyTorch on {what}: probabilities differ by {written.difference:.1g} at the most\n")


def print_trust(result: dict[str, Any]) -> None:
    """What confidence means, and how k-means on the plain features of the network groups the images."""
    confidence, rehearsed, alike = result.get("confidence"), result.get("rehearsed"), result.get("trust", {})
    if confidence and confidence["calibrated"]:
        known = f"calibrated on {rehearsed['images']:,} known images" if rehearsed else "calibrated"
        write(f"mean confidence {confidence['mean']:.0%} ({known}):\n")
        write("a rough guess of the share of images that are right, and too high if the pile\n")
        write("has more categories than were looked for\n")
    elif confidence:
        write("confidence is the model's own and not calibrated: it does not say how many images are right\n")
    if "plain" in alike:
        write(f"{alike['plain']:.0%} of the images are in the same groups by plain k-means (column plain)\n")


def print_figures(figures: dict[str, Any]) -> None:
    if "unlabelled" in figures:
        found = figures["unlabelled"]
        line = "unlabelled images: accuracy {accuracy:.1%}, NMI {nmi:.3f}, ARI {ari:.3f}".format(**found)
        write(f"{line} ({_images(found['images'])} with an answer)\n")
        if "old" in found:
            write(f"{_old_and_new(found['old'], found['new'])}\n")
        plain = figures.get("earlier", {}).get("plain")
        if plain:
            worse = "; the result is worse" if plain["accuracy"] > found["accuracy"] else ""
            write(f"k-means on the plain features: accuracy {plain['accuracy']:.1%}{worse}\n")
    if "test" in figures:
        for protocol, values in figures["test"].items():
            shares = "  ".join(f"{k} {v:.1%}" if v is not None else f"{k} -" for k, v in values.items())
            write(f"test images, {protocol}: {shares}\n")


def _old_and_new(old: float | None, new: float | None) -> str:
    if old is None:
        return f"no image with an answer is of a known category (old); of novel ones (new) {new:.1%} are right"
    if new is None:
        return f"of images of known categories (old) {old:.1%} are right; none with an answer is of a novel one (new)"
    return f"of images of known categories (old) {old:.1%} are right, of novel ones (new) {new:.1%}"


def print_comparison(found: Comparison, as_json: bool) -> None:
    """Runs side by side, means over seeds, and how far the runs agree."""
    if as_json:
        write_json(found.to_mapping())
        return
    from newfound.runs.compare import FIGURES

    figures = [name for name in FIGURES if any(name in run for run in found.runs)]
    data = ["data"] if len({run["data"] for run in found.runs}) > 1 else []
    heads = [FIGURES[name] for name in figures]
    rows = [["", "run", "method", *data, "seed", *heads, "settings"]]
    for number, run in enumerate(found.runs, 1):
        values = [_figure(name, run.get(name)) for name in figures]
        settings = _settings(run["settings"]) if run["finished"] else "not finished"
        about = [run["run"], run["method"], *(run[name] for name in data), str(run["seed"])]
        rows.append([str(number), *about, *values, settings])
    _write_aligned(rows)
    if any(len(mean["seeds"]) > 1 for mean in found.means):
        write("\nmean ± standard deviation over seeds\n")
        rows = [["method", *data, "seeds", *heads, "settings"]]
        for mean in found.means:
            values = [_figure(name, **mean.get(name, {})) for name in figures]
            about = [mean["method"], *(mean[name] for name in data), str(len(mean["seeds"]))]
            rows.append([*about, *values, _settings(mean["settings"])])
        _write_aligned(rows)
    agreement = found.agreement
    shared = [i for i, row in enumerate(agreement) if (row >= 0).sum() > 1]
    if len(shared) > MOST_COLUMNS:
        write(f"\n{len(shared)} runs have the same pile: --json has how far they agree\n")
    elif shared:
        write("\nshare of images in matching categories\n")
        cells = [[f"{agreement[i, j]:.1%}" if agreement[i, j] >= 0 else "" for j in shared] for i in shared]
        numbers = [str(i + 1) for i in shared]
        _write_aligned([["", *numbers], *([number, *row] for number, row in zip(numbers, cells, strict=True))])


def _figure(name: str, mean: float | None = None, deviation: float | None = None) -> str:
    if mean is None:
        return ""
    form = ".1f" if name == "minutes" else ".3f" if name in ("nmi", "ari", "stability") else ".1%"
    if deviation is None:
        return f"{mean:{form}}"
    return f"{mean:{form}} ± {deviation:{form}}".replace("% ", " ")


def _settings(settings: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items())


def _write_aligned(rows: list[list[str]]) -> None:
    """Rows of cells, of which all but the last are as wide as the widest of their column."""
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        write("  ".join([*cells, row[-1]]).rstrip() + "\n")


def print_methods(found: dict[str, dict[str, Any]], in_full: bool) -> None:
    """What there is to say of each method, wrapped where a terminal is read."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, soft_wrap=True)

    def say(line: str, indent: str = "", style: str | None = None) -> None:
        if console.is_terminal:
            line = textwrap.fill(line, console.width, subsequent_indent=indent + "  ", break_on_hyphens=False)
        console.print(line, style=style)

    for name, about in found.items():
        say(f"{name} ({about['year'] or 'no year'}): {about['summary']}", style="bold")
        for line in _about(about, in_full):
            say(f"  {line}", indent="  ")
    if not in_full:
        say("Accuracy is in per cent, published figures in brackets; `newfound methods NAME` says more.")


def _about(about: dict[str, Any], in_full: bool) -> list[str]:
    needs = "a GPU is advised" if about["gpu"] else "needs no GPU"
    takes = ", mixed piles (--mixed)" if about["mixed"] else ""
    brought = [] if about["package"] == "newfound" else [f"from the package {about['package']}"]
    lines = [*brought, about["reference"] or "no reference", f"learns from {', '.join(about['takes'])}{takes}; {needs}"]
    figures = [_recorded(data, row, in_full) for data, row in about["recorded"].items()]
    if in_full:
        lines.append("accuracy on the unlabelled images, on record:" if figures else "no accuracy on record")
        lines += [f"  {figure}" for figure in figures]
    elif figures:
        lines.append(f"accuracy: {', '.join(figures)}")
    lines.append(f"recipes: {', '.join(about['recipes'])}")
    if in_full:
        lines.append("settings, for --set and in recipes (docs/reference/settings.md says what they mean):")
        parts = itertools.groupby(about["settings"], lambda name: name.partition(".")[0] if "." in name else "")
        lines += [f"  {', '.join(names)}" for _, names in parts]
    return lines


def _recorded(dataset: str, row: dict[str, Any], in_full: bool) -> str:
    published = row["published"]
    if not in_full:
        return f"{dataset} {row['accuracy']:.1f}" + (f" ({published})" if published else "")
    seeds = "1 seed" if row["seeds"] == 1 else f"the mean of {row['seeds']} seeds"
    beside = f"; published: {published} ({row['source']})" if published else ""
    return f"{dataset}: {row['accuracy']:.1f} %, {seeds}{beside}"
