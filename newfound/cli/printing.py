"""What commands print of a result."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from newfound.progress import visible

if TYPE_CHECKING:
    from newfound.runs.discovery import Discovery

MOST_LINES = 20
"""Categories that are printed one by one."""


def write(text: str) -> None:
    """Text to standard output, file names that are not UTF-8 with their bytes."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", errors="surrogateescape"))


def print_discovery(found: Discovery, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"run": str(found.folder), **found.result}))
        return
    sizes = found.sizes()
    for name in list(sizes)[:MOST_LINES]:
        write(f"{name}  {sizes[name]:,} images  {visible(', '.join(found.images_of(name)[:3]))}\n")
    if len(sizes) > MOST_LINES:
        print(f"and {len(sizes) - MOST_LINES} categories more")
    print_figures(found.result)
    write(f"{found.folder / 'assignments.csv'} has the category of every image\n")
    if (found.folder / "report.html").exists():
        write(f"to look at: {found.folder / 'report.html'}\n")


def print_summary(summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(summary))
        return
    for name, images in summary["categories"].items():
        write(f"{name}  {images:,} images\n")
    if "rejected" in summary:
        print(f"{summary['rejected']:,} of {summary['images']:,} images fit no category")
    write(f"{summary['out']}: the category of every image\n")


def print_figures(figures: dict[str, Any]) -> None:
    if "unlabelled" in figures:
        found = figures["unlabelled"]
        line = "unlabelled images: accuracy {accuracy:.1%}, NMI {nmi:.3f}, ARI {ari:.3f}".format(**found)
        print(f"{line} ({found['images']:,} images with an answer)")
    if "test" in figures:
        for protocol, values in figures["test"].items():
            shares = "  ".join(f"{k} {v:.1%}" if v is not None else f"{k} -" for k, v in values.items())
            print(f"test images, {protocol}: {shares}")
