"""What every record says of its making."""

import json
import sys
from pathlib import Path

import pytest

from newfound.plan.recipe import resolve_settings

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def record(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import record

    return record


@pytest.fixture
def tree(tmp_path):
    """A copied tree, without git, that was stamped."""
    for folder in ("benchmarks", "newfound"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "code.py").write_text("a = 1\n")
    return tmp_path


def test_without_git_the_commit_comes_from_the_stamp(record, tree):
    stamp = tree / "benchmarks" / "COMMIT"
    stamp.write_text(f"abc123 {record._digest(tree)}\n")
    assert record.commit(None, stamp) == "abc123"


def test_code_that_changed_after_the_stamp_is_marked(record, tree):
    stamp = tree / "benchmarks" / "COMMIT"
    stamp.write_text(f"abc123 {record._digest(tree)}\n")
    (tree / "newfound" / "code.py").write_text("a = 2\n")
    assert record.commit(None, stamp) == "abc123+"


def test_git_is_asked_before_the_stamp(record, tree):
    stamp = tree / "benchmarks" / "COMMIT"
    stamp.write_text("abc123 digest\n")
    assert record.commit("def456", stamp) == "def456"


def test_a_stamp_that_fits_the_code_is_believed_before_an_older_repository(record, tree):
    stamp = tree / "benchmarks" / "COMMIT"
    stamp.write_text(f"abc123 {record._digest(tree)}\n")
    assert record.commit("def456+", stamp) == "abc123"
    (tree / "newfound" / "code.py").write_text("a = 2\n")
    assert record.commit("def456+", stamp) == "def456+"


def test_without_git_and_stamp_nothing_begins(record, tree):
    with pytest.raises(SystemExit, match="the commit is unknown: there is no git here"):
        record.commit(None, tree / "benchmarks" / "COMMIT")


def test_newfound_of_another_tree_is_refused(record, tree, monkeypatch):
    monkeypatch.setattr(record, "STAMP", tree / "benchmarks" / "COMMIT")
    with pytest.raises(SystemExit, match="not from this tree: set PYTHONPATH="):
        record.commit_of_newfound()


def test_a_record_begins_with_everything_that_made_it(record, monkeypatch):
    monkeypatch.setattr(record, "commit_of_newfound", lambda: "abc123")
    settings = resolve_settings("kmeans", "kmeans-digits", {"stage1.epochs": 7})
    found = record.begin(settings={"k-means": settings}, seed=range(2))
    assert tuple(found) == record.FIELDS
    assert found["settings"]["k-means"]["stage1"]["epochs"] == 7
    assert found["seed"] == [0, 1]
    assert set(found["versions"]) == {"python", "torch", "numpy", "newfound"}
    assert found["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert json.loads(json.dumps(found)) == found


def test_a_record_without_one_of_the_fields_is_not_written(record, tmp_path):
    whole = dict.fromkeys(record.FIELDS, "")
    with pytest.raises(ValueError, match=r"the record a\.json has no commit"):
        record.write(tmp_path / "a.json", {name: value for name, value in whole.items() if name != "commit"})
    assert not list(tmp_path.iterdir())
    record.write(tmp_path / "new" / "a.json", whole)
    assert json.loads((tmp_path / "new" / "a.json").read_text()) == whole
    assert len(list((tmp_path / "new").iterdir())) == 1
