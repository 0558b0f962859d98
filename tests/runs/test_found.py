"""Discovery: a finished run in Python."""

import json
import shutil
from pathlib import Path

import embeddings
import pytest

from newfound import Discovery, UserError, discover, open_run
from newfound.progress import Reporter
from newfound.runs.assess import assess


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("found")
    files = embeddings.write(folder / "in")
    return discover(**files, n_novel=embeddings.NOVEL, out=folder / "run")


@pytest.fixture
def truth(found):
    return found.folder.parent / "in" / "truth.csv"


def files_of(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize("kind", [str, Path])
def test_a_finished_run_is_opened_as_it_was_found_and_nothing_is_written(found, kind):
    before = files_of(found.folder)
    opened = open_run(kind(found.folder))
    assert isinstance(opened, Discovery)
    assert opened == found
    assert files_of(found.folder) == before


def test_what_is_no_finished_run_is_not_opened(found, tmp_path):
    with pytest.raises(UserError, match="there is no run in"):
        open_run(tmp_path)
    with pytest.raises(UserError, match="a run is opened by its folder, not by 3"):
        open_run(3)
    (tmp_path / "settings.yaml").write_bytes((found.folder / "settings.yaml").read_bytes())
    with pytest.raises(UserError, match="newfound resume"):
        open_run(tmp_path)


@pytest.mark.parametrize("folder", ["a\0", "\ud800", b"run", None])
def test_what_is_no_path_names_no_run(folder):
    with pytest.raises(UserError, match=r"^a run is opened by its folder, not by "):
        open_run(folder)


def test_a_path_with_a_nul_is_said_to_have_one():
    with pytest.raises(UserError, match=r"not by .a.x00': no path has a NUL in it"):
        open_run("a\0")


@pytest.mark.parametrize("answers", [3, "t\0", "\ud800", b"truth.csv"])
def test_what_is_no_path_names_no_answers(found, answers):
    before = files_of(found.folder)
    with pytest.raises(UserError, match=r"^answers are a CSV file, named by its path, not by "):
        found.evaluate(answers)
    assert files_of(found.folder) == before


def test_a_run_is_evaluated_as_the_command_does(found, truth, tmp_path):
    opened = open_run(shutil.copytree(found.folder, tmp_path / "run"))
    figures = opened.evaluate(truth)
    assert figures["unlabelled"]["images"] == len(truth.read_text().splitlines()) - 1
    assert figures == assess(opened.folder, truth, device="cpu", reporter=Reporter(quiet=True))
    assert opened.result == open_run(opened.folder).result
    assert opened.result["unlabelled"] == figures["unlabelled"]
    assert json.loads((opened.folder / "result.json").read_text())["unlabelled"] == figures["unlabelled"]


def test_answers_have_to_come_from_somewhere(found):
    with pytest.raises(UserError, match=r"nobody told the run .* give it with answers truth\.csv"):
        found.evaluate()


def test_without_answers_those_of_the_data_set_are_taken(tmp_path):
    before = discover(dataset="digits", method="kmeans", out=tmp_path / "run", settings={"stage1.epochs": 1})
    figures = open_run(tmp_path / "run").evaluate()
    assert {name: figures[name] for name in ("unlabelled", "test")} == {
        name: before.result[name] for name in ("unlabelled", "test")
    }
