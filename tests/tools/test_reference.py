"""The reference pages are what the code says."""

import dataclasses
import importlib.util
from pathlib import Path

import pytest

from newfound.cli.commands import app
from newfound.methods import get_method, method_names

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("tools_reference", ROOT / "tools" / "reference.py")
reference = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(reference)


@pytest.mark.parametrize("page", ["settings.md", "commands.md", "python.md"])
def test_a_page_of_the_reference_is_what_the_code_says(page):
    made = reference.MADE[page]().rstrip() + "\n"
    assert (ROOT / "docs" / "reference" / page).read_text() == made, "call `make reference`"


def test_every_setting_says_what_it_means():
    def silent(cls):
        for field, hint, meaning in reference.fields_of(cls):
            if dataclasses.is_dataclass(hint):
                yield from (f"{field.name}.{name}" for name in silent(hint))
            elif not meaning and field.name != "method":
                yield field.name

    assert {name: list(silent(get_method(name).Settings)) for name in method_names()} == {
        name: [] for name in method_names()
    }


def test_the_page_of_commands_has_them_all():
    text = (ROOT / "docs" / "reference" / "commands.md").read_text()
    names = [info.name or info.callback.__name__ for info in app.registered_commands]
    assert [name for name in names if f"## newfound {name}\n" not in text] == []
    assert "`--set TEXT`" in text
    assert "`--quiet, -q`" in text


def test_ranges_and_defaults_are_those_of_the_settings():
    text = (ROOT / "docs" / "reference" / "settings.md").read_text()
    assert "| `shrinkage` | number, 0 to 1 | `0.5` |" in text
    assert "| `epochs` | whole number, 1 to 1,000,000 | `100` |" in text
