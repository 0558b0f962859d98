"""The page: one HTML file with everything in it, which loads nothing and runs nothing but its own script."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from pathlib import Path

from newfound.files import write_bytes
from newfound.report.content import gather
from newfound.report.keep import Kept
from newfound.report.text import as_json
from newfound.runfolder import Run

NAME = "report.html"
LIMIT = 15_000_000
"""Bytes of a page at the most. The parts have budgets that together stay below."""
STYLES = ("page.css",)
SCRIPTS = ("base.js", "glance.js", "gallery.js", "map.js", "matrix.js", "curves.js", "details.js")


def write_page(run: Run, kept: Kept | None) -> Path:
    """Write report.html from what the folder of a finished run holds and what it kept; gives its path."""
    path = run.folder / NAME
    write_bytes(path, render(as_json(gather(run, kept)), kept))
    return path


def render(content: bytes, kept: Kept | None) -> bytes:
    """The page around its content (JSON without "<") and its pictures.

    Of scripts and styles only ours may run: the policy names them by their digests. Content and pictures are in script
    elements of types that no browser executes; names reach the page as text.
    """
    here = files("newfound.report")
    style = "".join((here / name).read_text(encoding="utf-8") for name in STYLES)
    inner = "\n".join((here / name).read_text(encoding="utf-8") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{inner}\n}})();\n'
    policy = f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}; "
    policy += "base-uri 'none'; form-action 'none'"
    parts = {"policy": policy, "style": style, "script": script}
    page = (here / "page.html").read_text(encoding="utf-8")
    for name, text in parts.items():
        page = page.replace(f"{{{{{name}}}}}", text)
    before, after = page.encode().split(b"{{content}}")
    blocks = [b'<script type="application/json" id="content">', content, b"</script>\n"]
    for name in ("gallery", "map"):
        sheets = getattr(kept, name) if kept else None
        for number, jpeg in enumerate(sheets.jpegs if sheets else ()):
            blocks += [f'<script type="text/plain" id="{name}-{number}">'.encode(), base64.b64encode(jpeg)]
            blocks += [b"</script>\n"]
    return b"".join([before, *blocks, after])


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
