"""Training cannot reach the answers, and nothing points backwards."""

import ast
import dataclasses
from pathlib import Path

import numpy as np
import pytest

import newfound
from newfound.data import sources
from newfound.data.collection import Answers, Collection
from newfound.data.digits import read_digits
from newfound.discovery import discover

PACKAGE = Path(newfound.__file__).parent
QUICK = {"stage1.epochs": 3}


def test_permuting_the_answers_changes_nothing_but_the_evaluation(tmp_path, monkeypatch):
    honest = discover(dataset="digits", out=tmp_path / "honest", settings=QUICK)

    def lying(request):
        reading = read_digits(request.seed)
        rng = np.random.default_rng(1)
        shuffled = {
            field.name: tuple(rng.permutation(np.array(getattr(reading.answers, field.name))).tolist())
            for field in dataclasses.fields(Answers)
        }
        return dataclasses.replace(reading, answers=Answers(**shuffled))

    monkeypatch.setitem(sources.DATASETS, "digits", dataclasses.replace(sources.DATASETS["digits"], read=lying))
    misled = discover(dataset="digits", out=tmp_path / "misled", settings=QUICK)
    for name in ("metrics.jsonl", "assignments.csv", "model/model.safetensors", "model/model.json", "collection.json"):
        assert (honest.folder / name).read_bytes() == (misled.folder / name).read_bytes(), name
    assert misled.result["unlabelled"]["accuracy"] < 0.4 < honest.result["unlabelled"]["accuracy"]
    assert misled.result["test"]["strict"]["all"] < 0.4 < honest.result["test"]["strict"]["all"]


def test_a_collection_holds_no_answer_and_no_name():
    fields = {field.name for field in dataclasses.fields(Collection)}
    assert fields == {"train", "labels", "classes", "tasks", "test"}
    collection = read_digits(0).collection
    assert (collection.labels[collection.n_labelled :] == -1).all()
    assert set(collection.classes) == {"0", "2", "4", "6", "8"}


ALLOWED = {
    "data": {"data"},
    "views": {"views"},
    "nets": {"nets"},
    "cluster": {"cluster"},
    "evaluate": {"evaluate"},
    "engine": {"engine", "data"},
    "losses": {"losses"},
    "methods": {"methods", "engine", "data", "views", "nets", "cluster", "losses", "prototypes"},
}
FOR_ALL = {"errors", "progress", "files", "settings", "_version", "model"}


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("newfound."):
            found.add(node.module.split(".")[1])
            if "Answers" in {alias.name for alias in node.names}:
                found.add("Answers")
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("newfound.")}
    return found


@pytest.mark.parametrize("folder", ALLOWED)
def test_no_folder_imports_backwards(folder):
    for path in (PACKAGE / folder).rglob("*.py"):
        strangers = imports_of(path) - ALLOWED[folder] - FOR_ALL
        assert not strangers, f"{path.name} imports {strangers}"
