"""What mkdocs adds to docs/: the README as the first page, other pages of the root, and the page of a run to open."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
ALONE = ("index.md", "tutorial.md")
CAPTION = "*The page of `newfound demo`"
REPORT = ROOT / "build" / "demo" / "report.html"


def on_files(files: Files, config: Any) -> Files:
    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, "gallery/digits.html", abs_src_path=str(REPORT)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links as the site has them; those to files that are no pages become plain text. Pages alone have no list."""
    if page.file.src_uri in ALONE:
        page.meta["hide"] = ["navigation"]
    text = re.sub(r"\[([^\]]+)\]\((?:\.\./)*(?:LICENSE|CITATION\.cff)\)", r"\1", markdown)
    text = text.replace("](docs/", "](").replace("](../README.md", "](index.md")
    return text.replace(CAPTION, CAPTION.replace("The page", "[The page](gallery/digits.html)"))
