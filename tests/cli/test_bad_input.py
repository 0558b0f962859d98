"""What people may have on their disks: it works, or one sentence says what was found, where and what to do, the exit
status is 2, and nothing that was there is lost."""

import contextlib
import csv
import errno
import fcntl
import io
import json
import os
import re
import shutil
import sys

import embeddings
import numpy as np
import pytest
import torch
from hostile_files import TINY_WORDS as KMEANS
from hostile_files import everything, finished_run, make_trees, picture
from PIL import Image
from safetensors.torch import load_file, save_file

from newfound import UserError, load
from newfound.cli import main as cli
from newfound.model.model import FORMAT
from newfound.nets import build
from newfound.runfolder import WRITTEN, Run

FEATURES = ["--set", "stage2.epochs=2"]
LONG = "名" * 80 + ".png"
"""244 bytes of 255 that a name may have."""


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A file of weights of a small transformer, for images of 32 pixels."""
    torch.manual_seed(0)
    file = tmp_path_factory.mktemp("weights") / "net.safetensors"
    save_file(build("vit-tiny-16", 3, 32).state_dict(), file)
    return file


@pytest.fixture(params=["kmeans", "backbone"])
def way(request):
    """The words that choose a method for folders of images."""
    if request.param == "kmeans":
        return KMEANS
    return ["--backbone", request.getfixturevalue("weights"), *FEATURES]


@pytest.fixture
def newfound(monkeypatch, capsys):
    """A command in this process: its exit status, and the lines on standard error."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["newfound", *map(str, words)])
        capsys.readouterr()
        status = cli.status()
        captured = capsys.readouterr()
        call.out = captured.out
        return status, captured.err.splitlines()

    return call


@pytest.fixture
def trees(tmp_path):
    return make_trees(tmp_path)


def folders(trees, *more, novel=2):
    words = ["discover", "--labelled", trees / "known", "--unlabelled", trees / "pile", "--novel", novel]
    return [*words, "--out", trees / "run", *more]


def refused(found, *words):
    """Status 2, and one line, apart from progress and warnings, that has these words and says what to do."""
    status, lines = found
    lines = [line for line in lines if line.startswith("newfound: ")]
    assert status == 2, found
    assert len(lines) == 1, found
    for word in words:
        assert str(word) in lines[0], found


def warnings(found):
    assert found[0] == 0, found
    return [line for line in found[1] if line.startswith("warning: ")]


def assignments(run):
    rows = Run.open(run).read_assignments()
    assert all(0 <= float(row["confidence"]) <= 1 for row in rows)
    return {row["image"]: row["category"] for row in rows}


# Folders with too little in them


def test_an_empty_pile_is_refused(newfound, trees, way):
    shutil.rmtree(trees / "pile")
    refused(newfound(*folders(trees, *way)), trees / "pile", "does not exist", "name a folder that holds images")
    (trees / "pile").mkdir()
    refused(newfound(*folders(trees, *way)), trees / "pile", "holds no file", "put the images")
    assert not (trees / "run").exists()


def test_empty_known_folders_are_refused(newfound, trees, way):
    (trees / "known" / "green").mkdir()
    refused(newfound(*folders(trees, *way)), trees / "known" / "green", "holds no file", "or remove the folder")
    shutil.rmtree(trees / "known")
    (trees / "known").mkdir()
    refused(newfound(*folders(trees, *way)), trees / "known", "has no category folders", "--labels")
    assert not (trees / "run").exists()


@pytest.mark.parametrize("command", ["resume", "evaluate", "predict", "report"])
def test_an_empty_folder_is_no_run(newfound, tmp_path, command):
    (tmp_path / "empty").mkdir()
    more = [tmp_path] if command == "predict" else []
    refused(newfound(command, tmp_path / "empty", *more), f"there is no run in {tmp_path / 'empty'}")


def test_a_run_that_is_not_finished_predicts_nothing_and_names_resume(newfound, finished, made_once):
    run = finished / "run"
    (run / "result.json").unlink()
    shutil.rmtree(run / "model")
    refused(newfound("predict", run, made_once / "pile"), "is not finished", f"newfound resume {run}")
    with pytest.raises(UserError, match=f"is not finished: newfound resume {run}"):
        load(run)


def test_one_known_category_will_do(newfound, trees, way):
    shutil.rmtree(trees / "known" / "blue")
    warnings(newfound(*folders(trees, *way)))
    assert len(assignments(trees / "run")) == 8
    assert newfound("predict", trees / "run", trees / "known")[0] == 0


def test_one_image_a_category_will_do(newfound, trees, way):
    for category in ("red", "blue"):
        for i in range(1, 4):
            (trees / "known" / category / f"{i}.png").unlink()
    warnings(newfound(*folders(trees, *way)))
    assert len(assignments(trees / "run")) == 8
    assert newfound("predict", trees / "run", trees / "known")[0] == 0
    sure = [float(row["confidence"]) for row in csv.DictReader(newfound.out.splitlines())]
    assert all(0 < value <= 1 for value in sure)


def test_one_image_in_the_pile_will_do(newfound, trees, way):
    for path in sorted((trees / "pile").iterdir())[1:]:
        path.unlink()
    warnings(newfound(*folders(trees, *way, novel=1)))
    assert set(assignments(trees / "run").values()) == {"novel-01"}


@pytest.mark.parametrize("number", [0, -3, 9, 10**9])
def test_a_number_of_categories_that_cannot_be_is_refused(newfound, trees, way, number):
    refused(newfound(*folders(trees, *way, novel=number)), f"{number:,}" if number > 8 else f"--novel {number}")
    assert not (trees / "run").exists()


def test_as_many_categories_as_images_can_be_looked_for(newfound, trees, way):
    warnings(newfound(*folders(trees, *way, novel=8)))
    assert len(assignments(trees / "run")) == 8


@pytest.mark.parametrize("number", [0, embeddings.NOVEL * embeddings.EACH + 1])
def test_embeddings_refuse_such_numbers_too(newfound, tmp_path, number):
    files = embeddings.write(tmp_path / "data")
    words = [f"--{name}={path}" for name, path in files.items()]
    refused(newfound("discover", *words, "--novel", number, "--out", tmp_path / "run"), "categories")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "more",
    [
        ["--method", "apl", "--set", "network=vgg6", "--set", "data.size=32", "--set", "views.extra_size=16"],
        ["--method", "kmeans", "--set", "network=vgg6", "--set", "data.size=8"],
    ],
)
def test_images_that_the_network_cannot_take_leave_no_run(newfound, trees, more):
    refused(newfound(*folders(trees, *more)), "the network vgg6", "choose")
    assert not (trees / "run").exists()


@pytest.mark.parametrize("again", [["--labelled", "other"], ["--novel=3"], ["--seed", "1", "--seed", "2"]])
def test_an_option_given_twice_is_refused_but_settings_may_be_many(newfound, trees, again):
    refused(newfound(*folders(trees, *again)), f"{again[0].partition('=')[0]} is given more than once: give it once")
    assert not (trees / "run").exists()
    many = folders(trees, "--set", "stage1.epochs=1", "--set", "stage1.speed=3")
    refused(newfound(*many), "speed")


def test_views_that_cannot_be_made_leave_no_run(newfound, trees):
    views = ["--set", "data.size=72", "--set", "views.extra_size=4"]
    found = newfound(
        *folders(trees, "--method", "apl", "--recipe", "apl-folder-natural", "--set", "network=tiny", *views)
    )
    refused(found, "blur_kernel is 13")
    assert not (trees / "run").exists()


# Images that come twice, and files that are no images


def test_copies_in_the_pile_stay_and_are_told(newfound, trees, way):
    shutil.copy(trees / "pile" / "0.png", trees / "pile" / "copy.png")
    shutil.copy(trees / "known" / "red" / "0.png", trees / "known" / "red" / "copy.png")
    told = warnings(newfound(*folders(trees, *way)))
    assert "1 of the 9 labelled images is a copy of another one, such as 'red/copy.png' and 'red/0.png'" in told[0]
    assert "1 of the 9 unlabelled images is a copy of another one, such as 'copy.png' and '0.png'" in told[1]
    found = assignments(trees / "run")
    assert len(found) == 9
    assert found["copy.png"] == found["0.png"]


def test_a_pile_of_one_image_again_and_again_ends(newfound, trees, way):
    for path in sorted((trees / "pile").iterdir())[1:]:
        shutil.copy(trees / "pile" / "0.png", path)
    told = warnings(newfound(*folders(trees, *way)))
    assert any("7 of the 8 unlabelled images are a copy of another one" in line for line in told)
    assert len(set(assignments(trees / "run").values())) == 1


@pytest.mark.parametrize("how", [shutil.copy, os.link, os.symlink, "another file format"])
def test_a_known_image_is_left_out_of_the_pile(newfound, trees, way, how):
    original, copy = trees / "known" / "red" / "0.png", trees / "pile" / "again.png"
    if callable(how):
        how(original, copy)
    else:
        copy = copy.with_suffix(".bmp")
        Image.open(original).save(copy)
    told = warnings(newfound(*folders(trees, *way)))
    assert f"1 of the 9 unlabelled images is among the labelled ones too, such as {copy.name!r} and 'red/0." in told[0]
    assert copy.name not in assignments(trees / "run")
    assert Run.open(trees / "run").read_table("skipped.csv", ["file", "reason"]) == [
        {"file": str(copy), "reason": f"the same image as {str(original)!r}"}
    ]
    assert copy.exists()


def test_a_pile_of_known_images_alone_is_refused(newfound, trees, way):
    shutil.rmtree(trees / "pile")
    shutil.copytree(trees / "known", trees / "pile")
    refused(newfound(*folders(trees, *way)), "all 8 unlabelled images", "nothing to discover", "give other images")
    assert not (trees / "run").exists()


def test_an_image_of_two_categories_is_told(newfound, trees, way):
    shutil.copy(trees / "known" / "red" / "0.png", trees / "known" / "blue" / "0.png")
    told = warnings(newfound(*folders(trees, *way)))
    assert "1 labelled image is in several categories, such as 'blue/0.png' and 'red/0.png': keep each in" in told[0]


def test_a_known_row_of_features_is_left_out_of_the_pile(newfound, tmp_path):
    files = embeddings.write(tmp_path / "data")
    rows = np.load(files["features"])
    known = int(files["labels"].read_text().splitlines()[1].split(",")[0][4:7])
    hidden = int((tmp_path / "data" / "truth.csv").read_text().splitlines()[1].split(",")[0][4:7])
    rows[hidden] = rows[known]
    np.save(files["features"], rows)
    words = [f"--{name}={path}" for name, path in files.items()]
    found = newfound("discover", *words, "--novel", embeddings.NOVEL, *FEATURES, "--out", tmp_path / "run")
    assert "1 of the 120 unlabelled images is among the labelled ones too" in warnings(found)[0]
    assert f"img/{hidden:03d}.jpg" not in assignments(tmp_path / "run")


def test_unreadable_files_are_listed_and_the_rest_goes_on(newfound, trees, way):
    (trees / "pile" / "letter.png").write_text("dear")
    whole = (trees / "pile" / "0.png").read_bytes()
    (trees / "known" / "red" / "half.png").write_bytes(whole[: len(whole) // 2])
    status, lines = newfound(*folders(trees, *way))
    assert status == 0
    assert f"2 files were left out: {trees / 'run' / 'skipped.csv'} says why" in lines
    assert len(assignments(trees / "run")) == 8


def test_a_category_of_unreadable_files_is_refused(newfound, trees, way):
    (trees / "known" / "green").mkdir()
    (trees / "known" / "green" / "a.png").write_text("dear")
    refused(newfound(*folders(trees, *way)), "category 'green'", "not an image", "put images there that open")
    assert not (trees / "run").exists()


# Names


def test_foreign_long_and_equal_names_survive_a_run(newfound, trees, way):
    names = [LONG, f"{'長' * 80}/{'深' * 80}/{LONG}", "a/same.png", "b/same.png", "قطة.png", "-rf.png", "a b.png"]
    for i, name in enumerate(names):
        picture(trees / "pile" / name, 100 + i)
    shutil.move(trees / "known" / "red", trees / "known" / "красный")
    warnings(newfound(*folders(trees, *way)))
    assert set(names) < set(assignments(trees / "run"))
    assert "красный" in json.loads((trees / "run" / "result.json").read_text())["known"]
    lines = "".join(f"{name},new\n" for name in assignments(trees / "run"))
    (trees / "truth.csv").write_text(f"image,label\n{lines}nowhere.png,new\n", encoding="utf-8")
    status, said = newfound("evaluate", trees / "run", "--answers", trees / "truth.csv")
    assert status == 0
    assert "(15 images with an answer)" in newfound.out
    assert "1 name in the table is no image of this run, such as 'nowhere.png'" in said
    first = min(assignments(trees / "run"))
    (trees / "truth.csv").write_text(f"image;label\n{first};new\n", encoding="utf-8")
    assert newfound("evaluate", trees / "run", "--answers", trees / "truth.csv")[0] == 0
    assert "(1 image with an answer)" in newfound.out


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0.png", "+1.png", "-1.png", "@sum.png", "\t=1.png", "＝1.png"])
def test_no_name_of_a_file_is_a_formula(newfound, trees, name):
    picture(trees / "pile" / name, 100)
    picture(trees / "new" / name, 101)
    (trees / "pile" / f"{name}.txt").write_text("no image")
    assert newfound(*folders(trees, *KMEANS))[0] == 0
    with open(trees / "run" / "assignments.csv", newline="", encoding="utf-8") as file:
        written = [row["image"] for row in csv.DictReader(file)]
    assert f"./{name}" in written
    assert (trees / "pile" / f"./{name}").exists(), "it is still its path"
    assert name in assignments(trees / "run"), "a run reads it as it was"
    (trees / "truth.csv").write_text(f'image,label\n"./{name}",=new\n', encoding="utf-8")
    assert newfound("evaluate", trees / "run", "--answers", trees / "truth.csv")[0] == 0
    tables = [file.read_text(encoding="utf-8") for file in (trees / "run").glob("*.csv")]
    assert len(tables) == 3
    cells = [cell for text in tables for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
    assert not [cell for cell in cells if cell.startswith(tuple("=+-@\t\r＝"))]


def test_no_name_of_a_category_is_a_formula(newfound, trees, monkeypatch):
    shutil.move(trees / "known" / "red", trees / "known" / "=cmd")
    assert newfound(*folders(trees, *KMEANS))[0] == 0
    monkeypatch.chdir(trees / "known")
    assert newfound("predict", trees / "run", "=cmd")[0] == 0
    rows = list(csv.DictReader(newfound.out.splitlines()))
    assert [row["image"] for row in rows] == [f"./=cmd/{i}.png" for i in range(4)]
    assert {row["category"] for row in rows} <= {"'=cmd", "blue", "novel-01", "novel-02"}
    assert "'=cmd" in {row["category"] for row in rows}


def test_a_name_that_is_html_stays_a_name(newfound, trees):
    tag = "<img src=x onerror=alert(1)>"
    picture(trees / "pile" / f"{tag}.png", 100)
    shutil.move(trees / "known" / "red", trees / "known" / tag)
    assert newfound(*folders(trees, *KMEANS))[0] == 0
    page = (trees / "run" / "report.html").read_text()
    assert tag not in page
    assert tag.replace("<", "\\u003c") in page
    assert f"{tag}.png" in assignments(trees / "run")


def test_names_cannot_command_the_terminal(newfound, trees):
    picture(trees / "pile" / "\x1b[2J\x9b2J\n.png", 100)
    (trees / "pile" / "\x1b.txt").write_text("no image")
    found = newfound(*folders(trees, *KMEANS, novel=1))
    assert "␛[2J�2J␊.png" in newfound.out
    more = newfound("predict", trees / "run", trees / "pile")[1]
    assert not {"\x1b", "\x9b"} & set(newfound.out[:0] + "".join([*found[1], *more]))
    assert any("␛.txt: not an image" in line for line in more)


# Places


@contextlib.contextmanager
def read_only(folder, monkeypatch):
    """The folder and what is in it as on a read-only disk, even for root."""
    real_open, real_mkdir = os.open, os.mkdir

    def inside(path, above=None):
        above = "" if above is None else os.readlink(f"/proc/self/fd/{above}")
        return os.path.realpath(os.path.join(above, path)).startswith(f"{os.path.realpath(folder)}")

    def refuse(path):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    def opened(path, flags, *more, **options):
        if flags & (os.O_WRONLY | os.O_RDWR) and inside(path, options.get("dir_fd")):
            refuse(path)
        return real_open(path, flags, *more, **options)

    def made(path, *more, **options):
        if inside(path, options.get("dir_fd")):
            refuse(path)
        return real_mkdir(path, *more, **options)

    real = open

    def opened_file(path, mode="r", *more, **options):
        if not isinstance(path, int) and set(mode) & set("wax+") and inside(path):
            refuse(path)
        return real(path, mode, *more, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", opened)
        patch.setattr(os, "mkdir", made)
        patch.setattr("builtins.open", opened_file)
        patch.setattr("io.open", opened_file)
        yield


def test_images_may_lie_on_a_read_only_disk(newfound, trees, way, monkeypatch):
    with read_only(trees / "known", monkeypatch), read_only(trees / "pile", monkeypatch):
        warnings(newfound(*folders(trees, *way)))


def test_a_run_cannot_be_made_on_a_read_only_disk(newfound, trees, way, monkeypatch):
    (trees / "disk").mkdir()
    words = folders(trees, *way)
    words[words.index(trees / "run")] = trees / "disk" / "run"
    with read_only(trees / "disk", monkeypatch):
        refused(newfound(*words), trees / "disk" / "run", "Read-only file system", "choose another --out")


@pytest.mark.parametrize("command", ["resume", "evaluate", "report"])
def test_a_run_on_a_read_only_disk_stays_as_it_was(newfound, finished, monkeypatch, command):
    run, more = finished / "run", ["--answers", finished / "truth.csv"] if command == "evaluate" else []
    if command == "resume":
        (run / "result.json").unlink()
    before = everything(run)
    with read_only(run, monkeypatch):
        refused(newfound(command, run, *more), run, "Read-only file system")
    assert everything(run) == before


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """The folders of a finished run, and the run."""
    return finished_run(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def finished(made_once, tmp_path):
    """A copy of a finished run, beside its answers."""
    shutil.copytree(made_once / "run", tmp_path / "run")
    shutil.copy(made_once / "truth.csv", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["predict", "run", "images", "--out"], "found.csv"),
        (["predict", "run", "images", "--to"], "sorted"),
        (["export", "run", "--to"], "sorted"),
        (["export", "run", "--to"], "new/sorted"),
        (["export", "run", "--to"], "model.onnx"),
        (["pictures", "run", "--answers", "truth.csv", "--out"], "pictures"),
        (["data", "sample", "digits", "--each", "1", "--to"], "digits"),
    ],
)
def test_what_goes_to_a_read_only_disk_is_refused_with_the_name_that_was_given(
    newfound, finished, made_once, monkeypatch, words, name
):
    (finished / "images").symlink_to(made_once / "pile")
    (finished / "disk").mkdir()
    monkeypatch.chdir(finished)
    with read_only(finished / "disk", monkeypatch):
        found = newfound(*words, f"disk/{name}")
    refused(found, f"{name}: Read-only file system; choose another {words[-1]}")
    assert re.search(rf"cannot write to (\S*/)?disk/{name}:", found[1][-1])
    assert not list((finished / "disk").iterdir())


def test_what_is_wrong_elsewhere_is_told_of_that_place(newfound, finished, monkeypatch):
    def unreadable(source, target):
        raise PermissionError(errno.EACCES, "Permission denied", str(source))

    monkeypatch.setattr(shutil, "copy2", unreadable)
    status, said = newfound("export", finished / "run", "--to", finished / "sorted")
    assert (status, said[-1].startswith("newfound: /"), "/pile/" in said[-1]) == (2, True, True)
    assert said[-1].endswith("Permission denied")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--method", "apple"], "there is no method apple"),
        (["--out", "full"], "full is not an empty folder"),
        (["--out", "disk/run"], "cannot write to disk/run: Read-only file system; choose another --out"),
        (["--out", "run", "--device", "cuda:99"], "--device cuda:99"),
    ],
)
def test_the_demonstration_computes_nothing_for_a_call_that_is_wrong(newfound, tmp_path, monkeypatch, words, complaint):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "disk").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("newfound.runs.demo.pixel_rows", None)
    with read_only(tmp_path / "disk", monkeypatch):
        refused(newfound("demo", *words), complaint)
    assert {path.name for path in tmp_path.iterdir()} <= {"full", "disk", "user-cache"}


@contextlib.contextmanager
def disk_that_fills(after, monkeypatch):
    """From the nth file on, nothing reaches the disk any more."""
    real, count = os.fsync, iter(range(10**9))

    def fsync(handle):
        if next(count) >= after:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield


@pytest.mark.parametrize("after", [0, 4, 9, 14, 19, 24])
@pytest.mark.parametrize("features", [False, True])
def test_a_full_disk_costs_nothing_that_was_done(newfound, trees, monkeypatch, after, features):
    if features:
        files = embeddings.write(trees / "data")
        words = ["discover", *(f"--{name}={path}" for name, path in files.items()), "--novel", 4, *FEATURES]
    else:
        words = [*folders(trees)[:-2], *KMEANS]
    run = trees / "full"
    with disk_that_fills(after, monkeypatch):
        found = newfound(*words, "--out", run)
    refused(found, "the disk is full", "No space left on device", "free some space")
    begun = (run / "settings.yaml").exists()
    warnings(newfound("resume", run) if begun else newfound(*words, "--out", run))
    warnings(newfound(*words, "--out", trees / "undisturbed"))
    for name in ("assignments.csv", "metrics.jsonl"):
        assert (run / name).read_bytes() == (trees / "undisturbed" / name).read_bytes()


def test_a_result_that_does_not_reach_the_disk_is_a_sentence(finished):
    import subprocess

    command = [sys.executable, "-m", "newfound", "resume", str(finished / "run"), "--quiet"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("newfound: the disk is full")
    assert len(done.stderr.splitlines()) == 1


# Runs of others


@pytest.mark.parametrize("command", ["resume", "evaluate", "report", "discover"])
def test_a_run_in_use_is_left_alone(newfound, finished, made_once, command):
    run, more = finished / "run", ["--answers", finished / "truth.csv"] if command == "evaluate" else []
    words = [command, run, *more]
    if command == "resume":
        (run / "result.json").unlink()
    if command == "discover":
        words = [*folders(made_once)[:-1], run]
    before = everything(run)
    with open(run / ".lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        expected = "holds a run already" if command == "discover" else "is in use by another process"
        refused(newfound(*words), run, expected)
    assert everything(run) == before


@pytest.mark.parametrize(
    ("version", "told"), [(1, "written by an older newfound"), (99, "written by a newer newfound")]
)
@pytest.mark.parametrize("command", ["resume", "evaluate", "predict", "report"])
def test_a_run_of_another_version_is_left_alone(newfound, finished, made_once, command, version, told):
    run, more = finished / "run", [made_once / "pile"] if command == "predict" else []
    text = (run / "settings.yaml").read_text()
    (run / "settings.yaml").write_text(text.replace("format: 2", f"format: {version}"))
    before = everything(run)
    refused(newfound(command, run, *more), run, told)
    assert everything(run) == before


@pytest.mark.parametrize("command", ["resume", "evaluate", "export", "report"])
@pytest.mark.parametrize("damage", ["no assignments", "few assignments", "empty result", "a result of numbers"])
def test_a_damaged_run_says_how_it_is_mended_and_can_be(newfound, finished, made_once, command, damage):
    run, more = (
        finished / "run",
        {"evaluate": ["--answers", finished / "truth.csv"], "export": ["--to", finished / "to"]},
    )
    before = (run / "assignments.csv").read_text()
    if damage == "no assignments":
        (run / "assignments.csv").unlink()
    elif damage == "few assignments":
        (run / "assignments.csv").write_text("".join(before.splitlines(keepends=True)[:4]))
    else:
        (run / "result.json").write_text("{}" if damage == "empty result" else '{"known": [], "novel": [3]}')
    words = [command, run, *more.get(command, [])]
    remedy = f"move {run / 'result.json'} away and call `newfound resume {run}`"
    refused(newfound(*words), remedy)
    assert not (finished / "to").exists()
    (run / "result.json").unlink()
    assert newfound("resume", run)[0] == 0
    assert (run / "assignments.csv").read_text() == before
    assert newfound(*words)[0] == 0


def test_categories_that_a_model_does_not_know_are_a_damaged_run(newfound, tmp_path):
    run = tmp_path / "run"
    assert (
        newfound("discover", "--dataset", "digits", "--method", "kmeans", "--set", "stage1.epochs=1", "--out", run)[0]
        == 0
    )
    text = (run / "assignments.csv").read_text()
    (run / "assignments.csv").write_text(text.replace("novel-01", "other"))
    refused(newfound("evaluate", run), run / "assignments.csv", "does not fit the images", "'other'", "newfound resume")


def test_what_a_killed_process_left_half_written_in_a_run_goes_and_what_another_writes_stays(newfound, finished):
    run = finished / "run"
    (run / "result.json").unlink()
    (run / ".result.json.0077abcd.writing").write_text("{")
    (run / ".model.0077abcd.writing").mkdir()
    (run / ".notes.writing").write_text("mine")
    with open(run / ".found.csv.0078abcd.writing", "w") as file:  # a program that takes no lock of the run
        fcntl.flock(file, fcntl.LOCK_EX)
        assert newfound("resume", run)[0] == 0
    assert {path.name for path in run.glob(".*")} == {".lock", ".found.csv.0078abcd.writing", ".notes.writing"}


# Links in a run folder


def link_away(path, elsewhere):
    """Move what is at ``path``, or something like it, elsewhere and leave a link to it; gives all that lies there."""
    elsewhere.mkdir()
    if path.exists():
        shutil.move(path, elsewhere / path.name)
    else:
        (elsewhere / path.name).write_text("mine")
    path.symlink_to(elsewhere / path.name)
    if path.is_dir():
        (elsewhere / path.name / "photographs").mkdir()
        (elsewhere / path.name / "photographs" / "only.png").write_text("mine")
    return everything(elsewhere)


@pytest.mark.parametrize("name", [*WRITTEN, "checkpoint/stage1-000000004"])
def test_a_run_with_a_link_among_its_files_is_not_written_to(newfound, finished, name):
    run = finished / "run"
    elsewhere = link_away(run / name, finished / "elsewhere")
    before = everything(run)
    for words in (["resume", run], ["report", run], ["evaluate", run, "--answers", finished / "truth.csv"]):
        refused(newfound(*words), run / name, "is a symbolic link", "or remove it")
    if name not in ("result.json", "settings.yaml"):
        (run / "result.json").unlink()
        before.pop((run / "result.json").relative_to(run))
        refused(newfound("resume", run), run / name, "is a symbolic link")
    assert everything(run) == before
    assert everything(finished / "elsewhere") == elsewhere


def test_a_link_to_nothing_in_a_run_makes_no_file_elsewhere(newfound, finished):
    run = finished / "run"
    for name in WRITTEN:
        path = run / name
        content = finished / "content"
        path.exists() and shutil.move(path, content)
        path.symlink_to(finished / "nowhere")
        refused(newfound("report", run), path, "is a symbolic link")
        assert not (finished / "nowhere").exists()
        path.unlink()
        content.exists() and shutil.move(content, path)


def test_every_name_that_a_run_writes_is_checked_for_links(newfound, tmp_path, monkeypatch):
    monkeypatch.setattr("newfound.report.page.INSIDE", 0)  # so that thumbnails lie beside the page
    words = ["discover", "--dataset", "digits", "--method", "kmeans", "--set", "stage1.epochs=1", "--out"]
    assert newfound(*words, tmp_path / "run")[0] == 0
    grown_or_frozen, asked_for = {"features.safetensors", "known.json", "known.safetensors", "start"}, {"snapshots"}
    assert {path.name for path in (tmp_path / "run").iterdir()} == set(WRITTEN) - grown_or_frozen - asked_for


def test_links_of_ones_own_in_a_run_stay(newfound, finished):
    run = finished / "run"
    (run / "photographs").symlink_to(finished / "elsewhere")
    assert newfound("report", run)[0] == 0
    (run / "result.json").unlink()
    assert newfound("resume", run)[0] == 0
    assert (run / "photographs").is_symlink()


def test_a_run_reached_by_a_link_is_written_to(newfound, finished):
    (finished / "link").symlink_to(finished / "run")
    (finished / "run" / "result.json").unlink()
    assert newfound("resume", finished / "link")[0] == 0
    assert newfound("evaluate", finished / "link", "--answers", finished / "truth.csv")[0] == 0


def test_a_run_may_begin_in_an_empty_folder_reached_by_a_link(newfound, trees):
    (trees / "real").mkdir()
    (trees / "run").symlink_to(trees / "real")
    assert newfound(*folders(trees, *KMEANS))[0] == 0
    assert (trees / "run").is_symlink()
    assert (trees / "real" / "result.json").is_file()


def test_predict_reads_a_model_that_is_a_link(newfound, finished, made_once):
    link_away(finished / "run" / "model", finished / "elsewhere")
    assert newfound("predict", finished / "run", made_once / "pile")[0] == 0


def test_folders_of_ones_own_among_the_checkpoints_stay(newfound, finished):
    run, mine = finished / "run", ["photographs", "stage1", "stage1-1", ".hidden-000000001", "2024-07", "a.txt"]
    for name in mine:
        (run / "checkpoint" / name).mkdir()
        (run / "checkpoint" / name / "only.png").write_text("mine")
    for old in (run / "checkpoint").glob("stage1-0*"):
        shutil.rmtree(old)  # the stage begins anew, and what followed it is void
    (run / "checkpoint" / "stage9-000000003").mkdir()
    (run / "result.json").unlink()
    assert newfound("resume", run)[0] == 0
    assert not (run / "checkpoint" / "stage9-000000003").exists()
    for name in mine:
        assert (run / "checkpoint" / name / "only.png").read_text() == "mine"


def test_a_model_serves_without_the_result_of_its_run(newfound, finished, made_once):
    (finished / "run" / "result.json").unlink()
    assert newfound("predict", finished / "run", made_once / "pile")[0] == 0
    assert load(finished / "run").model_


# Files of weights


def changed(file, **more):
    save_file(load_file(file) | more, file)


DAMAGES = {
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-100]),
    "cut in its header": lambda file: file.write_bytes(file.read_bytes()[:20]),
    "empty": lambda file: file.write_bytes(b""),
    "of an oversized header": lambda file: file.write_bytes((2**62).to_bytes(8, "little") + file.read_bytes()[8:]),
    "of a header beyond its end": lambda file: file.write_bytes((10**7).to_bytes(8, "little") + file.read_bytes()[8:]),
    "of wrong shapes": lambda file: changed(file, **{min(load_file(file)): torch.zeros(7)}),
    "of unknown keys": lambda file: changed(file, extra=torch.zeros(7)),
    "a pickle": lambda file: file.write_bytes(b"\x80\x04cos\nsystem\n(S'touch owned'\ntR."),
    "missing": lambda file: file.unlink(),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_model_is_refused(newfound, finished, made_once, damage):
    file = finished / "run" / "model" / "model.safetensors"
    DAMAGES[damage](file)
    refused(newfound("predict", finished / "run", made_once / "pile"), file, "does not hold the weights of this model")
    assert newfound("evaluate", finished / "run", "--answers", finished / "truth.csv")[0] == 0, "the rest is there"


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_weights_are_no_backbone(newfound, trees, weights, damage):
    file = trees / "net.safetensors"
    shutil.copy(weights, file)
    DAMAGES[damage](file)
    refused(newfound(*folders(trees, "--backbone", file)), file)
    assert not (trees / "run").exists()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("network=resnet18", "nobody has trained the network resnet18"),
        ("network=features", "nobody has trained the network features"),
        ("weights=nowhere.safetensors", "'nowhere.safetensors' cannot be read"),
        ("digest=abc", "not those this run began with"),
    ],
)
def test_a_network_in_the_settings_that_cannot_be_had_leaves_no_run(newfound, trees, weights, setting, words):
    more = [] if setting.startswith("network") else ["--backbone", weights]
    refused(newfound(*folders(trees, "--method", "apl-features", *more, "--set", setting)), words)
    assert not (trees / "run").exists()


@pytest.mark.parametrize("setting", ["network=resnet18", "weights=net.safetensors", "digest=abc"])
def test_features_take_no_network(newfound, tmp_path, setting):
    words = [f"--{name}={path}" for name, path in embeddings.write(tmp_path / "data").items()]
    found = newfound("discover", *words, "--novel", 4, *FEATURES, "--set", setting, "--out", tmp_path / "run")
    refused(found, "must not name its network")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"dimension": 2**16, "network": "features", "image": {"channels": 2**16, "size": 1}},
        {"known": ["a"] * 10**6},
        {"novel": []},
        {"image": {"channels": 3, "size": -1}},
        {"network": "../../net"},
        {"format": FORMAT + 1},
    ],
)
def test_a_model_that_is_not_what_it_says_is_refused(newfound, finished, made_once, change):
    file = finished / "run" / "model" / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    refused(newfound("predict", finished / "run", made_once / "pile"), file.parent)
