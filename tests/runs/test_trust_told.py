"""What a run says of its confidence and of k-means on the plain features."""

import json

import embeddings
import pytest

import newfound
from newfound.cli.printing import print_figures, print_trust
from newfound.evaluate.protocol import evaluate_unlabelled
from newfound.progress import Reporter
from newfound.report.content import gather
from newfound.runfolder import Run
from newfound.runs.assess import assess
from newfound.tables import parse_table


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("told")
    files = embeddings.write(folder / "in")
    return newfound.discover(**files, n_novel=embeddings.NOVEL, out=folder / "run")


def test_confidence_is_calibrated_and_its_mean_is_told(run, capsys):
    told = run.result["confidence"]
    assert told["calibrated"]
    assert told["mean"] == pytest.approx(sum(run.confidence) / len(run), abs=1e-6)
    assert max(run.confidence) < 1
    print_trust(run.result)
    images = run.result["rehearsed"]["images"]
    assert f"mean confidence {told['mean']:.0%} (calibrated on {images} known images)" in capsys.readouterr().out
    content = gather(Run.open(run.folder), None)
    assert content["calibrated"] is True
    assert content["plain"] == run.result["trust"]["plain"]


def test_plain_groups_are_named_like_the_categories_they_share_images_with(run):
    with open(run.folder / "assignments.csv", newline="") as file:
        rows = parse_table(file)
    alike = sum(row["plain"] == row["category"] for row in rows) / len(rows)
    assert alike == pytest.approx(run.result["trust"]["plain"])
    assert {row["plain"] for row in rows} <= set(run.result["novel"])
    assert len({row["plain"] for row in rows}) == embeddings.NOVEL


def test_answers_judge_the_plain_groups_too(run):
    truth = run.folder.parent / "in" / "truth.csv"
    figures = assess(run.folder, truth, device="cpu", reporter=Reporter(quiet=True))
    answers = dict(line.split(",") for line in truth.read_text().split()[1:])
    with open(run.folder / "assignments.csv", newline="") as file:
        rows = parse_table(file)
    expected = evaluate_unlabelled([row["plain"] for row in rows], [answers[row["image"]] for row in rows])
    assert figures["earlier"]["plain"] == expected
    assert json.loads((run.folder / "result.json").read_text())["earlier"]["plain"] == expected


@pytest.mark.parametrize(("plain", "worse"), [(0.85, True), (0.84, False), (0.8, False)])
def test_a_result_that_is_worse_than_plain_features_says_so(plain, worse, capsys):
    figures = {"accuracy": 0.84, "nmi": 0.5, "ari": 0.5, "images": 100}
    print_figures({"unlabelled": figures, "earlier": {"plain": figures | {"accuracy": plain}}})
    told = capsys.readouterr().out
    assert f"k-means on the plain features: accuracy {plain:.1%}" in told
    assert ("the result is worse" in told) == worse


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (0.5, 0.75, "of images of known categories (old) 50.0% are right, of novel ones (new) 75.0%"),
        (
            None,
            0.75,
            "no image with an answer is of a known category (old); of novel ones (new) 75.0% are right",
        ),
        (0.5, None, "of images of known categories (old) 50.0% are right; none with an answer is of a novel one (new)"),
    ],
)
def test_a_mixed_pile_without_known_or_without_novel_images_says_so(old, new, line, capsys):
    print_figures({"unlabelled": {"accuracy": 0.6, "nmi": 0.5, "ari": 0.5, "images": 9, "old": old, "new": new}})
    assert line in capsys.readouterr().out.splitlines()


def test_confidence_that_is_not_calibrated_is_called_so(capsys):
    print_trust({"confidence": {"mean": 0.99, "calibrated": False}})
    told = capsys.readouterr().out
    assert "not calibrated" in told
    assert "99%" not in told
