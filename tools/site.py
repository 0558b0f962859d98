"""What mkdocs adds to docs/: the README as the first page, other pages of the root, and a gallery of runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.append(str(Path(__file__).parent))
from gallery import GALLERY, contents

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
ALONE = ("index.md", "tutorial.md")
CAPTION = "*The page of `newfound demo`"


def on_files(files: Files, config: Any) -> Files:
    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, "gallery/index.md", content=contents()))
    for page in sorted(GALLERY.glob("*.html")):
        files.append(File.generated(config, f"gallery/{page.name}", abs_src_path=str(page)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links as the site has them; those to files that are no pages become plain text. Pages alone have no list."""
    if page.file.src_uri in ALONE:
        page.meta["hide"] = ["navigation"]
    text = re.sub(r"\[([^\]]+)\]\((?:\.\./)*(?:LICENSE|CITATION\.cff)\)", r"\1", markdown)
    text = text.replace("](docs/", "](").replace("](../README.md", "](index.md")
    return text.replace(CAPTION, CAPTION.replace("The page", "[The page](gallery/demo.html)"))
