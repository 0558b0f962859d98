"""`export --to model.onnx`: a run's model for programs that have onnxruntime alone."""

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

import newfound
from newfound import UserError
from newfound.cli import main as cli

ALONE = """
import csv, json, sys
import numpy as np, onnxruntime
from PIL import Image

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
categories = json.loads(session.get_modelmeta().custom_metadata_map["categories"])
for path in sys.argv[2:]:
    image = np.ascontiguousarray(np.asarray(Image.open(path).convert("RGB")).transpose(2, 0, 1)[None])
    probabilities = session.run(["probabilities"], {"images": image})[0][0]
    print(path, categories[probabilities.argmax()], f"{probabilities.max():.6f}", sep=",")
assert not {"newfound", "torch"} & set(sys.modules)
"""
SNIPPET = re.compile(r"```python\n(import json\n.*?onnxruntime.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on folders of pictures of 20 x 24 pixels, which the model's size does not divide."""
    root = tmp_path_factory.mktemp("trained")
    rng = np.random.default_rng(0)
    for number in range(60):
        category = number % 5
        folder = root / "known" / "abc"[category] if category < 3 else root / "pile"
        folder.mkdir(parents=True, exist_ok=True)
        level = 40 + 40 * category + rng.integers(-15, 16, (20, 24, 3))
        Image.fromarray(level.astype(np.uint8)).save(folder / f"{number:03d}.png")
    settings = {"stage1.epochs": 1, "data.size": 16, "network": "tiny"}
    newfound.discover(
        root / "known", root / "pile", n_novel=2, out=root / "run", method="kmeans", settings=settings,
        device="cpu", cache=root / "cache",
    )  # fmt: skip
    return root


@pytest.fixture
def called(monkeypatch, capsys):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["newfound", *map(str, words), "--quiet"])
        return cli.status(), *capsys.readouterr()

    return call


def metadata(path):
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


def test_onnxruntime_alone_names_what_predict_names(trained, tmp_path, called):
    status, out, _ = called("export", trained / "run", "--to", tmp_path / "model.onnx")
    assert status == 0
    assert "compared with PyTorch on 24 images of the run" in out
    assert called("predict", trained / "run", trained / "pile", "--out", tmp_path / "found.csv")[0] == 0
    with open(tmp_path / "found.csv") as file:
        wanted = [(row["image"], row["category"], float(row["confidence"])) for row in csv.DictReader(file)]
    command = [sys.executable, "-c", ALONE, str(tmp_path / "model.onnx"), *(image for image, _, _ in wanted)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = [line.split(",") for line in done.stdout.splitlines()]
    assert [(image, category) for image, category, _ in found] == [(i, c) for i, c, _ in wanted]
    np.testing.assert_allclose([float(sure) for *_, sure in found], [sure for *_, sure in wanted], atol=1e-4)


def test_the_page_shows_how_to_use_the_file(trained, tmp_path, called):
    assert called("export", trained / "run", "--to", tmp_path / "model.onnx")[0] == 0
    shutil.copy(next((trained / "pile").iterdir()), tmp_path / "new.png")
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
    code = SNIPPET.search(page)[1] + "\nimport sys\nassert not {'newfound', 'torch'} & set(sys.modules)\n"
    assert len(SNIPPET.search(page)[1].strip().splitlines()) <= 12
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    wanted = json.loads(called("predict", trained / "run", tmp_path / "new.png", "--json")[1])[0]
    assert wanted["category"] in done.stdout


def test_the_metadata_names_what_the_result_names(trained, tmp_path):
    found = newfound.load(trained / "run"), newfound.Discovery.of(newfound.runs.found.Run.open(trained / "run"))
    written = found[1].export_onnx(tmp_path / "model.onnx")
    assert written.real
    assert written.difference < 1e-4
    props = metadata(tmp_path / "model.onnx")
    assert json.loads(props["categories"]) == found[0].classes_.tolist()
    assert json.loads(props["near"]) == found[1].result["near"]
    assert props["weights"] == "trained by newfound from scratch"
    assert props["newfound"] == newfound.__version__


@pytest.mark.parametrize("given", [["--link", "hard"], ["--min-confidence", "0.5"], ["--pile", "elsewhere"]])
def test_options_for_folders_are_refused(given, trained, tmp_path, called):
    status, _, error = called("export", trained / "run", "--to", tmp_path / "model.onnx", *given)
    assert (status, error.count("\n")) == (2, 1)
    assert f"{given[0]} is for a folder of images" in error
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_into_the_run(trained, called):
    before = sorted((trained / "run").iterdir())
    status, _, error = called("export", trained / "run", "--to", trained / "run" / "model.onnx")
    assert (status, "lies in the run" in error) == (2, True)
    assert sorted((trained / "run").iterdir()) == before


def test_where_the_images_are_gone_random_ones_are_compared(trained, tmp_path, called):
    shutil.copytree(trained / "run", tmp_path / "run")
    (trained / "pile").rename(trained / "away")
    try:
        status, out, _ = called("export", tmp_path / "run", "--to", tmp_path / "model.onnx")
    finally:
        (trained / "away").rename(trained / "pile")
    assert status == 0
    assert "on 64 random images" in out
    assert json.loads(metadata(tmp_path / "model.onnx")["compared"])["real"] is False


def test_a_run_that_is_not_finished_is_not_exported(trained, tmp_path, called):
    shutil.copytree(trained / "run", tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    status, _, error = called("export", tmp_path / "run", "--to", tmp_path / "model.onnx")
    assert (status, "is not finished" in error) == (2, True)


def test_from_python_a_folder_is_not_called_like_a_model(trained, tmp_path):
    found = newfound.load(trained / "run"), newfound.Discovery.of(newfound.runs.found.Run.open(trained / "run"))
    with pytest.raises(UserError, match="export_onnx"):
        found[1].export(tmp_path / "model.onnx")


def test_an_estimator_exports_its_model_with_its_own_names(tmp_path):
    from sklearn.datasets import load_digits

    digits = load_digits()
    images, labels = (digits.images * 15.9).astype(np.uint8)[:200], digits.target[:200]
    model = newfound.Discoverer("kmeans", n_novel=5, settings={"stage1.epochs": 1}, device="cpu")
    model.fit(images, np.where(labels % 2 == 0, labels, -1))
    written = model.export_onnx(tmp_path / "model.onnx", images)
    assert (written.images, written.real) == (200, True)
    assert json.loads(metadata(tmp_path / "model.onnx")["categories"]) == [str(c) for c in model.classes_]
