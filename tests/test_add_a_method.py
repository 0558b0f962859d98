"""docs/add-a-method.md: a new method is one file and one recipe, and everything works with it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import newfound

HERE = Path(__file__).parent
PACKAGE = Path(newfound.__file__).parent

SCRIPT = '''
import contextlib, io, json, os, signal, sys
from pathlib import Path

import numpy as np
from PIL import Image

import newfound
from newfound.cli import main
from newfound.data.digits import read_digits
from newfound.methods.deep_cluster import Clustered

ROOT, found = Path(sys.argv[1]), {"package": newfound.__file__}


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


def test_a_method_is_one_file_and_one_recipe_and_every_command_works_with_it(tmp_path):
    lines = (HERE / "example" / "deep_cluster.py").read_text().splitlines()
    assert len(lines) <= 60
    shutil.copytree(PACKAGE, tmp_path / "newfound", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "example" / "deep_cluster.py", tmp_path / "newfound" / "methods")
    shutil.copy(HERE / "example" / "deep-cluster.yaml", tmp_path / "newfound" / "recipes")
    (tmp_path / "data").mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "data"],
        env=os.environ | {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert Path(found["package"]).parent == tmp_path / "newfound"
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
    page = (HERE.parent / "docs" / "add-a-method.md").read_text()
    method = (HERE / "example" / "deep_cluster.py").read_text()
    shown = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert "\n\n".join(part.strip("\n") for part in shown) == re.sub(r"\n{3,}", "\n\n", method.strip("\n"))
    assert f"a whole method of {len(method.splitlines())} lines" in page
