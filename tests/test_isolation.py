"""Training cannot reach the answers, and nothing points backwards."""

import ast
import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

import newfound
from newfound.data import sources
from newfound.data.collection import Answers, Collection
from newfound.data.digits import read_digits
from newfound.methods import method_names
from newfound.runs.discovery import discover

PACKAGE = Path(newfound.__file__).parent
QUICK = {"stage1.epochs": 3}


def test_permuting_the_answers_changes_nothing_but_the_evaluation(tmp_path, monkeypatch):
    honest = discover(dataset="digits", method="kmeans", out=tmp_path / "honest", settings=QUICK)

    def lying(request):
        reading = read_digits(request.seed)
        rng = np.random.default_rng(1)
        shuffled = {
            field.name: tuple(rng.permutation(np.array(getattr(reading.answers, field.name))).tolist())
            for field in dataclasses.fields(Answers)
        }
        return dataclasses.replace(reading, answers=Answers(**shuffled))

    monkeypatch.setitem(sources.DATASETS, "digits", dataclasses.replace(sources.DATASETS["digits"], read=lying))
    misled = discover(dataset="digits", method="kmeans", out=tmp_path / "misled", settings=QUICK)
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


LAYERS = (
    "_version errors process progress strangers tables",
    "files memory",
    "tensors",
    "config ours together",
    "data views nets losses cluster evaluate",
    "engine model",
    "methods",
    "trust plan count",
    "runfolder",
    "report estimator",
    "runs",
    "cli",
)
"""Every folder and module of the package, from the ground up: each may import itself and what lies in lower layers."""
ABOVE_ALL = {"__init__", "__main__"}
HIDDEN = {"Answers", "Reading"}


def files_of(part: str) -> list[Path]:
    """The source files of a folder or a module of the package."""
    folder = PACKAGE / part
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def part_of(dotted: str) -> set[str]:
    """The part of the package that a dotted name is in; "newfound" itself, from which all can be reached, is one."""
    root, *inside = dotted.split(".")
    if root != "newfound":
        return set()
    name = inside[0] if inside else root
    return {newfound._PLACES[name].split(".")[1]} if name in newfound._PLACES else {name}


def imports_of(text: str, path: Path) -> set[str]:
    """The parts of the package that a file imports, however it is written, or names in a string to import later."""
    package = ["newfound", *path.relative_to(PACKAGE).parts[:-1]]
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                found |= part_of(f"{module}.{alias.name}")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found |= part_of(alias.name)
        elif isinstance(node, ast.Constant) and re.fullmatch(r"newfound(\.\w+)+(:\w+)?", str(node.value)):
            found |= part_of(str(node.value).partition(":")[0])
    return found


def names_of(text: str) -> set[str]:
    """Every name that a file uses, imports or reaches through a dot."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found |= {node.name.rpartition(".")[2], node.asname or ""}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)  # getattr(module, "Answers")
    return found


def parts_of_the_package() -> set[str]:
    """The folders and modules at the top of the package, as they are on disk."""
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    return folders | {path.stem for path in PACKAGE.glob("*.py")}


def lower_than(part: str) -> set[str]:
    """What lies in the layers below a part of the package."""
    below: set[str] = set()
    for layer in LAYERS:
        if part in layer.split():
            return below
        below |= set(layer.split())
    pytest.fail(f"newfound/{part} is in no layer: add it to LAYERS, or move it into a folder that is")


@pytest.mark.parametrize("part", sorted(parts_of_the_package() - ABOVE_ALL))
def test_no_part_imports_backwards(part):
    allowed = lower_than(part) | {part}
    for path in files_of(part):
        strangers = imports_of(path.read_text(), path) - allowed
        assert not strangers, f"{path.relative_to(PACKAGE)} imports {strangers}"


def test_every_layer_exists():
    assert {part for layer in LAYERS for part in layer.split()} == parts_of_the_package() - ABOVE_ALL


TRAINING = ["views", "nets", "losses", "cluster", "engine", "model", "methods", "trust", "plan", "count"]


@pytest.mark.parametrize("part", [*TRAINING, "report/keep", "report/tsne", "report/typical"])
def test_training_never_names_the_answers(part):
    for path in files_of(part):
        named = names_of(path.read_text()) & HIDDEN
        assert not named, f"{path.relative_to(PACKAGE)} names {named}"


@pytest.mark.parametrize("name", method_names())
def test_methods_do_not_import_each_other(name):
    own = name.replace("-", "_")
    others = {f"newfound.methods.{other.replace('-', '_')}" for other in method_names()} - {f"newfound.methods.{own}"}
    for path in files_of(f"methods/{own}"):
        text = path.read_text()
        found = {other for other in others if re.search(rf"{re.escape(other)}\b", text)}
        assert not found, f"{path.relative_to(PACKAGE)} imports {found}"


@pytest.mark.parametrize("part", ["engine", "model", "methods"])
def test_training_never_imports_the_evaluation(part):
    for path in files_of(part):
        assert "evaluate" not in imports_of(path.read_text(), path), path.relative_to(PACKAGE)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("from newfound.evaluate import accuracy", "evaluate"),
        ("from newfound.evaluate.accuracy import match", "evaluate"),
        ("from newfound import evaluate", "evaluate"),
        ("from newfound import evaluate as judge", "evaluate"),
        ("from newfound import discover", "runs"),
        ("import newfound.evaluate.accuracy as judge", "evaluate"),
        ("import newfound", "newfound"),
        ("from ..evaluate import accuracy", "evaluate"),
        ("from .. import evaluate", "evaluate"),
        ("from . import loop", "engine"),
        ("def late():\n    from ..evaluate.accuracy import match", "evaluate"),
        ("import_module('newfound.evaluate.accuracy')", "evaluate"),
        ("place = 'newfound.evaluate.accuracy:match'", "evaluate"),
    ],
)
def test_an_import_is_seen_however_it_is_written(text, part):
    assert imports_of(text, PACKAGE / "engine" / "loop.py") == {part}


@pytest.mark.parametrize(
    "text",
    [
        "from newfound.data.collection import Answers",
        "from newfound.data.collection import Answers as Harmless",
        "from newfound.data import collection\ncollection.Answers()",
        "def fit(truth: Answers): ...",
        "getattr(collection, 'Answers')",
    ],
)
def test_the_answers_are_seen_however_they_are_named(text):
    assert names_of(text) & HIDDEN == {"Answers"}
