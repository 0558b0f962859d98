"""Two rows of the paper's tables from one stage I."""

import json
import sys
from pathlib import Path

import pytest

TABLES = Path(__file__).parents[2] / "benchmarks" / "tables"
SMALL = ["stage1.epochs=1", "stage1.warmup_epochs=0", "dino.hidden=32", "dino.out=64", "views.extra=2"]


@pytest.fixture
def record(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(TABLES))
    sys.modules.pop("run", None)
    import run

    def record(folder, settings, *more):
        words = ["--dataset", "digits", "--out", str(tmp_path / folder), *more]
        words += [word for text in SMALL + settings for word in ("--set", text)]
        monkeypatch.setattr(sys, "argv", ["run.py", *words])
        run.main()
        return {path.name: json.loads(path.read_text()) for path in (tmp_path / folder).iterdir()}

    yield record
    sys.modules.pop("run", None)


def test_a_row_that_branches_off_is_that_of_a_run_of_its_own(record):
    refined = ["refinement.epochs=1", "refinement.warmup_epochs=0"]
    both = record("both", refined, "--also", "refinement.epochs=0")
    alone = record("alone", ["refinement.epochs=0"])["digits-apl-0.json"]
    assert set(both) == {"digits-apl-0.json", "digits-apl-refined-0.json"}
    branched, whole = both["digits-apl-0.json"], both["digits-apl-refined-0.json"]
    assert branched["branched_off"]
    assert "branched_off" not in whole
    assert set(whole["earlier"]) == {*branched["earlier"], "refinement"}
    assert branched["settings"]["refinement"]["epochs"] == 0
    for name in ("unlabelled", "earlier", "test", "figures"):
        assert branched[name] == alone[name]
    assert list(branched["last"]) == ["stage1", "stage2-1", "stage2-2"]


def test_what_would_change_stage_1_is_refused(record):
    with pytest.raises(SystemExit, match=r"--also stage1\.lr: only settings of refinement, selftraining, stage2"):
        record("both", [], "--also", "stage1.lr=1")
