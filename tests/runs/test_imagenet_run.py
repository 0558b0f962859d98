"""A run on ImageNet in its own layout, small: the recipes of ImageNet go through from the command to the figures."""

import csv
import json
import sys

import pytest
from reference.publishers import write_imagenet

from newfound.cli import main as cli
from newfound.data.imagenet import Splits

CLASSES = [f"n{k:08d}" for k in range(8)]
HELD_OUT = frozenset(CLASSES[5:])
TOY = Splits(classes=8, held_out=HELD_OUT, subsets={"A": frozenset(CLASSES[6:])})
SMALL = {"network": "tiny", "data.size": 32, "stage1.epochs": 1, "stage1.batch": 8}
OF_METHOD = {
    "kmeans": {"views.pad": 4},
    "apl": {
        "views.extra": 2, "views.extra_size": 16, "dino.hidden": 32, "dino.bottleneck": 16, "dino.out": 64,
        "stage1.warmup_epochs": 0, "stage2.batch": 8,
    },
}  # fmt: skip


@pytest.mark.parametrize("method", OF_METHOD)
def test_the_recipe_of_imagenet_runs_on_a_small_tree(method, tmp_path, monkeypatch, capsys):
    write_imagenet(tmp_path / "root", CLASSES, {"train": 6, "val": 2})
    monkeypatch.setattr("newfound.data.imagenet.published_splits", lambda: TOY)
    settings = [word for name, value in (SMALL | OF_METHOD[method]).items() for word in ("--set", f"{name}={value}")]
    words = ["--dataset", "imagenet-a", "--data", tmp_path / "root", "--method", method, "--out", tmp_path / "run"]
    monkeypatch.setattr(sys, "argv", ["newfound", "discover", *map(str, words), *settings, "--threads", "1", "--quiet"])
    assert cli.status() == 0, capsys.readouterr().err
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["images"] == {"labelled": 30, "unlabelled": 12, "test": 14, "skipped": 0}
    assert (result["known"], len(result["novel"])) == (CLASSES[:5], 2)
    assert set(result["test"]) == {"paper", "single", "strict", "task-aware"}
    assert result["unlabelled"]["accuracy"] >= 0.5
    with open(tmp_path / "run" / "assignments.csv") as file:
        images = [row["image"] for row in csv.DictReader(file)]
    assert {image.split("/")[1] for image in images} == set(CLASSES[6:])
