"""docs/add-a-method.md: a new method is one file and one recipe in a package of its own, and all works with it."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "add-a-method.md"

SCRIPT = '''
import contextlib, io, json, os, signal, sys
from pathlib import Path

import numpy as np
from PIL import Image

import newfound
from newfound.cli import main
from newfound.data.digits import read_digits
from my_lab.deep_cluster import Clustered

ROOT, found = Path(sys.argv[1]), {}


def call(*words):
    """What a command prints; it has to end well."""
    sys.argv, out = ["newfound", *map(str, words)], io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(out):
        assert main.status() == 0, words
    return out.buffer.getvalue().decode()


collection = read_digits(0).collection
digits = collection.train.images[:, 0].numpy()
for i, digit in enumerate(digits):
    known = i < collection.n_labelled
    place = ROOT / ("known" if known else "pile") / (collection.classes[collection.labels[i]] if known else "")
    if i % 4 == 0:
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.kron(digit, np.ones((2, 2), np.uint8))).save(place / f"{i}.png")

found["methods"] = json.loads(call("methods", "--json"))["deep-cluster"]
quick = ("--set", "stage1.epochs=6", "--threads", "1", "--quiet")
data = ("discover", "--method", "deep-cluster", "--dataset", "digits", *quick)
call(*data, "--out", ROOT / "whole")
found["accuracy"] = json.loads((ROOT / "whole/result.json").read_text())["unlabelled"]["accuracy"]

real = Clustered.step


def stopping(self, batch, t):
    if int(t) == 40:
        os.kill(os.getpid(), signal.SIGTERM)
    return real(self, batch, t)


Clustered.step = stopping
sys.argv = ["newfound", *map(str, (*data, "--out", ROOT / "stopped"))]
found["stopped"] = main.status()
Clustered.step = real
call("resume", ROOT / "stopped", "--quiet")
found["same"] = all(
    (ROOT / "whole" / name).read_bytes() == (ROOT / "stopped" / name).read_bytes()
    for name in ("metrics.jsonl", "assignments.csv", "model/model.safetensors")
)

folders = ("--labelled", ROOT / "known", "--unlabelled", ROOT / "pile", "--novel", "5")
call("discover", "--method", "deep-cluster", *folders, "--out", ROOT / "run", "--time", "8s", "--quiet")
result = json.loads((ROOT / "run/result.json").read_text())
found["auto"] = {choice["what"]: choice["value"] for choice in result["auto"]}
found["trust"] = sorted(result["trust"])
found["predicted"] = len(json.loads(call("predict", ROOT / "run", ROOT / "pile", "--quiet", "--json")))
(ROOT / "run/report.html").unlink()
call("report", ROOT / "run", "--quiet")
found["page"] = (ROOT / "run/report.html").exists()
found["evaluated"] = json.loads(call("evaluate", ROOT / "whole", "--json", "--quiet"))["unlabelled"]["accuracy"]
call("export", ROOT / "run", "--to", ROOT / "sorted", "--quiet")
found["sorted"] = sum(path.suffix == ".png" for path in (ROOT / "sorted").rglob("*"))

model = newfound.Discoverer("deep-cluster", n_novel=5, settings={"stage1.epochs": 2})
some = np.r_[0:60, collection.n_labelled : collection.n_labelled + 60]
model.fit(np.kron(digits[some], np.ones((1, 2, 2), np.uint8)), collection.labels[some])
found["estimated"] = len(model.labels_)
print(json.dumps(found))
'''


@pytest.fixture
def lab(tmp_path):
    """Run Python or a command where a package of another name is installed that has the method of the page."""
    package, installed = tmp_path / "my_lab", tmp_path / "my_lab-1.0.dist-info"
    for folder in (package, installed, tmp_path / "data"):
        folder.mkdir()
    (package / "__init__.py").touch()
    for name in ("deep_cluster.py", "deep-cluster.yaml"):
        shutil.copy(HERE / "example" / name, package)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: my-lab\nVersion: 1.0\n")
    (said,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (points,) = tomllib.loads(said)["project"]["entry-points"].values()
    lines = [f"{name} = {place}" for name, place in points.items()]
    (installed / "entry_points.txt").write_text("\n".join(["[newfound.methods]", *lines]))
    env = os.environ | {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def run(*words):
        command = [sys.executable, *map(str, words)]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=tmp_path)

    return run


def test_a_method_is_one_file_and_one_recipe_and_every_command_works_with_it(lab, tmp_path):
    assert len((HERE / "example" / "deep_cluster.py").read_text().splitlines()) <= 60
    ran = lab("-c", SCRIPT, tmp_path / "data")
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["methods"]["package"] == "my_lab"
    assert found["methods"]["recipes"] == ["deep-cluster"]
    assert found["methods"]["summary"].startswith("Cluster the unlabelled images before every epoch")
    assert (found["methods"]["year"], found["methods"]["recorded"]) == (2018, {})
    assert found["accuracy"] == found["evaluated"] > 0.3
    assert (found["stopped"], found["same"]) == (130, True), "resume is exact"
    assert int(found["auto"]["epochs"]) >= 1
    assert "stability" in found["trust"]
    assert found["predicted"] == found["sorted"] > 100
    assert found["page"]
    assert found["estimated"] == 120


def test_the_page_shows_the_method_as_it_is():
    page = PAGE.read_text()
    method = (HERE / "example" / "deep_cluster.py").read_text()
    shown = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert "\n\n".join(part.strip("\n") for part in shown) == re.sub(r"\n{3,}", "\n\n", method.strip("\n"))
    assert f"a whole method of {len(method.splitlines())} lines" in page


def test_a_method_that_is_there_twice_or_not_at_all_is_told(lab, tmp_path):
    points, lists = tmp_path / "my_lab-1.0.dist-info" / "entry_points.txt", ("-m", "newfound", "methods")
    assert "  from the package my_lab\n" in lab(*lists).stdout
    for text, complaint in (
        ("uno = my_lab.deep_cluster", "several packages have a method uno, in newfound.methods.uno and my_lab.deep_"),
        (
            "other = my_lab.other",
            "an installed package says that it has a method in my_lab.other, but there is no such",
        ),
        ("other = gone.other", "an installed package says that it has a method in gone.other, but there is no such"),
    ):
        points.write_text(f"[newfound.methods]\n{text}\n")
        told = lab(*lists)
        assert (told.returncode, told.stderr.startswith(f"newfound: {complaint}")) == (2, True), told.stderr
        assert lab(*lists, "iic").returncode == 0, "others can be used"


BROKEN = {
    "__init__.py": "raise RuntimeError('this package is broken')",
    "deep_cluster.py": "import a_package_that_is_not_there",
}


@pytest.mark.parametrize("file", BROKEN)
def test_a_broken_package_breaks_its_own_methods_alone(lab, tmp_path, file):
    (tmp_path / "my_lab" / file).write_text(BROKEN[file])
    words = ["-m", "newfound", "discover", "--dataset", "digits", "--set", "stage1.epochs=1", "--out", tmp_path / "run"]
    assert lab(*words, "--method", "kmeans").returncode == 0
    words = ["--features", "f.npy", "--labels", "l.csv", "--novel", 2, "--method", "uno", "--out", tmp_path / "other"]
    told = lab("-m", "newfound", "discover", *words)
    assert "--features is for the method apl-features, kmeans or simgcd; uno learns from images" in told.stderr
    told = lab("-m", "newfound", "methods")
    assert told.returncode == 2
    assert "the method deep-cluster of another package, my_lab.deep_cluster, cannot be imported" in told.stderr


def test_what_is_no_name_of_a_method_is_passed_over_and_a_class_may_be_named(lab, tmp_path):
    points = tmp_path / "my_lab-1.0.dist-info" / "entry_points.txt"
    lines = ["../deep = my_lab.deep_cluster", "* = my_lab.deep_cluster", "/abs = my_lab.deep_cluster"]
    points.write_text("\n".join(["[newfound.methods]", *lines, "deep-cluster = my_lab.deep_cluster:DeepCluster"]))
    told = lab("-m", "newfound", "methods", "--json")
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert found["deep-cluster"]["takes"] == ["images"]
    assert not {"../deep", "*", "/abs"} & set(found)


def test_a_run_of_a_method_that_is_not_installed_is_told(lab, tmp_path):
    words = ["--method", "deep-cluster", "--set", "stage1.epochs=1", "--dataset", "digits", "--out", tmp_path / "run"]
    assert lab("-m", "newfound", "discover", *words).returncode == 0
    shutil.rmtree(tmp_path / "my_lab-1.0.dist-info")
    told = lab("-m", "newfound", "report", tmp_path / "run")
    assert told.returncode == 2
    assert "is of the method deep-cluster, which is not installed here" in told.stderr


def test_a_method_without_a_recipe_asks_for_one(lab, tmp_path):
    recipe = (tmp_path / "my_lab" / "deep-cluster.yaml").rename(tmp_path / "mine.yaml")
    words = ["-m", "newfound", "discover", "--method", "deep-cluster", "--dataset", "digits", "--out", tmp_path / "run"]
    told = lab(*words)
    assert told.returncode == 2
    assert "the method deep-cluster has no recipe that fits: name one with --recipe" in told.stderr
    assert lab(*words, "--recipe", recipe, "--set", "stage1.epochs=1").returncode == 0
