"""The pages in docs/ and the README: what they point to is there."""

import re
from pathlib import Path

import pytest
import yaml

from newfound.methods import method_names

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    files = [link.partition("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]
    assert [link for link in files if not (page.parent / link).exists()] == []


def test_every_method_is_on_the_page_of_methods():
    text = (ROOT / "docs" / "methods" / "README.md").read_text()
    assert {name for name in method_names() if f"`{name}`" not in text} == set()


def slugs(page):
    """The anchors of a page: its headings, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_heading_leads_somewhere(page):
    links = re.findall(r"\]\(([^)\s:]*)#([^)\s]+)\)", page.read_text())
    assert [(file, name) for file, name in links if name not in slugs(page.parent / file if file else page)] == []


def test_every_page_is_in_the_sites_contents():
    def pages(entry):
        if isinstance(entry, str):
            return [entry]
        return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in pages(part)]

    listed = pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    there = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(listed) == sorted(there | {"index.md", "gallery/index.md", "CHANGELOG.md", "CONTRIBUTING.md"})
