"""Runs side by side."""

import csv
import itertools
import json
import shutil
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from newfound import UserError, compare, discover, open_run
from newfound.cli import main as cli
from newfound.progress import Reporter
from newfound.runfolder import Run
from newfound.runs.assess import assess


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Features of some digits, of which the even ones have labels, and the truth."""
    place, digits = tmp_path_factory.mktemp("data"), load_digits()
    np.save(place / "features.npy", digits.data[:300].astype(np.float32))
    for name, rows in (("labels", np.flatnonzero(digits.target[:240] % 2 == 0)), ("truth", range(300))):
        (place / f"{name}.csv").write_text("image,label\n" + "".join(f"{i},d{digits.target[i]}\n" for i in rows))
    return {"features": place / "features.npy", "labels": place / "labels.csv", "n_novel": 5}


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    """Two settings with two seeds each, and one of them without --mixed."""
    folder = tmp_path_factory.mktemp("sweep") / "runs"
    for epochs, seed, mixed in ((1, 0, True), (1, 1, True), (2, 0, True), (2, 1, True), (1, 0, False)):
        out = folder / (f"{epochs}-{seed}" if mixed else "unmixed")
        discover(**data, mixed=mixed, settings={"stage2.epochs": epochs}, seed=seed, out=out)
        assess(out, data["labels"].with_name("truth.csv"), device="cpu", reporter=Reporter(quiet=True))
    return folder


def result_of(folder):
    return json.loads((folder / "result.json").read_text())


def agreement_of(one, other):
    """With pandas, and matched by trying all pairs of categories to swap until none gains."""
    tables = [pd.read_csv(folder / "assignments.csv").set_index("image")["category"] for folder in (one, other)]
    table = pd.crosstab(*(each.loc[tables[0].index] for each in tables)).to_numpy()
    size = max(table.shape)
    table = np.pad(table, [(0, size - side) for side in table.shape])
    best = 0
    for start in range(50):
        way = np.random.default_rng(start).permutation(size)
        gained = True
        while gained:
            gained = False
            for i, j in itertools.combinations(range(size), 2):
                if table[i, way[j]] + table[j, way[i]] > table[i, way[i]] + table[j, way[j]]:
                    way[[i, j]], gained = way[[j, i]], True
        best = max(best, table[np.arange(size), way].sum())
    return best / table.sum()


def test_figures_and_settings_of_each_run(runs):
    found = compare(runs).runs
    assert [run["run"] for run in found] == [str(runs / n) for n in ("1-0", "1-1", "2-0", "2-1", "unmixed")]
    for run in found:
        result = result_of(runs / run["run"])
        for name in ("accuracy", "nmi", "ari", "old", "new"):
            assert run.get(name) == result["unlabelled"].get(name)
        assert run["stability"] == result["trust"]["stability"]
        assert run["minutes"] == pytest.approx(result["seconds"]["since_start"] / 60)
        assert (run["seed"], run["novel"], run["finished"]) == (result["seed"], 5, True)
    assert "old" in found[0]
    assert "old" not in found[4]
    assert found[2]["settings"] == {"mixed": True, "stage2.epochs": 2}
    assert found[4]["settings"] == {"mixed": False, "stage2.epochs": 1}
    assert compare([runs / "1-0", runs / "1-1"]).runs[0]["settings"] == {}


def test_means_are_over_runs_that_differ_in_the_seed_alone(runs):
    means = compare(runs).means
    assert [mean["seeds"] for mean in means] == [[0, 1], [0, 1], [0]]
    values = [result_of(runs / f"2-{seed}")["unlabelled"]["accuracy"] for seed in (0, 1)]
    assert means[1]["accuracy"]["mean"] == pytest.approx(np.mean(values))
    assert means[1]["accuracy"]["deviation"] == pytest.approx(np.std(values, ddof=1))
    assert means[2]["accuracy"]["deviation"] is None
    assert "old" in means[0]
    assert "old" not in means[2]


def test_agreement_is_the_share_of_images_in_matching_categories_of_the_same_pile(runs, data, tmp_path):
    labels = data["labels"].read_text().splitlines()
    (tmp_path / "labels.csv").write_text("\n".join(labels[:-1]))
    discover(**data | {"labels": tmp_path / "labels.csv"}, settings={"stage2.epochs": 1}, out=tmp_path / "fewer")
    found = compare([*(runs / name for name in ("1-0", "1-1", "2-0", "2-1")), tmp_path / "fewer"]).agreement
    assert np.allclose(np.diag(found), 1)
    assert np.array_equal(found, found.T, equal_nan=True)
    assert found[0, 3] == pytest.approx(agreement_of(runs / "1-0", runs / "2-1"))
    assert np.isnan(found[4, :4]).all()


def test_settings_of_several_methods_are_not_compared(data, runs, tmp_path):
    other = discover(**data, mixed=True, method="simgcd", settings={"train.epochs": 1}, out=tmp_path / "other")
    found = compare([runs / "1-0", other])
    assert [run["settings"] for run in found.runs] == [{}, {}]
    assert [mean["method"] for mean in found.means] == ["apl-features", "simgcd"]
    assert found.agreement[0, 1] == pytest.approx(agreement_of(runs / "1-0", tmp_path / "other"))


def test_figures_of_test_images_are_strict_ones(runs, tmp_path):
    shutil.copytree(runs / "1-0", tmp_path / "tested")
    test = {"strict": {"old": 0.5, "new": 0.25, "all": None}, "single": {"old": 1, "new": 1, "all": 1}}
    (tmp_path / "tested" / "result.json").write_text(json.dumps(result_of(runs / "1-0") | {"test": test}))
    (run,) = compare(tmp_path / "tested").runs
    assert (run["test_old"], run["test_new"]) == (0.5, 0.25)
    assert "test_all" not in run


def test_a_run_that_is_not_finished_has_no_figures(runs, tmp_path):
    shutil.copytree(runs / "1-0", tmp_path / "begun")
    (tmp_path / "begun" / "result.json").unlink()
    found = compare([runs / "1-0", tmp_path / "begun"])
    assert found.runs[1].keys() == {"run", "method", "data", "seed", "novel", "finished", "settings"}
    assert len(found.means) == 1
    assert np.isnan(found.agreement[1]).all()


def test_what_is_no_number_in_a_result_is_left_out(runs, tmp_path):
    shutil.copytree(runs / "1-0", tmp_path / "odd")
    result = result_of(tmp_path / "odd")
    (tmp_path / "odd" / "result.json").write_text(
        json.dumps(result | {"unlabelled": [1], "test": {"strict": "all"}, "seconds": {"since_start": "long"}})
    )
    (run,) = compare(tmp_path / "odd").runs
    assert not {"accuracy", "test_all", "minutes"} & set(run)
    odd = {"accuracy": float("inf"), "nmi": float("nan"), "ari": True}
    (tmp_path / "odd" / "result.json").write_text(json.dumps(result | {"unlabelled": odd}))
    assert not set(odd) & set(compare(tmp_path / "odd").runs[0])


def test_a_table_has_a_line_for_each_run_and_a_column_for_each_setting(runs, tmp_path):
    found = compare(runs)
    frame = found.to_frame()
    assert frame.columns.tolist()[:6] == ["run", "method", "data", "seed", "novel", "accuracy"]
    assert frame["stage2.epochs"].tolist() == [1, 1, 2, 2, 1]
    found.write(tmp_path / "table.csv")
    with (tmp_path / "table.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [float(line["accuracy"]) for line in lines] == frame["accuracy"].tolist()
    assert [line["old"] == "" for line in lines] == [False] * 4 + [True]


def test_the_command_prints_all_of_it(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["newfound", "compare", str(runs), "--out", str(tmp_path / "table.csv")])
    assert cli.status() == 0
    first, means, agreement = capsys.readouterr().out.split("\n\n")
    accuracy = result_of(runs / "1-0")["unlabelled"]["accuracy"]
    assert f"1  {runs / '1-0'}" in first
    assert f"apl-features  0     {accuracy:.1%}" in first
    assert means.startswith("mean ± standard deviation over seeds\nmethod        seeds  accuracy")
    assert "mixed=True stage2.epochs=2" in means
    assert agreement.splitlines()[1].split() == ["1", "2", "3", "4", "5"]
    assert (tmp_path / "table.csv").exists()
    monkeypatch.setattr(sys, "argv", ["newfound", "compare", str(runs), "--json"])
    assert cli.status() == 0
    found = json.loads(capsys.readouterr().out)
    assert found["agreement"][0][0] == 1
    assert found["means"][2]["accuracy"]["deviation"] is None
    assert found["runs"][0]["accuracy"] == accuracy


def test_a_run_counts_once_however_it_is_named_and_copied(runs, tmp_path):
    twice = compare([runs / "1-0", runs / ".." / "runs" / "1-0", open_run(runs / "1-0")])
    assert len(twice.runs) == 1
    assert len(compare(open_run(runs / "1-0")).runs) == 1
    shutil.copytree(runs / "1-0", tmp_path / "copy")
    assert [mean["seeds"] for mean in compare([runs / "1-0", tmp_path / "copy", runs / "1-1"]).means] == [[0, 1]]


def test_threads_and_numbers_of_categories_set_runs_apart(data, runs, tmp_path):
    words = {"mixed": True, "settings": {"stage2.epochs": 1}, "threads": Run.open(runs / "1-0").call.threads + 1}
    discover(**data | {"n_novel": 4}, **words, out=tmp_path / "other")
    found = compare([runs / "1-0", tmp_path / "other"])
    assert [run["settings"]["novel"] for run in found.runs] == [5, 4]
    assert "threads" in found.runs[0]["settings"]
    assert found.to_frame()["novel"].tolist() == [5, 4]
    assert len(found.means) == 2


def test_piles_of_other_images_with_the_same_names_have_no_agreement(data, runs, tmp_path):
    np.save(tmp_path / "other.npy", np.load(data["features"])[::-1])
    discover(
        **data | {"features": tmp_path / "other.npy"}, mixed=True, settings={"stage2.epochs": 1}, out=tmp_path / "run"
    )
    assert np.isnan(compare([runs / "1-0", tmp_path / "run"]).agreement[0, 1])


def test_what_cannot_be_compared_is_told(runs, tmp_path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"there is no run in .*empty: settings.yaml is missing"):
        compare(tmp_path / "empty")
    with pytest.raises(UserError, match="there are no runs to compare"):
        compare([])
    monkeypatch.setattr("newfound.runs.compare.MOST", 4)
    with pytest.raises(UserError, match="there are 5 runs: at most 4 can be compared at once"):
        compare([runs, runs / "1-0"])
    monkeypatch.setattr(
        sys, "argv", ["newfound", "compare", str(runs / "1-0"), "--out", str(tmp_path / "no" / "t.csv")]
    )
    assert cli.status() == 2
    assert "--out" in capsys.readouterr().err
    before = (runs / "1-0" / "assignments.csv").read_bytes()
    words = ["compare", str(runs), "--out", str(runs / "1-0" / "assignments.csv")]
    monkeypatch.setattr(sys, "argv", ["newfound", *words])
    monkeypatch.setattr("newfound.runs.compare.MOST", 500)
    assert cli.status() == 2
    assert "whose files are its own" in capsys.readouterr().err
    assert (runs / "1-0" / "assignments.csv").read_bytes() == before
    for odd in (3, None, [3], ["a\0"]):
        with pytest.raises(UserError, match="runs are folders, or what discover gave, not"):
            compare(odd)
