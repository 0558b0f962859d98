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


def test_branches_go_on_from_the_same_stage_1(rehearsal, monkeypatch, tmp_path):
    small = ["stage1.epochs=1", "stage1.warmup_epochs=0", "dino.hidden=32", "dino.out=64", "views.extra=2"]
    branches = ["plain", "again", "longer:selftraining.iterations=3,views.whole_scale=[0.5,1.0]"]
    arguments = ["--dataset", "digits", "--out", str(tmp_path / "record.json"), "--device", "cpu"]
    arguments += [word for text in small for word in ("--set", text)]
    arguments += [word for text in branches for word in ("--branch", text)]
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
    rehearsal.main()
    (run,) = json.loads((tmp_path / "record.json").read_text())["runs"].values()
    plain, again, longer = run["branches"].values()
    assert plain["accuracy"] == again["accuracy"]
    assert longer["last"]["stage2-3"]["epoch"] == 2
    assert set(longer["accuracy"]) == {*plain["accuracy"], "stage2-3"}
    assert all(longer["accuracy"][name] == plain["accuracy"][name] for name in ("stage1", "online"))
    assert longer["changes"] == {"selftraining.iterations": 3, "views.whole_scale": [0.5, 1.0]}
    assert run["accuracy"]["stage1"] == plain["accuracy"]["stage1"]


def test_a_method_is_rehearsed_as_a_whole(rehearsal, monkeypatch, tmp_path):
    arguments = ["--dataset", "digits", "--method", "apl-plus", "--out", str(tmp_path / "record.json")]
    for text in ("stage1.epochs=1", "discovery.epochs=1", "dino.hidden=32", "dino.out=64", "views.extra=2"):
        arguments += ["--set", text]
    arguments += ["--device", "cpu", "--seed", "3", "--run", "base", "--run", "alone:discovery_instance=0"]
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
    rehearsal.main()
    record = json.loads((tmp_path / "record.json").read_text())
    base, alone = record["runs"]["base, seed 3"], record["runs"]["alone, seed 3"]
    assert record["recipe"] == "apl-plus-digits"
    assert alone["changes"]["discovery_instance"] == 0
    assert "ins" in base["last"]["discovery"]
    assert "ins" not in alone["last"]["discovery"]
    assert base["accuracy"]["result"] == base["accuracy"]["stage2-2"]
    assert {"heads", "clusters"} < set(base["accuracy"])


def test_a_kept_stage_1_is_gone_on_from_another_time(rehearsal, monkeypatch, tmp_path):
    def runs(*more):
        arguments = ["--dataset", "digits", "--out", str(tmp_path / "record.json"), "--device", "cpu", *more]
        arguments += ["--keep", str(tmp_path / "kept"), "--branch", "plain"]
        for text in ("stage1.epochs=1", "stage1.warmup_epochs=0", "dino.hidden=32", "dino.out=64", "views.extra=2"):
            arguments += ["--set", text]
        monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
        rehearsal.main()
        (run,) = json.loads((tmp_path / "record.json").read_text())["runs"].values()
        return run

    first = runs()
    monkeypatch.setattr(rehearsal.Rehearsal, "_train_stage1", None)
    second = runs()
    assert second.pop("kept")
    for run in (first, second):
        run["branches"]["plain"].pop("seconds")
        run["branches"]["plain"]["accuracy"].pop("online", None)  # stage I's prototypes are not kept
    assert second == first
    with pytest.raises(UserError, match="not of this run"):
        runs("--set", "prototypes.soft=false")
