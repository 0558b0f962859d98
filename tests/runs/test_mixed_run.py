"""A run with --mixed from end to end: what it writes, prints and shows has known categories where images were given
such."""

import csv
import shutil
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

import newfound
from newfound import UserError
from newfound.cli import main as cli
from newfound.report.content import gather
from newfound.runfolder import Run

DIGITS = load_digits()
SHORT = {"stage2.epochs": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Features of digits: 30 labelled images of each even one, a pile of 20 of each even and 30 of each odd one."""
    place = tmp_path_factory.mktemp("mixed")
    rows = [np.flatnonzero(DIGITS.target == c)[: 50 if c % 2 == 0 else 30] for c in range(10)]
    np.save(place / "f.npy", DIGITS.data[np.concatenate(rows)].astype(np.float32))
    truth = np.repeat(np.arange(10), list(map(len, rows)))
    first = np.concatenate([np.arange(len(own)) for own in rows])
    labelled = (truth % 2 == 0) & (first < 30)
    (place / "l.csv").write_text("image,label\n" + "".join(f"{i},d{truth[i]}\n" for i in np.flatnonzero(labelled)))
    (place / "truth.csv").write_text("image,label\n" + "".join(f"{i},d{t}\n" for i, t in enumerate(truth)))
    return place


@pytest.fixture(scope="module")
def found(folder):
    return newfound.discover(
        features=folder / "f.npy", labels=folder / "l.csv", n_novel=5, mixed=True, out=folder / "run", settings=SHORT
    )


def test_known_categories_follow_the_novel_ones_in_its_sizes(found):
    sizes = found.sizes()
    names = list(sizes)
    assert names[:5] == [f"novel-0{i}" for i in range(1, 6)]
    assert names[5:] == ["d0", "d2", "d4", "d6", "d8"]
    assert list(sizes.values())[:5] == sorted(list(sizes.values())[:5], reverse=True)
    assert sum(sizes.values()) == len(found) == 250
    assert 60 <= sum(sizes[name] for name in names[5:]) <= 140
    assert found.result["confidence"]["calibrated"] is False
    assert "stability" in found.result["trust"]


def test_the_page_tells_how_many_images_were_given_a_known_category(found):
    run = Run.open(found.folder)
    assert run.call.source.mixed
    content = gather(run, None)
    old = sum(name.startswith("d") for name in found.categories)
    assert content["mixed"] == {"old": old, "categories": 5}
    assert content["novel"] == 5


def test_evaluate_tells_old_and_new(found, folder, monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv", ["newfound", "evaluate", str(found.folder), "--answers", str(folder / "truth.csv")]
    )
    assert cli.status() == 0
    said = capsys.readouterr().out
    assert "of images of known categories (old) " in said
    result = Run.open(found.folder).read_result()["unlabelled"]
    assert result["accuracy"] == pytest.approx((100 * result["old"] + 150 * result["new"]) / 250)
    assert result["old"] > 0.7
    with open(found.folder / "confusion.csv") as file:
        assert {row["found"] for row in csv.DictReader(file)} >= {"d0", "novel-01"}


@pytest.mark.parametrize(
    ("renamed", "told"),
    [
        ("d02468", "has none of the known categories ('d0', 'd2', 'd4' and others), so every image counts as novel"),
        ("d04", "has no image of the known categories 'd0', 'd4': if it calls them otherwise, their images count as n"),
        ("", ""),
    ],
)
def test_known_categories_that_the_answers_do_not_name_are_told(
    found, folder, tmp_path, monkeypatch, capsys, renamed, told
):
    text, table = (folder / "truth.csv").read_text(), tmp_path / "table.csv"
    for digit in renamed[1:]:
        text = text.replace(f",d{digit}\n", f",digit {digit}\n")
    table.write_text(text)
    shutil.copytree(found.folder, tmp_path / "run")
    monkeypatch.setattr(sys, "argv", ["newfound", "evaluate", str(tmp_path / "run"), "--answers", str(table)])
    assert cli.status() == 0
    assert told in capsys.readouterr().err
    old = Run.open(tmp_path / "run").read_result()["unlabelled"]["old"]
    assert (old is None) == (renamed == "d02468")


def test_the_model_predicts_the_same_categories(found, folder):
    model, rows = found.model(), np.load(folder / "f.npy")
    index = [int(name) for name in found.images]
    assert np.mean(model.predict(rows[index]) == np.array(found.categories)) > 0.95


def test_a_data_set_has_half_of_its_known_images_in_the_pile(tmp_path):
    run = newfound.discover(
        dataset="digits", method="kmeans", mixed=True, out=tmp_path / "run", settings={"stage1.epochs": 1}
    )
    assert run.result["images"] == {"labelled": 336, "unlabelled": 1012, "test": 449, "skipped": 0}
    assert set(run.result["unlabelled"]) >= {"accuracy", "old", "new"}
    again = newfound.resume(tmp_path / "run")
    assert again.categories == run.categories


def test_methods_and_data_sets_without_mixed_piles_are_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(UserError, match="mixed: dtc finds novel categories alone"):
        newfound.discover(dataset="digits", method="dtc", mixed=True, out=tmp_path / "run")
    with pytest.raises(UserError, match="mixed: the data set omniglot has no mixed pile"):
        newfound.discover(dataset="omniglot", data=tmp_path, mixed=True, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_estimator_refuses_too():
    images = (DIGITS.images[:20] * 15).astype(np.uint8)
    with pytest.raises(UserError, match="mixed: moco finds novel categories alone"):
        newfound.Discoverer("moco", mixed=True).fit(images, [0, 1] * 5 + [-1] * 10)
