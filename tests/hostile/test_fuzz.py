"""Whatever bytes a file holds, whoever reads it gives a value or one sentence: no other exception, and at once."""

import contextlib
import io
import json
import shutil

import numpy as np
import pytest
import torch
from hostile_files import every_case, note
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from newfound.data.answers import read_table
from newfound.data.embeddings import read_ids, read_vectors
from newfound.engine.checkpoint import Checkpoints
from newfound.errors import UserError
from newfound.model import load_model
from newfound.nets.weightfile import load_file
from newfound.ours import is_ours
from newfound.plan.recipe import load_recipe, parse_changes
from newfound.progress import Reporter
from newfound.report.curves import read_curves
from newfound.report.keep import read_kept
from newfound.runfolder import CONFUSION, CONFUSION_COLUMNS, Run
from newfound.runs.found import Discovery
from newfound.runs.snapshots import read_snapshots
from newfound.tensors import pack
from newfound.together import JOURNAL, finish_change

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(10**38, 10**45) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
NAMES = [
    "format",
    "known",
    "novel",
    "images",
    "unlabelled",
    "call",
    "source",
    "settings",
    "method",
    "stage",
    "step",
    "head",
]
mapping = st.dictionaries(st.sampled_from(NAMES), plain, max_size=5)
WORDS = [
    "a: ",
    "- ",
    "!!float ",
    "!!int ",
    "!!bool ",
    "!!null ",
    "!!binary ",
    "!mine ",
    "&a ",
    "*a",
    "''",
    "<<: ",
    "? ",
]
WORDS += [
    "1",
    ":59" * 200,
    ".5",
    "-",
    "0x",
    "0b1",
    "_",
    ".inf",
    "e+9",
    '"\\ud800"',
    '"\\U0000d800"',
    "[",
    "]",
    "\n",
    "\n  ",
]
odd_text = (
    st.text(max_size=40)
    | st.text(alphabet="[]{}:,&*!|>-?'\"#%@`\n \t0123456789.eE+_xa", max_size=60)
    | st.lists(st.sampled_from(WORDS), max_size=12).map("".join)
)


def mutated(original):
    """The bytes of a good file with a few of them changed, cut out or put in."""
    return st.builds(
        lambda place, cut, new: (
            original[: place % (len(original) + 1)] + new + original[place % (len(original) + 1) + cut :]
        ),
        st.integers(0, 10**6),
        st.integers(0, 20),
        st.binary(max_size=8) | odd_text.map(lambda text: text.encode(errors="surrogatepass")),
    )


def changed(original):
    """A good JSON file in which one value is another."""
    content = json.loads(original)

    def change(name, value):
        return json.dumps(content | {name: value}).encode()

    return st.builds(change, st.sampled_from(sorted(content)), plain)


def npy():
    file = io.BytesIO()
    np.save(file, np.zeros((3, 2), np.float32))
    return file.getvalue()


def _run(name, read):
    def call(folder, content):
        (folder / "run" / name).write_bytes(content)
        read(Run.open(folder / "run"))

    return call


def _file(read):
    def call(folder, content):
        (folder / "given").write_bytes(content)
        read(folder / "given")

    return call


def _checkpoint(folder, content):
    place = next((folder / "run" / "checkpoint").iterdir())
    (place / "state.json").write_bytes(content)
    Checkpoints(folder / "run" / "checkpoint", Reporter(quiet=True)).latest("stage1")


def _journal(folder, content):
    (folder / "run" / JOURNAL).write_bytes(content)
    finish_change(folder / "run", ("result.json",))


def _snapshot(folder, content):
    (folder / "run" / "snapshots").mkdir(exist_ok=True)
    (folder / "run" / "snapshots" / "stage1-00001.safetensors").write_bytes(content)
    read_snapshots(Run.open(folder / "run"), 3)


def _model(folder, content):
    (folder / "run" / "model" / "model.json").write_bytes(content)
    load_model(folder / "run" / "model")


def _confusion(run):
    run.read_table(CONFUSION, CONFUSION_COLUMNS)


def _curves(run):
    read_curves(run.folder / "metrics.jsonl")


GOOD = {
    "settings.yaml": ("run/settings.yaml", _run("settings.yaml", lambda run: None)),
    "result.json": ("run/result.json", _run("result.json", lambda run: (run.read_result(), run.read_assignments()))),
    "collection.json": ("run/collection.json", _run("collection.json", lambda run: run._read_json("collection.json"))),
    "assignments.csv": ("run/assignments.csv", _run("assignments.csv", Discovery.of)),
    "confusion.csv": (b"part,found,truth,images\n", _run(CONFUSION, _confusion)),
    "metrics.jsonl": ("run/metrics.jsonl", _run("metrics.jsonl", _curves)),
    "report.safetensors": ("run/report.safetensors", _run("report.safetensors", read_kept)),
    "snapshots": (pack({"features": torch.ones(2, 4), "images": torch.arange(2)}), _snapshot),
    "model.json": ("run/model/model.json", _model),
    "state.json": (b'{"format": 1, "stage": "stage1", "step": 3, "bytes": 10}', _checkpoint),
    "the journal": (b'{"result.json": ".result.json.0007abcd.writing"}', _journal),
    "recipes": (b"method: kmeans\nbase: kmeans\nstage1: {epochs: 3}\n", _file(lambda path: load_recipe(str(path)))),
    "labels": (b"image,label\na.png,b\n", _file(read_table)),
    "ids": (b"image\na.png\nb.png\n", _file(lambda path: read_ids(path, 2))),
    "features": (npy(), _file(read_vectors)),
    "weights": (save({"fc.weight": np.zeros(3, np.float32)}), _file(lambda path: load_file(path, None))),
}  # fmt: skip


def contents(folder, name):
    where = GOOD[name][0]
    original = where if isinstance(where, bytes) else (folder / where).read_bytes()
    some = mutated(original) | st.binary(max_size=60) | odd_text.map(lambda text: text.encode(errors="surrogatepass"))
    if name.endswith(".json") or name == "the journal":
        some |= changed(original) | mapping.map(lambda value: json.dumps(value).encode())
    return some


def fuzz(folder, name, examples):
    read = GOOD[name][1]
    tried = []

    @settings(
        max_examples=examples, derandomize=True, deadline=5000, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(contents(folder, name))
    def never_anything_else(content):
        tried.append(content)
        with contextlib.suppress(UserError):
            read(folder, content)

    never_anything_else()
    return len(tried)


@pytest.fixture
def copied(made_once, tmp_path):
    shutil.copytree(made_once / "run", tmp_path / "run")
    return tmp_path


@pytest.mark.parametrize("name", GOOD)
def test_any_bytes_are_a_value_or_a_sentence(copied, name):
    fuzz(copied, name, 12)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", GOOD)
def test_very_many_bytes_are_a_value_or_a_sentence(copied, name):
    note("fuzz", name, fuzz(copied, name, 600 if every_case() else 100), 0)


@given(st.lists(odd_text, max_size=2))
@settings(max_examples=60, derandomize=True, deadline=None, database=None)
def test_any_setting_on_the_command_line_is_a_value_or_a_sentence(values):
    with contextlib.suppress(UserError):
        parse_changes([f"a{i}={value}" for i, value in enumerate(values)])


@given(plain, plain)
@settings(max_examples=40, derandomize=True, deadline=None, database=None)
def test_any_mark_is_right_or_wrong(content, mark):
    assert is_ours(content, mark) is False
