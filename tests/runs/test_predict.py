import csv
import io
import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import newfound
from newfound import UserError
from newfound.cli import main as cli
from newfound.model import load_model
from newfound.progress import Reporter
from newfound.runs.export import export_predictions
from newfound.runs.predict import Prediction, Predictor

TINY = {"network": "tiny", "data.size": 8, "stage1.epochs": 2, "stage1.batch": 8}


def called(words, monkeypatch, capsys):
    """Exit status, standard output and standard error of a command, run in this process."""
    monkeypatch.setattr(sys, "argv", ["newfound", *map(str, words)])
    status = cli.status()
    return status, *capsys.readouterr()


def picture(path, level, rng):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(rng.integers(level, level + 60, (8, 8, 3), dtype=np.uint8)).save(path)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Known categories, dark and bright, of which one is called =cmd; a pile between them; other images of all."""
    root, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for i in range(6):
        picture(root / "known" / "=cmd" / f"{i}.png", 0, rng)
        picture(root / "known" / "bright" / f"{i}.png", 190, rng)
        picture(root / "pile" / f"{i}.png", 100, rng)
        picture(root / "new" / f"{i}.png", [0, 100, 190][i % 3], rng)
    (root / "new" / "notes.txt").write_text("no image")
    return root


@pytest.fixture(scope="module")
def run(folders):
    found = newfound.discover(
        folders / "known", folders / "pile", n_novel=2, out=folders / "run", settings=TINY, cache=folders / "cache"
    )
    return found.folder


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A run on the pixels of the digits without a 7, which is in seven.npy; others.npy has digits it has not seen."""
    root, raw = tmp_path_factory.mktemp("digits"), load_digits()
    pixels, truth = raw.data.astype(np.float32) / 16, raw.target
    trained = (np.arange(len(truth)) % 4 < 3) & (truth != 7)
    np.save(root / "trained.npy", pixels[trained])
    np.save(root / "seven.npy", pixels[truth == 7])
    np.save(root / "others.npy", pixels[~trained & (truth != 7)])
    even = [f"{i},{t}\n" for i, t in enumerate(truth[trained]) if t % 2 == 0]
    (root / "labels.csv").write_text("image,label\n" + "".join(even))
    files = {"features": root / "trained.npy", "labels": root / "labels.csv"}
    newfound.discover(**files, n_novel=4, out=root / "run", cache=root / "cache")
    return root


def test_a_category_nobody_trained_on_is_rejected_far_more_often(digits, monkeypatch, capsys):
    rates = {}
    for name in ("seven", "others"):
        words = ["predict", digits / "run", digits / f"{name}.npy", "--reject", 0.05, "--json", "--quiet"]
        status, out, _ = called(words, monkeypatch, capsys)
        rows = json.loads(out)
        assert status == 0
        assert all(row["rejected"] == (row["p_value"] <= 0.05) for row in rows)
        rates[name] = np.mean([row["rejected"] for row in rows])
    assert rates["others"] < 0.08
    assert rates["seven"] > 0.4


def test_the_images_held_out_are_counted_and_were_not_trained_on(digits):
    result = json.loads((digits / "run" / "result.json").read_text())
    assert result["images"]["test"] == 33
    labelled = (digits / "labels.csv").read_text().count("\n") - 1
    assert result["images"]["labelled"] == labelled - 33
    assert len(load_model(digits / "run" / "model").strangeness.held_out) == 33


def test_rows_of_features_can_have_names(digits, tmp_path, monkeypatch, capsys):
    ids, files = tmp_path / "ids.txt", [digits / "seven.npy", digits / "others.npy"]
    n = sum(len(np.load(file)) for file in files)
    ids.write_text("".join(f"photos/{i}.jpg\n" for i in range(n)))
    words = ["predict", digits / "run", *files, "--json", "--quiet"]
    plain, named = (json.loads(called(some, monkeypatch, capsys)[1]) for some in (words, [*words, "--ids", ids]))
    assert [row["image"] for row in named] == [f"photos/{i}.jpg" for i in range(n)]
    assert plain[0]["image"] == f"{files[0]}:0"
    assert [row["category"] for row in named] == [row["category"] for row in plain]
    status, _, err = called([*words[:3], "--ids", ids], monkeypatch, capsys)
    assert status == 2
    assert f"names {n:,} images, and there are features of" in err
    status, _, err = called([*words, "--ids", ids, "--out", ids], monkeypatch, capsys)
    assert (status, "is the file of --ids" in err) == (2, True)


def test_rows_that_have_names_are_not_called_by_their_numbers(digits, tmp_path):
    """A name for each row of a large file is memory; of those that are asked for, only a block is held."""

    class Counting(type(digits)):
        asked = 0

        def __format__(self, spec):
            Counting.asked += 1
            return super().__format__(spec)

    ids, file = tmp_path / "ids.txt", Counting(digits / "seven.npy")
    n = len(np.load(file))
    ids.write_text("".join(f"{i}.jpg\n" for i in range(n)))
    predictor = Predictor(digits / "run", reporter=Reporter(quiet=True))
    assert [one.image for one in predictor.predict([file], ids)] == [f"{i}.jpg" for i in range(n)]
    assert Counting.asked == 0
    assert [one.image for one in predictor.predict([file])] == [f"{digits / 'seven.npy'}:{i}" for i in range(n)]
    assert Counting.asked == n


def test_python_rejects_as_the_command_does(digits, monkeypatch, capsys):
    seven = np.load(digits / "seven.npy")
    model = newfound.load(digits / "run")
    words = ["predict", digits / "run", digits / "seven.npy", "--reject", 0.05, "--json", "--quiet"]
    rows = json.loads(called(words, monkeypatch, capsys)[1])
    assert [name is None for name in model.predict(seven, reject=0.05)] == [row["rejected"] for row in rows]
    np.testing.assert_allclose(model.score_samples(seven), [row["p_value"] for row in rows], rtol=1e-5)
    model.calibrate(seven)
    assert np.mean([name is None for name in model.predict(seven, reject=0.05)]) <= 0.05
    model.save(digits / "model")
    again = newfound.load(digits / "model")
    np.testing.assert_array_equal(again.score_samples(seven), model.score_samples(seven))


def test_a_model_of_features_says_nothing_of_images(digits, folders):
    model = newfound.load(digits / "run")
    for images in ([folders / "new" / "0.png"], np.zeros((2, 8, 8), np.uint8)):
        with pytest.raises(UserError, match="made of features"):
            model.predict(images)


def test_whole_number_labels_reject_with_minus_one(digits):
    pixels = np.load(digits / "trained.npy")
    labels = np.where(np.arange(len(pixels)) < 600, np.load(digits / "trained.npy").argmax(1) % 2, -1)
    model = newfound.Discoverer("apl-features", n_novel=2, settings={"stage2.epochs": 1}).fit(pixels, labels)
    with pytest.raises(UserError, match="nothing was held out"):
        model.predict(pixels, reject=0.05)
    with pytest.raises(UserError, match="nothing was held out"):
        model.score_samples(pixels)
    found = model.calibrate(np.load(digits / "others.npy")).predict(-np.ones((3, 64), np.float32), reject=0.05)
    assert found.tolist() == [-1, -1, -1]


def test_images_come_in_their_order_however_few_are_in_memory(run, folders, monkeypatch, capsys):
    words = ["predict", run, folders / "new", folders / "pile" / "0.png", "--json", "--quiet"]
    whole = json.loads(called(words, monkeypatch, capsys)[1])
    blocks = []

    def two_at_a_time(size, channels):
        blocks.append((size, channels))
        return 2

    monkeypatch.setattr("newfound.runs.predict.block_within", two_at_a_time)
    some = json.loads(called(words, monkeypatch, capsys)[1])
    assert blocks == [(8, 3)]
    assert [row["image"] for row in some] == [row["image"] for row in whole]
    assert [row["image"][-5:] for row in some] == [f"{i}.png" for i in (*range(6), 0)]
    np.testing.assert_allclose([r["confidence"] for r in some], [r["confidence"] for r in whole], rtol=1e-5)


def test_python_reads_files_in_blocks_too(run, folders, monkeypatch):
    model, files = newfound.load(run), sorted((folders / "new").glob("*.png"))
    whole = model.predict_proba(files)
    monkeypatch.setattr("newfound.estimator.discoverer.block_within", lambda size, channels: 2)
    np.testing.assert_allclose(model.predict_proba(files), whole, rtol=1e-4)
    np.testing.assert_allclose(model.predict_proba(np.array(list(map(str, files)))), whole, rtol=1e-4)


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\0"])
def test_a_list_on_standard_input_is_read(separator, run, folders, monkeypatch, capsys):
    names = [str(folders / "new" / "3.png"), str(folders / "pile")]
    listing = io.TextIOWrapper(io.BytesIO(separator.join([*names, ""]).encode()))
    monkeypatch.setattr(sys, "stdin", listing)
    status, out, _ = called(["predict", run, "-", "--json", "--quiet"], monkeypatch, capsys)
    assert status == 0
    assert [row["image"] for row in json.loads(out)] == [names[0], *(f"{names[1]}/{i}.png" for i in range(6))]


def test_a_table_has_a_column_for_every_category_where_asked(run, folders, monkeypatch, capsys, tmp_path):
    out = tmp_path / "found.csv"
    words = ["predict", run, folders / "new", "--out", out, "--probabilities"]
    status, said, errors = called(words, monkeypatch, capsys)
    assert status == 0
    assert "notes.txt: not an image" in errors
    assert f"{out}: the category of every image" in said
    rows = list(csv.DictReader(io.StringIO(out.read_text(), newline="")))
    assert list(rows[0]) == [
        "image", "category", "confidence", "P(=cmd)", "P(bright)", "P(novel-01)", "P(novel-02)"
    ]  # fmt: skip
    for row in rows:
        shares = [float(value) for name, value in row.items() if name.startswith("P(")]
        assert sum(shares) == pytest.approx(1, abs=1e-5)
        assert float(row["confidence"]) == max(shares)
    assert [p.name for p in tmp_path.iterdir() if "found" in p.name] == ["found.csv"]


def test_no_name_becomes_a_formula(run, folders, monkeypatch, capsys, tmp_path):
    shutil.copy(folders / "known" / "=cmd" / "0.png", tmp_path / "=cmd.png")
    monkeypatch.chdir(tmp_path)
    _, out, _ = called(["predict", run, "=cmd.png", "--quiet"], monkeypatch, capsys)
    assert out.splitlines()[1].startswith("./=cmd.png,'=cmd,")
    assert (tmp_path / "./=cmd.png").is_file()


def test_a_long_table_has_one_header(run, folders, monkeypatch, capsys):
    monkeypatch.setattr("newfound.runs.predict.BLOCK", 2)
    _, out, _ = called(["predict", run, folders / "new", "--quiet"], monkeypatch, capsys)
    assert out.count("image,category") == 1
    assert len(out.splitlines()) == 7


def test_a_table_that_fails_leaves_the_old_one(run, folders, monkeypatch, capsys, tmp_path):
    out = tmp_path / "found.csv"
    out.write_text("old")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("newfound.runs.predict.read_features", lambda *_, **__: interrupt())
    status, _, _ = called(["predict", run, folders / "new", "--out", out], monkeypatch, capsys)
    assert status == 130
    assert out.read_text() == "old"
    assert not list(tmp_path.glob(".*writing"))


def test_a_table_is_written_through_a_link(run, folders, monkeypatch, capsys, tmp_path):
    link, target = tmp_path / "link.csv", tmp_path / "target.csv"
    target.write_text("old")
    link.symlink_to(target)
    status, _, _ = called(["predict", run, folders / "new", "--out", link], monkeypatch, capsys)
    assert status == 0
    assert link.is_symlink()
    assert target.read_text().startswith("image,category")


def test_what_is_no_plain_file_is_never_replaced(run, folders, monkeypatch, capsys, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    status, _, said = called(["predict", run, folders / "new", "--out", tmp_path / "pipe"], monkeypatch, capsys)
    assert status == 2
    assert "is no plain file: name the CSV file to write" in " ".join(said.split())
    assert (tmp_path / "pipe").is_fifo()


def test_names_of_rows_are_for_features(run, folders, tmp_path, monkeypatch, capsys):
    (tmp_path / "ids.txt").write_text("a.png\n")
    status, _, err = called(["predict", run, folders / "new", "--ids", tmp_path / "ids.txt"], monkeypatch, capsys)
    assert (status, "--ids names the rows of features, and this run was made of images" in err) == (2, True)


@pytest.mark.parametrize("link", [None, "symlink"])
def test_images_are_laid_out_by_the_category_they_are_given(link, run, folders, monkeypatch, capsys, tmp_path):
    named = json.loads(called(["predict", run, folders / "new", "--json", "--quiet"], monkeypatch, capsys)[1])
    words = [
        "predict",
        run,
        folders / "new",
        "--to",
        tmp_path / "sorted",
        "--quiet",
        *(["--link", link] if link else []),
    ]
    status, printed, errors = called(words, monkeypatch, capsys)
    assert status == 0, errors
    for row in named:
        place = tmp_path / "sorted" / row["category"] / Path(row["image"]).name
        assert place.read_bytes() == Path(row["image"]).read_bytes()
        assert place.is_symlink() == (link == "symlink")
    counts = Counter(row["category"] for row in named)
    assert printed == "".join(f"{tmp_path / 'sorted' / name}  {counts[name]} images\n" for name in sorted(counts))
    assert (tmp_path / "sorted" / "_images.csv").read_text().startswith("file,image,category,confidence\n")


def test_rejected_images_are_laid_out_as_doubtful(tmp_path):
    files = [tmp_path / name for name in ("a.png", "b.png")]
    for file in files:
        file.write_bytes(b"image")
    found = [
        Prediction(str(file), "cat", 0.9, [], 0.01, rejected)
        for file, rejected in zip(files, (False, True), strict=True)
    ]
    made = export_predictions(found, [], tmp_path / "sorted", reporter=Reporter(quiet=True))
    assert made == {"_doubtful": 1, "cat": 1}
    assert (tmp_path / "sorted" / "_doubtful" / "b.png").is_file()


def test_images_to_calibrate_with_may_be_given(run, folders, monkeypatch, capsys):
    words = ["predict", run, folders / "new", "--reject", 0.2, "--calibrate", folders / "pile", "--json", "--quiet"]
    status, out, _ = called(words, monkeypatch, capsys)
    assert status == 0
    assert {round(row["p_value"] * 7, 9) for row in json.loads(out)} <= set(range(1, 8))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["{new}", "--reject", "0"], "--reject 0.0: it is a share of the images, above 0 and below 1"),
        (["{new}", "--reject", "nan"], "--reject nan: it is a share"),
        (["{new}", "--reject", "0.05"], "nothing was held out when this model was made"),
        (
            ["{new}", "--reject", "0.05", "--calibrate", "{pile}"],
            "needs 19 images .* knows of 6: choose 0.1429 or more",
        ),
        (["{new}", "--calibrate", "{pile}"], "--calibrate is for --reject"),
        (["{new}", "--out", "{new}"], "is a folder"),
        (["{new}", "--out", "{new}/no/such/file.csv"], "in a folder that does not exist"),
        (["{new}", "--out", "{new}/1.png"], "1.png is one of the images"),
        (["{new}", "--out", "{run}/assignments.csv"], "lies in the run"),
        (["{new}", "--to", "{new}/sorted"], "lies inside .*new, among the images"),
        (["{new}", "--to", "{run}/sorted"], "lies inside"),
        (["{new}", "--to", "{run}/../sorted", "--link", "soft"], "--link soft: it can be"),
        (["{new}", "--link", "hard"], "--link is for --to"),
        (["{new}/notes.txt"], "none of the 1 files"),
        (["{new}/none.png"], "there is no file or folder"),
        (["-"], "the list of images on standard input is empty"),
    ],
)
def test_wrong_calls_are_one_line_and_status_2(words, complaint, run, folders, monkeypatch, capsys):
    import re

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    before = sorted(folders.rglob("*"))
    words = [word.format(new=folders / "new", pile=folders / "pile", run=run) for word in words]
    status, out, errors = called(["predict", run, *words, "--quiet"], monkeypatch, capsys)
    lines = [line for line in errors.splitlines() if not line.startswith("warning")]
    assert (status, out, len(lines)) == (2, "", 1)
    assert re.search(complaint, lines[0]), lines
    assert sorted(folders.rglob("*")) == before


@pytest.mark.parametrize(
    ("share", "complaint"), [(0.6, "from 0 to 0.5"), (-0.1, "from 0 to 0.5"), (float("nan"), "from 0 to 0.5")]
)
def test_a_share_that_cannot_be_held_out_is_refused(share, complaint, folders, tmp_path):
    with pytest.raises(UserError, match=f"hold_out .* {complaint}"):
        newfound.discover(folders / "known", folders / "pile", n_novel=2, out=tmp_path / "run", hold_out=share)
    with pytest.raises(UserError, match="data sets have test images"):
        newfound.discover(dataset="digits", out=tmp_path / "run", hold_out=0.1)


def test_a_model_without_strangeness_predicts_but_cannot_reject(run, folders, tmp_path):
    model = newfound.load(run)
    files = sorted((folders / "new").glob("*.png"))
    probabilities = model.predict_proba(files)
    model.model_.strangeness = None
    model.save(tmp_path / "model")
    again = newfound.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(files), probabilities)
    with pytest.raises(UserError, match="nothing was held out"):
        again.predict(files, reject=0.5)
    with pytest.raises(UserError, match="cannot tell strange images"):
        again.calibrate(files)
