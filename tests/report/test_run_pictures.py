"""Pictures of runs: what they show is what the run's files say."""

import csv
import json
import shutil
import sys

import numpy as np
import pytest
from methods_tiny import TINY

import newfound
from newfound.cli import main as cli
from newfound.progress import Reporter
from newfound.report.drawing import digest_of
from newfound.report.pictures import COLOURS, Map, draw_maps, draw_matrices, within_unit
from newfound.runfolder import Run
from newfound.runs.pictures import confusions, draw_pictures, feature_maps

QUIET = Reporter(quiet=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("pictures") / "run"
    return newfound.discover(
        dataset="digits", method="apl", settings=TINY, snapshots=[1, "stage2:1"], threads=1, out=out
    ).folder


@pytest.fixture(autouse=True)
def few_points(monkeypatch):
    monkeypatch.setattr("newfound.runs.pictures.MOST_POINTS", 100)


def words(drawing):
    return [shape[2] for shape in drawing.drawn if shape[0] == "text"]


def discs(drawing):
    return [(*shape[1], shape[2]) for shape in drawing.drawn if shape[0] == "disc"]


def test_points_lie_where_they_should_in_the_colour_of_their_category():
    positions = np.array([[-4.0, 0.0], [4.0, 2.0], [0.0, 0.0]])
    drawing = draw_maps("Title", [Map("epoch 1", positions, ["dog", "frog", "dog"])])
    assert words(drawing) == ["Title", "dog", "frog", "epoch 1"]
    points = [disc for disc in discs(drawing) if disc[2] < 3]
    assert [colour for *_, colour in points] == [COLOURS[0], COLOURS[1], COLOURS[0]]
    (x0, y0, *_), (x1, y1, *_), (x2, y2, *_) = points
    assert x1 - x0 == pytest.approx(340 - 16)
    assert y1 - y0 == pytest.approx((340 - 16) / 4, abs=0.1)
    assert (x2 - x0, y2) == (pytest.approx((x1 - x0) / 2), y0)
    assert within_unit(positions).min() == 0


def test_categories_have_a_legend_unless_there_are_too_many():
    for n in (20, 21):
        names = [f"category-{i:02d}" for i in range(n)]
        drawing = draw_maps("", [Map("", np.random.default_rng(0).normal(size=(n, 2)), names)])
        assert ("category-00" in words(drawing)) == (n == 20)
        assert len({colour for _, _, radius, colour in discs(drawing) if radius < 3}) == n


def test_a_matrix_has_the_share_of_each_true_category_on_its_diagonal_where_it_is_right():
    pairs = [("b", "cat", 90), ("a", "cat", 10), ("a", "dog", 40), ("c", "dog", 60)]
    drawing = draw_matrices("Title", {"in the end": pairs})
    assert words(drawing)[2] == "in the end: 75.0 % right"
    boxes = [shape for shape in drawing.drawn if shape[0] == "box"]
    numbers = {tuple(shape[1]): shape[2] for shape in drawing.drawn if shape[0] == "text" and shape[2].isdigit()}
    centres = [((box[1][0] + box[1][2]) / 2, (box[1][1] + box[1][3]) / 2) for box in boxes]
    cells = [numbers.get((round(x, 1), round(y, 1)), "") for x, y in centres]
    assert cells == ["90", "", "10", "", "60", "40"], "cat: b, c, a; dog: b, c, a"
    assert [word for word in words(drawing) if word in ("cat", "dog", "a", "b", "c")] == [
        "cat",
        "dog",
        "cat",
        "dog",
        "a",
    ]


def test_a_run_is_drawn_with_its_true_categories_where_they_are_known(run, tmp_path):
    made = draw_pictures(run, tmp_path / "pictures", None, QUIET)
    assert [path.name for path in made] == ["features.png", "confusion.png"]
    maps = feature_maps(Run.open(run), None, QUIET)
    assert [one.title for one in maps] == ["stage1, epoch 1", "stage2-1, epoch 1", "stage2-2, epoch 1"]
    assert set(maps[0].categories) == set("13579")
    title = "t-SNE of the features of 100 unlabelled images, coloured by true category"
    assert digest_of(made[0]) == draw_maps(title, maps).digest()


def test_the_matrices_are_those_of_the_figures(run):
    parts = confusions(Run.open(run))
    result = json.loads((run / "result.json").read_text())
    expected = [result["earlier"]["stage1"]["accuracy"], result["unlabelled"]["accuracy"]]
    assert list(parts) == ["after stage1", "in the end"]
    said = [word for word in words(draw_matrices("", parts)) if word.endswith("right")]
    assert said == [
        f"{name}: {100 * accuracy:.1f} % right" for name, accuracy in zip(parts, expected, strict=True)
    ]  # fmt: skip


def test_without_answers_found_categories_have_the_colours_and_a_table_of_answers_helps(run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    (copy / "snapshots" / "truth.csv").unlink()
    (copy / "confusion.csv").unlink()
    with open(copy / "assignments.csv") as file:
        rows = list(csv.DictReader(file))
    maps = feature_maps(Run.open(copy), None, QUIET)
    assert set(maps[0].categories) <= {row["category"] for row in rows}
    assert [path.name for path in draw_pictures(copy, tmp_path / "out", None, QUIET)] == ["features.png"]
    table = "image,label\n" + "".join(f"{row['image']},{'x' if i % 2 else 'y'}\n" for i, row in enumerate(rows))
    (tmp_path / "truth.csv").write_text(table)
    made = draw_pictures(copy, tmp_path / "out", tmp_path / "truth.csv", QUIET)
    assert [path.name for path in made] == ["features.png", "confusion.png"]


def call(monkeypatch, capsys, *given):
    monkeypatch.setattr(sys, "argv", ["newfound", *map(str, given)])
    return cli.status(), capsys.readouterr()


def test_the_command_names_what_it_wrote(run, tmp_path, monkeypatch, capsys):
    status, said = call(monkeypatch, capsys, "pictures", run, "--out", tmp_path / "out", "--quiet", "--json")
    assert (status, json.loads(said.out)) == (0, {"pictures": [str(tmp_path / "out" / "features.png"),
                                                               str(tmp_path / "out" / "confusion.png")]})  # fmt: skip


def test_what_cannot_be_drawn_is_a_sentence(run, tmp_path, monkeypatch, capsys):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    status, said = call(monkeypatch, capsys, "pictures", copy, "--out", copy / "out")
    assert (status, "lies in the run" in said.err) == (2, True)
    (tmp_path / "file").write_text("mine")
    status, said = call(monkeypatch, capsys, "pictures", copy, "--out", tmp_path / "file")
    assert (status, "is no folder" in said.err) == (2, True)
    (tmp_path / "empty.csv").write_text("image,label\ndigits-0001,\n")
    given = ["--out", tmp_path / "out", "--answers", tmp_path / "empty.csv"]
    status, said = call(monkeypatch, capsys, "pictures", copy, *given)
    assert (status, "no label for any of the 679 images" in said.err) == (2, True)
    snapshot = copy / "snapshots" / "stage1-00001.safetensors"
    content = bytearray(snapshot.read_bytes())
    content[-1] ^= 1
    snapshot.write_bytes(content)
    status, said = call(monkeypatch, capsys, "pictures", copy, "--out", tmp_path / "out")
    assert (status, "cannot be read" in said.err, "checksum" in said.err) == (2, True, True)
    shutil.rmtree(copy / "snapshots")
    (copy / "confusion.csv").unlink()
    status, said = call(monkeypatch, capsys, "pictures", copy, "--out", tmp_path / "out")
    assert (status, "there is nothing to draw" in said.err) == (2, True)
    assert not (tmp_path / "out").exists()
