"""Devices, pipes, endless and malformed files where a small file is expected: a sentence, at once, in little memory."""

import io
import os
import shutil

import numpy as np
import pytest
import yaml

pytestmark = pytest.mark.timeout(60)

SMALL = ["settings.yaml", "result.json", "assignments.csv", "metrics.jsonl", "collection.json", "model/model.json"]
SMALL += ["model/model.safetensors", "report.safetensors", "confusion.csv", ".lock"]


def replace(path, how):
    path.parent.mkdir(exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if how == "fifo":
        os.mkfifo(path)
    elif how == "zero":
        path.symlink_to("/dev/zero")
    elif how == "proc":
        path.symlink_to("/proc/kmsg")
    elif how == "sparse":
        with open(path, "wb") as file:
            file.truncate(2**40)
    elif how == "folder":
        path.mkdir()


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", ["fifo", "zero", "proc", "sparse", "folder"])
@pytest.mark.parametrize("name", SMALL)
def test_what_is_no_small_file_in_a_run_is_a_sentence_or_of_no_matter(newfound, finished, made_once, name, how):
    run = finished / "run"
    replace(run / name, how)
    calls = [["report", run], ["evaluate", run, "--answers", finished / "truth.csv"], ["resume", run]]
    calls += [["predict", run, made_once / "pile"], ["export", run, "--to", finished / "sorted"]]
    for words in calls:
        status, lines = newfound(*words)
        assert status in (0, 2), (words, lines)
        assert status == 0 or [line[:10] for line in lines[-1:]] == ["newfound: "], lines
        assert "Traceback" not in "".join(lines)
    if name not in ("result.json",):
        (run / "result.json").unlink()
        status, lines = newfound("resume", run)
        assert status in (0, 2), lines


@pytest.mark.parametrize("how", ["fifo", "zero", "proc", "sparse", "folder"])
@pytest.mark.parametrize("option", ["features", "ids", "labels"])
def test_what_is_no_file_of_embeddings_is_a_sentence(newfound, tmp_path, option, how):
    np.save(tmp_path / "features.npy", np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32))
    (tmp_path / "ids").write_text("\n".join(f"i{n}" for n in range(20)))
    (tmp_path / "labels").write_text("image,label\n" + "".join(f"i{n},{'ab'[n % 2]}\n" for n in range(10)))
    path = tmp_path / ("features.npy" if option == "features" else option)
    replace(path, how)
    words = ["--features", tmp_path / "features.npy", "--ids", tmp_path / "ids", "--labels", tmp_path / "labels"]
    told = newfound.refused("discover", *words, "--novel", 2, "--out", tmp_path / "run")
    assert str(path) in told
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("how", ["fifo", "zero", "proc", "sparse", "folder"])
@pytest.mark.parametrize("option", ["--recipe", "--backbone", "--labels"])
def test_what_is_no_file_for_an_option_is_a_sentence(newfound, made_once, tmp_path, option, how):
    path = tmp_path / "given.safetensors"
    replace(path, how)
    words = ["--labelled", made_once / "known", "--unlabelled", made_once / "pile", "--novel", 2]
    words += ["--method", "kmeans"] if option == "--recipe" else []
    told = newfound.refused("discover", *words, option, path, "--out", tmp_path / "run")
    assert "given.safetensors" in told


@pytest.mark.parametrize("how", ["fifo", "zero", "proc", "sparse", "folder"])
def test_answers_that_are_no_file_are_a_sentence(newfound, finished, how):
    replace(finished / "truth.csv", how)
    newfound.refused("evaluate", finished / "run", "--answers", finished / "truth.csv")


@pytest.mark.parametrize("to", ["/proc", "/sys", "/dev", "/proc/self/fd", "/proc/self/root/proc"])
def test_a_link_to_the_system_s_own_files_in_the_pile_is_passed_by(newfound, finished, made_once, tmp_path, to):
    if not os.path.isdir(to):
        pytest.skip(f"there is no {to}")
    shutil.copytree(made_once / "pile", tmp_path / "pile")
    (tmp_path / "pile" / "link").symlink_to(to)
    newfound.works("predict", finished / "run", tmp_path / "pile")
    assert len(newfound.out.splitlines()) == 9


def test_a_pile_that_is_the_system_s_own_files_is_a_sentence(newfound, finished):
    newfound.refused("predict", finished / "run", "/proc/self/task")


@pytest.mark.parametrize("words", [["predict", "RUN", ""], ["export", "RUN", "--to", ""], ["report", ""]])
def test_an_empty_argument_is_not_the_folder_one_is_in(newfound, finished, words, monkeypatch):
    monkeypatch.chdir(finished)
    told = newfound.refused(*[finished / "run" if word == "RUN" else word for word in words])
    assert "empty" in told


def test_an_empty_value_after_an_equals_sign_is_refused_too(newfound, finished):
    assert "empty" in newfound.refused("export", finished / "run", "--to=")


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{c}: &{c} [{','.join(9 * ['*' + p])}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)
YAML = {
    "an alias bomb": BOMB,
    "an alias to itself": "a: &a [*a]\n",
    "a timestamp": "a: !!timestamp x\n",
    "a tag of Python's": "a: !!python/object/apply:os.system [true]\n",
    "a tag of nobody's": "a: !mine x\n",
    "binary": "a: !!binary x\n",
    "a set": "a: !!set {x}\n",
    "lists in lists": "a: " + "[" * 5000 + "]" * 5000,
    "mappings in mappings": "".join(" " * n + "a:\n" for n in range(3000)),
    "some nesting": "a: " + "[" * 100 + "]" * 100,
    "a number of 401 digits": "format: 1" + "0" * 400 + "\n",
    "a number of 5,000 digits": "format: 1" + "0" * 5000 + "\n",
    "a number of 10,000 binary digits": "format: 0b1" + "0" * 10000 + "\n",
    "a number to the base of 60": "format: 1" + ":59" * 2000 + "\n",
    "no number": "format: .inf\n",
    "keys that are lists": "? [a, b]\n: c\n",
    "NUL": "a: \0\n",
    "another encoding": "\udcff\udcfe",
    "nothing": "",
    "a list": "- a\n",
    "two documents": "a: b\n---\nc: d\n",
    "a line of a million characters": "a: " + "x" * 10**6,
}


@pytest.mark.parametrize("text", YAML.values(), ids=YAML.keys())
def test_malformed_settings_of_a_run_are_a_sentence(newfound, finished, text):
    path = finished / "run" / "settings.yaml"
    path.write_text(text, errors="surrogateescape")
    assert "settings.yaml" in newfound.refused("report", finished / "run")


@pytest.mark.parametrize("text", YAML.values(), ids=YAML.keys())
def test_malformed_recipes_are_a_sentence(newfound, made_once, tmp_path, text):
    (tmp_path / "mine.yaml").write_text(text, errors="surrogateescape")
    words = ["--labelled", made_once / "known", "--unlabelled", made_once / "pile", "--novel", 2, "--method", "kmeans"]
    assert "mine.yaml" in newfound.refused(
        "discover", *words, "--recipe", tmp_path / "mine.yaml", "--out", tmp_path / "run"
    )


@pytest.mark.parametrize(
    "value", ["*a", "&a [*a]", "!!timestamp x", "!!python/name:os.system", "[" * 500, "1" + "0" * 5000]
)
def test_malformed_settings_on_the_command_line_are_a_sentence(newfound, made_once, tmp_path, value):
    words = ["--labelled", made_once / "known", "--unlabelled", made_once / "pile", "--novel", 2, "--method", "kmeans"]
    newfound.refused("discover", *words, "--set", f"stage1.epochs={value}", "--out", tmp_path / "run")


JSON = {
    "lists in lists": "[" * 100000,
    "mappings in mappings": '{"a":' * 100000,
    "a number of 401 digits": '{"format": 1' + "0" * 400 + "}",
    "a number of 5,000 digits": '{"format": 1' + "0" * 5000 + "}",
    "an infinite number": '{"format": 1e999, "known": [], "novel": []}',
    "no number": '{"format": NaN}',
    "closed lists in lists": '{"format": ' + "[" * 900 + "]" * 900 + "}",
    "no UTF-8": '{"\udcff": 1}',
    "a lone surrogate": '{"known": ["\\ud800"], "novel": [], "format": 5}',
    "NUL": "\0",
    "nothing": "",
    "null": "null",
}


@pytest.mark.parametrize("name", ["result.json", "model/model.json", "collection.json"])
@pytest.mark.parametrize("text", JSON.values(), ids=JSON.keys())
def test_malformed_json_is_a_sentence(newfound, finished, made_once, name, text):
    run = finished / "run"
    (run / name).write_text(text, errors="surrogateescape")
    if name == "result.json":
        newfound.refused("evaluate", run, "--answers", finished / "truth.csv")
    elif name == "collection.json":
        (run / "result.json").unlink()
        newfound.refused("resume", run)
    else:
        newfound.refused("predict", run, made_once / "pile")


@pytest.mark.parametrize("text", JSON.values(), ids=JSON.keys())
def test_malformed_lines_of_metrics_are_left_out_of_the_page(newfound, finished, text):
    line = '{"stage": "stage1", "epoch": 1, "step": 1' + "0" * 400 + ', "loss": 1' + "0" * 400 + "}"
    (finished / "run" / "metrics.jsonl").write_text(f"{text}\n{line}\n", errors="surrogateescape")
    newfound.works("report", finished / "run")


def npy(array=None):
    file = io.BytesIO()
    np.save(file, np.zeros((20, 4), np.float32) if array is None else array)
    return file.getvalue()


def header(text):
    text = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(320)


NPY = {
    **{f"cut to {n} bytes": npy()[:n] for n in (0, 1, 5, 6, 8, 9, 10, 64, 127, 128, 200)},
    "objects": npy(np.array([{}], dtype=object)),
    "a promise of much": header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 4)}"),
    "a negative shape": header("{'descr': '<f4', 'fortran_order': False, 'shape': (-20, 4)}"),
    "a shape of names": header("{'descr': '<f4', 'fortran_order': False, 'shape': ('a', 4)}"),
    "an unknown type": header("{'descr': '<q99', 'fortran_order': False, 'shape': (20, 4)}"),
    "a call in the header": header("{'descr': '<f4', 'fortran_order': False, 'shape': (print(1), 4)}"),
    "lists in lists": header("[" * 100),
    "a huge number": header("{'descr': '<f4', 'fortran_order': False, 'shape': (1" + "0" * 40 + ", 4)}"),
    "an archive": b"PK\x03\x04" + bytes(100),
    "a pickle": b"\x80\x04cos\nsystem\n(S'touch owned'\ntR.",
}


@pytest.mark.parametrize("content", NPY.values(), ids=NPY.keys())
def test_malformed_features_are_a_sentence(newfound, tmp_path, content):
    (tmp_path / "features.npy").write_bytes(content)
    (tmp_path / "labels.csv").write_text("image,label\n0,a\n1,b\n")
    words = ["--features", tmp_path / "features.npy", "--labels", tmp_path / "labels.csv", "--novel", 2]
    assert "features.npy" in newfound.refused("discover", *words, "--out", tmp_path / "run")


def test_a_settings_file_that_says_where_to_write_is_read_as_plain_values(finished):
    """What newfound writes itself holds no anchors, aliases or tags."""
    text = (finished / "run" / "settings.yaml").read_text()
    assert not [line for line in text.splitlines() if line.lstrip("- ").startswith(("&", "*", "!"))]
    assert yaml.safe_load(text)


def test_a_fifo_in_the_place_of_metrics_is_a_sentence_for_resume(newfound, finished):
    replace(finished / "run" / "metrics.jsonl", "fifo")
    (finished / "run" / "result.json").unlink()
    assert "metrics.jsonl: not a regular file" in newfound.refused("resume", finished / "run")
