import sys

import pytest

import newfound
from newfound.cli import main as cli
from newfound.data.download import get_data
from newfound.errors import UserError, did_you_mean
from newfound.plan.recipe import resolve_settings
from newfound.progress import Reporter

DIGITS = {"dataset": "digits"}
TYPOS = [
    (DIGITS | {"method": "simgdc"}, "there is no method simgdc; did you mean simgcd?"),
    (DIGITS | {"method": "APL_plus"}, "there is no method APL_plus; did you mean apl-plus?"),
    ({"dataset": "cifra10"}, "there is no data set cifra10; did you mean cifar10?"),
    (
        DIGITS | {"recipe": "apl-cifra10"},
        "there is no recipe apl-cifra10, nor a readable file of that name; did you mean apl-cifar10?",
    ),
    (
        DIGITS | {"recipe": "recipes/uno-digit.yaml"},
        "there is no recipe recipes/uno-digit.yaml, nor a readable file of that name; did you mean uno-digits?",
    ),
    (
        DIGITS | {"backbone": "efficientnet_lite0"},
        "there is no pretrained network efficientnet_lite0; did you mean efficientnet-lite0?",
    ),
]
SETTING = "there is no setting stage1.epcohs; did you mean stage1.epochs?"


@pytest.mark.parametrize(
    ("written", "in_python"),
    [
        ("--novel 0: there has to be at least one category", "n_novel 0: there has to be at least one category"),
        ("--set: stage1.lr is inf", "settings: stage1.lr is inf"),
        ("choose another --out, or --hold-out 0.1", "choose another out, or hold_out 0.1"),
        ("newfound data get cifar10 --to ROOT; or give --data", "newfound data get cifar10 --to ROOT; or give data"),
        ("`newfound resume run --device cpu`, or another --out", "`newfound resume run --device cpu`, or another out"),
        ("pip install --force-reinstall it", "pip install --force-reinstall it"),
        ("the folder a--b is not there", "the folder a--b is not there"),
    ],
)  # fmt: skip
def test_an_error_speaks_of_arguments_in_python_and_of_options_on_the_command_line(written, in_python):
    error = UserError(written)
    assert (str(error), error.command_line) == (in_python, written)


@pytest.mark.parametrize(("given", "sentence"), [*TYPOS, (DIGITS | {"settings": {"stage1.epcohs": 3}}, SETTING)])
def test_a_typing_error_in_python_is_answered_with_the_name_that_was_meant(tmp_path, given, sentence):
    with pytest.raises(UserError) as caught:
        newfound.discover(**given, out=tmp_path / "run")
    assert str(caught.value).removeprefix("settings: ") == sentence
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("given", "sentence"), [*TYPOS, (DIGITS | {"set": "stage1.epcohs=3"}, f"--set: {SETTING}")])
def test_a_typing_error_on_the_command_line_is_answered_with_the_name_that_was_meant(
    tmp_path, monkeypatch, capsys, given, sentence
):
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    monkeypatch.setattr(sys, "argv", ["newfound", "discover", *words, "--out", str(tmp_path / "run")])
    assert cli.status() == 2
    assert capsys.readouterr().err == f"newfound: {sentence}\n"


def test_a_typing_error_in_the_name_of_data_to_get_is_answered_with_the_name_that_was_meant(tmp_path):
    with pytest.raises(UserError, match=r"no data set 'omniglott' to get; did you mean omniglot\?"):
        get_data("omniglott", tmp_path, reporter=Reporter(quiet=True))


def test_a_name_that_resembles_none_is_answered_with_all_of_them():
    assert did_you_mean("xyz", ["uno", "apl"]) == "; there are: uno, apl"
    assert did_you_mean(3, ["epochs", "lr"], "stage1.") == "; there are: stage1.epochs, stage1.lr"


@pytest.mark.parametrize(
    ("word", "known", "end"),
    [
        ("imagenet", ["cifar10", "imagenet-a", "imagenet-b"], "did you mean imagenet-a or imagenet-b?"),
        ("cifar10", ["a-cifar10", "b-cifar10", "c-cifar10"], "did you mean a-cifar10, b-cifar10 or c-cifar10?"),
        (
            "cifar10",
            [f"{letter}-cifar10" for letter in "abcde"],
            "there are: a-cifar10, b-cifar10, c-cifar10, d-cifar10",
        ),
        ("dct", ["dtc", "kcl"], "did you mean dtc?"),
        ("kml", ["dtc", "kcl", "mcl"], "there are: dtc, kcl, mcl, FILE"),
        ("FILF", ["dtc"], "there are: dtc, FILE"),
    ],
)
def test_names_that_are_equally_near_are_all_suggested(word, known, end):
    assert did_you_mean(word, known, others=["FILE"]).startswith(f"; {end}")


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("epochs", "; did you mean stage1.epochs or stage2.epochs?"),
        ("stag1", "; did you mean stage1?"),
        ("dimensions", "; did you mean dimension?"),
        ("stage1.epoch", "; did you mean stage1.epochs?"),
        ("xyz", ", labelled_share, data.…, instance.…, views.…"),
        ("stage1.xyz", "; there are: stage1.epochs, stage1.batch, "),
        ("momentum", ", stage1.…, stage2.…, selftraining.…, cluster.…"),  # in too many parts
    ],
)
def test_a_setting_is_looked_for_in_the_parts_of_a_method_too(name, end):
    with pytest.raises(UserError) as caught:
        resolve_settings("apl", "apl-cifar10", {name: 3})
    assert end in str(caught.value)
