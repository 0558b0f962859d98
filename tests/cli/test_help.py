"""Every command explains itself."""

import sys

import pytest
from typer.main import get_command

from newfound.cli import main as cli
from newfound.cli.commands import app


def commands(group=None, path=()):
    """Every command of the application, by the words that call it."""
    group = group or get_command(app)
    found = {}
    for name, command in group.commands.items():
        words = (*path, name)
        found |= commands(command, words) if hasattr(command, "commands") else {words: command}
    return found


COMMANDS = commands()


@pytest.mark.parametrize("words", [(), ("data",), *COMMANDS], ids=" ".join)
def test_h_is_help(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["newfound", *words, "-h"])
    assert cli.status() == 0
    out = capsys.readouterr().out
    assert "Usage:" in out
    assert words not in COMMANDS or f"Example: newfound {' '.join(words)}" in " ".join(out.split())


@pytest.mark.parametrize(("words", "command"), COMMANDS.items(), ids=map(" ".join, COMMANDS))
def test_every_option_is_in_a_group_and_its_help_is_a_sentence(words, command):
    for option in command.params:
        sentence = option.help
        assert sentence[0].isupper(), f"{option.name}: {sentence}"
        assert sentence.endswith("."), f"{option.name}: {sentence}"
        if option.param_type_name == "option" and option.name != "help":
            assert option.rich_help_panel, option.name


@pytest.mark.parametrize(("words", "command"), COMMANDS.items(), ids=map(" ".join, COMMANDS))
def test_an_example_names_options_that_there_are(words, command):
    known = {name for option in command.params for name in option.opts}
    assert {word for word in command.epilog.split() if word.startswith("--")} <= known
