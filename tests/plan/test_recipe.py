"""A recipe over its base."""

import sys

import pytest

from newfound.cli import main as cli
from newfound.errors import UserError
from newfound.plan.recipe import load_recipe, resolve_settings


def write(folder, **recipes):
    """Files of these recipes; gives back the path of the first."""
    folder.mkdir(exist_ok=True)
    for name, text in recipes.items():
        (folder / f"{name}.yaml").write_text(text)
    return str(folder / f"{next(iter(recipes))}.yaml")


def test_nested_names_are_merged_one_by_one_and_the_rest_is_the_base_s(tmp_path):
    mine = write(tmp_path, mine="base: kmeans-imagenet\nnetwork: tiny\nstage1: {epochs: 7, milestones: [3]}\n")
    base = load_recipe("kmeans-imagenet")
    stage1 = base["stage1"] | {"epochs": 7, "milestones": [3]}
    assert load_recipe(mine) == base | {"network": "tiny", "stage1": stage1}
    settings = resolve_settings("kmeans", mine, {"stage1.epochs": 9})
    assert (settings.stage1.epochs, settings.stage1.milestones, settings.stage1.batch) == (9, (3.0,), 256)


def test_a_base_may_have_a_base_and_paths_begin_at_the_file_that_names_them(tmp_path):
    write(tmp_path / "below", last="base: kmeans-digits\nstage1: {epochs: 2, batch: 8}\n")
    mine = write(tmp_path, mine="base: below/middle.yaml\nlog_every: 3\n")
    write(tmp_path / "below", middle="base: last.yaml\nstage1: {epochs: 5}\n")
    found = load_recipe(mine)
    assert (found["stage1"]["epochs"], found["stage1"]["batch"], found["stage1"]["lr"]) == (5, 8, 0.1)
    assert (found["method"], found["log_every"]) == ("kmeans", 3)
    assert "base" not in found


@pytest.mark.parametrize(
    ("recipes", "complaint"),
    [
        ({"a": "base: a.yaml"}, r"a.yaml: base .*a.yaml goes in a circle"),
        ({"a": "base: b.yaml", "b": "base: ../in/a.yaml"}, r"b.yaml: base .*a.yaml goes in a circle"),
        ({"a": "base: nothing"}, r"a.yaml, base: there is no recipe .*nothing, nor .*; there are: apl-cifar10, "),
        ({"a": "base: b.yaml", "b": "base: nothing"}, r"b.yaml, base: there is no recipe .*nothing"),
        ({"a": "base: [kmeans-digits]"}, r"a.yaml: base is \['kmeans-digits'\]; it has to be the name of a recipe"),
        ({"a": r'base: "a\0b"'}, r"a.yaml, base: there is no recipe"),
        ({"a": "base:"}, r"a.yaml: base is None; it has to be the name of a recipe"),
        ({"a": "base: b.yaml", "b": "["}, r"recipe .*b.yaml is not valid YAML"),
        ({"a": "Base: apl"}, r"recipe .*a.yaml: there is no setting Base; did you mean base\?"),
        ({"a": "method: apl\nBASE: apl"}, r"there is no setting BASE; did you mean base\?"),
        ({"a": "stage2: {epochs: 5}"}, r"a.yaml does not say what it is a recipe of: write base: .* lists$"),
        ({"a": "base: b.yaml", "b": "log_every: 3"}, r"a.yaml does not say what it is a recipe of: write base: "),
        ({"a": "bas: apl"}, r"does not say what .*; by bas, did you mean base\?$"),
        ({"a": "Methd: apl"}, r"does not say what .*; by Methd, did you mean method\?$"),
    ],
)
def test_a_base_that_cannot_be_taken_is_one_sentence(recipes, complaint, tmp_path):
    with pytest.raises(UserError, match=complaint):
        load_recipe(write(tmp_path / "in", **recipes))


def test_a_missing_base_ends_a_command_with_status_2(tmp_path, monkeypatch, capsys):
    mine = write(tmp_path, mine="base: nothing\n")
    words = ["discover", "--dataset", "digits", "--recipe", mine, "--out", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["newfound", *words])
    assert cli.status() == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "run").exists()
