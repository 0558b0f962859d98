"""The pages in docs/ and the README: what they point to is there."""

import re
from pathlib import Path

import pytest

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
