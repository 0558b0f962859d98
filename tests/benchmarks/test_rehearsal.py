"""The rehearsal compares whole methods, or ways of stage II on one stage I."""

import json
import sys
from pathlib import Path

import pytest

from newfound.errors import UserError

REHEARSAL = Path(__file__).parents[2] / "benchmarks" / "rehearsal"


@pytest.fixture
def rehearsal(monkeypatch):
    monkeypatch.syspath_prepend(str(REHEARSAL))
    sys.modules.pop("run", None)
    import run

    yield run
    sys.modules.pop("run", None)


SMALL = ("stage1.epochs=1", "stage1.warmup_epochs=0", "dino.hidden=32", "dino.out=64", "views.extra=2")


@pytest.fixture
def rehearsed(rehearsal, monkeypatch, tmp_path):
    """The record of a call with those words more."""

    def call(*words, settings=SMALL):
        arguments = ["--dataset", "digits", "--out", str(tmp_path / "record.json"), "--device", "cpu", *words]
        arguments += [word for text in settings for word in ("--set", text)]
        monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
        rehearsal.main()
        return json.loads((tmp_path / "record.json").read_text())

    return call


def test_branches_go_on_from_the_same_stage_1(rehearsed):
    branches = ["plain", "again", "longer:selftraining.iterations=3,views.whole_scale=[0.5,1.0]"]
    (run,) = rehearsed(*(word for text in branches for word in ("--branch", text)))["runs"].values()
    plain, again, longer = run["branches"].values()
    assert plain["accuracy"] == again["accuracy"]
    assert longer["last"]["stage2-3"]["epoch"] == 2
    assert set(longer["accuracy"]) == {*plain["accuracy"], "stage2-3"}
    assert all(longer["accuracy"][name] == plain["accuracy"][name] for name in ("stage1", "online"))
    assert longer["changes"] == {"selftraining.iterations": 3, "views.whole_scale": [0.5, 1.0]}
    assert run["curve"][-1]["loss"] == plain["last"]["stage1"]["loss"]


def test_a_branch_ends_as_a_run_of_its_own_does(rehearsed):
    (run,) = rehearsed("--branch", "only:selftraining.iterations=1")["runs"].values()
    (alone,) = rehearsed("--run", "alone:selftraining.iterations=1")["runs"].values()
    branch = run["branches"]["only"]
    assert {"seconds", "changes"} < set(branch)
    assert all(branch[name] == alone[name] for name in ("accuracy", "test", "last"))


def test_branches_share_stages_up_to_the_one_that_is_named(rehearsed):
    words = [
        "--method",
        "apl-plus",
        "--share",
        "discovery",
        "--branch",
        "two",
        "--branch",
        "none:selftraining.iterations=0",
    ]
    (run,) = rehearsed(*words, settings=(*SMALL, "discovery.epochs=1"))["runs"].values()
    two, none = run["branches"].values()
    assert two["last"]["discovery"] == none["last"]["discovery"]
    assert set(two["accuracy"]) == {*none["accuracy"], "stage2-1", "stage2-2"}
    with pytest.raises(UserError, match="apl has no stage discovery; its stages are stage1, stage2-1"):
        rehearsed("--share", "discovery", "--branch", "base")


def test_a_method_is_rehearsed_as_a_whole(rehearsed):
    settings = (*(text for text in SMALL if "warmup" not in text), "discovery.epochs=1")
    words = ["--method", "apl-plus", "--seed", "3", "--run", "base", "--run", "alone:discovery_instance=0"]
    record = rehearsed(*words, settings=settings)
    base, alone = record["runs"]["base, seed 3"], record["runs"]["alone, seed 3"]
    assert record["recipe"] == "apl-plus-digits"
    assert alone["changes"]["discovery_instance"] == 0
    assert "ins" in base["last"]["discovery"]
    assert "ins" not in alone["last"]["discovery"]
    assert base["accuracy"]["result"] == base["accuracy"]["stage2-2"]
    assert {"heads", "clusters"} < set(base["accuracy"])


def test_kept_stages_are_gone_on_from_another_time(rehearsed, tmp_path):
    words = ["--keep", str(tmp_path / "kept"), "--branch", "plain"]
    first = rehearsed(*words)["runs"]
    metrics = next((tmp_path / "kept").rglob("metrics.jsonl"))
    trained = metrics.stat().st_mtime_ns
    second = rehearsed(*words)["runs"]
    assert metrics.stat().st_mtime_ns == trained, "stage I is not trained again"
    for runs in (first, second):
        next(iter(runs.values()))["branches"]["plain"].pop("seconds")
    assert second == first
    with pytest.raises(UserError, match="not of this run"):
        rehearsed(*words, "--set", "prototypes.soft=false")
