"""The page: one HTML file, which runs nothing but its own script and loads nothing but thumbnails beside it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from itertools import accumulate
from pathlib import Path

from newfound.errors import UserError
from newfound.files import write_bytes
from newfound.report.content import gather
from newfound.report.keep import INSIDE, Kept
from newfound.report.text import as_json
from newfound.runfolder import Run

NAME, BESIDE = "report.html", "report-pictures"
LIMIT = 15_000_000
"""Bytes of a page at the most. The parts have budgets that together stay below, but for what it takes to correct."""
STYLES = ("page.css",)
SCRIPTS = (
    "base.js",
    "corrections.js",
    "save.js",
    "correcting.js",
    "glance.js",
    "gallery.js",
    "album.js",
    "large.js",
    "map.js",
    "matrix.js",
    "curves.js",
    "details.js",
)


def write_page(run: Run, kept: Kept | None) -> Path:
    """Write report.html, and the thumbnails that have no room in it, from what the folder of a finished run holds and
    what it kept; gives the page's path."""
    path = run.folder / NAME
    content = gather(run, kept)
    jpegs = kept.thumbnails.jpegs if kept and kept.thumbnails else ()
    inside = _fitting(jpegs)
    _write_beside(run.folder / BESIDE, jpegs, inside)
    page = render(as_json(content), kept, inside)
    if len(page) > LIMIT:  # the whole names, to correct with, are what a page can do without
        page = render(as_json(content | {"correct": None}), kept, inside)
    run.write(NAME, page)
    return path


def _fitting(jpegs: Sequence[bytes]) -> int:
    """How many of the sheets go into the page: the first ones, those of the map."""
    return sum(total <= INSIDE for total in accumulate(map(len, jpegs)))


def _write_beside(folder: Path, jpegs: Sequence[bytes], inside: int) -> None:
    """Write the sheets from number ``inside`` on as folder/NUMBER.jpg, and remove those of an earlier page."""
    names = [f"{number}.jpg" for number in range(inside, len(jpegs))]
    if names and folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is not a folder, and thumbnails of the page go into one: move it away")
    if names:
        folder.mkdir(exist_ok=True)
    for name, jpeg in zip(names, jpegs[inside:], strict=True):
        write_bytes(folder / name, jpeg, within=folder.parent)
    for path in folder.glob("*.jpg"):
        if path.stem.isdigit() and path.name not in names:
            path.unlink()
    if not names and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def render(content: bytes, kept: Kept | None, inside: int) -> bytes:
    """The page around its content (JSON without "<"), the gallery and the first ``inside`` sheets of thumbnails.

    Of scripts and styles only ours may run: the policy names them by their digests. Content and pictures are in script
    elements of types that no browser executes; names reach the page as text. Pictures may come from where the page
    lies, but only where sheets lie beside it.
    """
    here = files("newfound.report")
    style = "".join((here / name).read_text(encoding="utf-8") for name in STYLES)
    inner = "\n".join((here / name).read_text(encoding="utf-8") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{inner}\n}})();\n'
    thumbnails, gallery = (kept.thumbnails, kept.gallery) if kept else (None, None)
    beside = " 'self' file:" if thumbnails and inside < len(thumbnails.jpegs) else ""
    policy = f"default-src 'none'; img-src data:{beside}; style-src {_digest(style)}; script-src {_digest(script)}; "
    policy += "base-uri 'none'; form-action 'none'"
    parts = {"policy": policy, "style": style, "script": script}
    page = (here / "page.html").read_text(encoding="utf-8")
    for name, text in parts.items():
        page = page.replace(f"{{{{{name}}}}}", text)
    before, after = page.encode().split(b"{{content}}")
    blocks = [b'<script type="application/json" id="content">', content, b"</script>\n"]
    pictures = {"gallery": gallery.jpegs if gallery else (), "images": thumbnails.jpegs[:inside] if thumbnails else ()}
    for name, jpegs in pictures.items():
        for number, jpeg in enumerate(jpegs):
            blocks += [f'<script type="text/plain" id="{name}-{number}">'.encode(), base64.b64encode(jpeg)]
            blocks += [b"</script>\n"]
    return b"".join([before, *blocks, after])


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
