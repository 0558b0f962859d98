import csv
import errno
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

import newfound
from newfound import UserError
from newfound.cli import main as cli
from newfound.data.folder import read_folders
from newfound.data.sources import Source
from newfound.files import write_json
from newfound.plan.call import Call
from newfound.plan.recipe import resolve_settings
from newfound.runfolder import Run
from newfound.runs.export import _laid_out, safe_name, safe_names
from newfound.runs.found import Discovery


def make_run(root, images):
    """A finished run made by hand: ``images`` maps names in the pile to a category and a confidence."""
    for name in images:
        path = root / "pile" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"image " + os.fsencode(name))
    (root / "known").mkdir()
    source = Source(labelled=str(root / "known"), unlabelled=str(root / "pile"), n_novel=2)
    run = Run.create(root / "run", Call(source, 0, "cpu", 1, "none"), resolve_settings("kmeans", "kmeans-folder", {}))
    rows = [[name, category, f"{sure:.6f}"] for name, (category, sure) in images.items()]
    run.write_table("assignments.csv", ["image", "category", "confidence"], sorted(rows))
    near = {"novel-01": ["a"], "novel-02": []}
    write_json(run.folder / "result.json", {"novel": ["novel-01", "novel-02"], "known": ["a"], "near": near})
    return Discovery.of(run)


@pytest.fixture
def found(tmp_path):
    images = {"a.png": ("novel-01", 0.9), "deep/a.png": ("novel-01", 0.8), "deep/b.png": ("novel-02", 0.3)}
    return make_run(tmp_path, images)


def tree(root):
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def images_in(root):
    return {name: content for name, content in tree(root).items() if name not in ("_images.csv", "_categories.csv")}


def called(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["newfound", *map(str, words), "--quiet"])
    return cli.status(), *capsys.readouterr()


def test_the_pile_is_copied_into_a_folder_for_each_category(found, tmp_path, monkeypatch, capsys):
    before = tree(tmp_path / "pile")
    status, out, errors = called(["export", found.folder, "--to", tmp_path / "new" / "sorted"], monkeypatch, capsys)
    assert (status, errors) == (0, "")
    to = tmp_path / "new" / "sorted"
    assert out == f"{to}/novel-01  2 images\n{to}/novel-02  1 image\n"
    assert images_in(to) == {
        "novel-01/a.png": b"image a.png",
        "novel-01/a-2.png": b"image deep/a.png",
        "novel-02/b.png": b"image deep/b.png",
    }
    assert tree(tmp_path / "pile") == before
    assert not any(p.is_symlink() for p in to.rglob("*"))
    rows = list(csv.DictReader(io.StringIO((to / "_images.csv").read_text())))
    assert {row["file"]: row["image"] for row in rows}["novel-01/a-2.png"] == "deep/a.png"
    assert not list((tmp_path / "new").glob(".*"))


def test_the_categories_are_listed_with_what_they_are_near_to(found, tmp_path):
    found.export(tmp_path / "sorted")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "sorted" / "_categories.csv").read_text())))
    assert [tuple(row.values()) for row in rows] == [
        ("novel-01", "novel-01", "2", "a"),
        ("novel-02", "novel-02", "1", ""),
    ]


def test_the_list_of_categories_has_the_numbers_of_images_that_are_in_the_folders(found, tmp_path):
    def listed(min_confidence, to):
        made = found.export(tmp_path / to, min_confidence=min_confidence)
        rows = list(csv.DictReader(io.StringIO((tmp_path / to / "_categories.csv").read_text())))
        assert {row["folder"]: int(row["images"]) for row in rows if row["folder"]} == made
        return [(row["folder"], row["category"], row["images"]) for row in rows]

    assert listed(0.5, "some") == [("novel-01", "novel-01", "2"), ("", "novel-02", "0"), ("_doubtful", "", "1")]
    assert listed(1, "none") == [("", "novel-01", "0"), ("", "novel-02", "0"), ("_doubtful", "", "3")]


def test_links_point_to_the_originals(found, tmp_path):
    found.export(tmp_path / "soft", link="symlink")
    assert os.readlink(tmp_path / "soft" / "novel-02" / "b.png") == str(tmp_path / "pile" / "deep" / "b.png")
    found.export(tmp_path / "hard", link="hard")
    assert (tmp_path / "hard" / "novel-02" / "b.png").samefile(tmp_path / "pile" / "deep" / "b.png")
    assert not (tmp_path / "hard" / "novel-02" / "b.png").is_symlink()


def test_doubtful_images_of_an_export_are_no_category_of_the_next_run(found, tmp_path):
    for number, image in enumerate(found.images):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / "pile" / image)
    found.export(tmp_path / "sorted", min_confidence=0.5)
    pile = tmp_path / "more"
    pile.mkdir()
    Image.new("RGB", (8, 8), "teal").save(pile / "x.png")
    reading = read_folders(tmp_path / "sorted", pile, n_novel=1, size=8, seed=0)
    assert reading.collection.classes == ("novel-01",)
    assert {Path(skip.file).name: skip.reason for skip in reading.skipped} == {
        "b.png": "in _doubtful, which holds images of doubtful category",
        "_images.csv": "not in a category folder",
        "_categories.csv": "not in a category folder",
    }


def test_doubtful_images_have_a_folder_of_their_own(found, tmp_path):
    assert found.export(tmp_path / "sorted", min_confidence=0.5) == {"_doubtful": 1, "novel-01": 2}
    assert (tmp_path / "sorted" / "_doubtful" / "b.png").is_file()


def test_images_of_a_data_set_are_written_as_png(tmp_path):
    found = newfound.discover(dataset="digits", method="kmeans", out=tmp_path / "run", settings={"stage1.epochs": 1})
    assert found.export(tmp_path / "sorted") == dict(Counter(found.categories))
    from newfound.data.digits import read_digits

    reading = read_digits(0)
    row = reading.names.unlabelled.index(found.images[5])
    with Image.open(tmp_path / "sorted" / found.categories[5] / f"{found.images[5]}.png") as image:
        pixels = reading.collection.train.images[reading.collection.n_labelled + row, 0]
        np.testing.assert_array_equal(np.asarray(image), pixels)
    with pytest.raises(UserError, match="link is for folders"):
        found.export(tmp_path / "other", link="hard")


NAMES = ["..", "../../etc", "/abs", "", ".", "...", ".hidden", "a/b", "a\\b", "a\0b", "a\nb", "CON", "nul.txt",
         "x" * 400, "猫" * 200, "кот", "é", "e\u0301", "Cat", "cat", "_doubtful", "_images.csv", "~root", " padded ",
         "dot. .", "<img onerror=x>", "=cmd", os.fsdecode(b"caf\xe9"), "C:evil"]  # fmt: skip


def test_every_name_becomes_one_plain_folder_and_no_two_the_same(tmp_path):
    safe = safe_names(NAMES, taken=("_doubtful", "_images.csv"))
    assert list(safe) == NAMES
    for name in safe.values():
        assert name not in ("", ".", "..", "_doubtful", "_images.csv")
        assert not set(name) & set('/\\\0\n:*?"<>|')
        assert not name.startswith(".")
        assert len(os.fsencode(name)) < 255
        (tmp_path / name).mkdir()
    assert {p.name for p in tmp_path.iterdir()} == set(safe.values())
    assert len({name.casefold() for name in safe.values()}) == len(NAMES)
    assert (safe["кот"], safe["é"], safe["猫" * 200]) == ("кот", "é", "猫" * 66)


def test_a_shortened_name_of_a_file_keeps_its_ending():
    assert safe_name("x" * 300 + ".jpeg").endswith("x.jpeg")
    assert len(safe_name("x" * 300 + ".jpeg")) == 200


def test_categories_named_by_an_enemy_stay_inside(tmp_path):
    images = {f"{i}.png": (name, 0.9) for i, name in enumerate(NAMES) if "\0" not in name}
    (tmp_path / "inner").mkdir()
    make_run(tmp_path / "inner", images).export(tmp_path / "inner" / "sorted")
    assert {p.name for p in tmp_path.iterdir()} - {"user-cache"} == {"inner"}
    assert {p.name for p in (tmp_path / "inner").iterdir()} == {"known", "pile", "run", "sorted"}
    assert len(images_in(tmp_path / "inner" / "sorted")) == len(images)


def test_many_files_of_one_name_are_told_apart(tmp_path):
    found = make_run(tmp_path, {f"{i}/x.png": ("novel-01", 0.9) for i in range(300)} | {"x-2.png": ("novel-01", 0.9)})
    assert found.export(tmp_path / "sorted") == {"novel-01": 301}
    assert sorted(images_in(tmp_path / "sorted").values()) == sorted(tree(tmp_path / "pile").values())


def test_a_name_for_a_table_is_refused(found, tmp_path):
    with pytest.raises(UserError, match=r"^to .*out\.csv looks like a file, .* assignments\.csv in the run folder"):
        found.export(tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def fill(to):
    to.mkdir()
    (to / "mine.txt").write_text("mine")


@pytest.mark.parametrize(
    ("prepare", "options", "complaint"),
    [
        (fill, {}, "is not empty, and nothing there is to be lost"),
        (lambda to: to.write_text("mine"), {}, "is a file"),
        (lambda to: None, {"link": "soft"}, "link soft: it can be symlink or hard"),
        (lambda to: None, {"min_confidence": 1.5}, "min_confidence 1.5: it has to be from 0 to 1"),
        (lambda to: None, {"min_confidence": float("nan")}, "it has to be from 0 to 1"),
        (lambda to: None, {"pile": "/no/such/place"}, "is not a folder"),
        (lambda to: (to.parent / "pile" / "a.png").unlink(), {}, "1 of the 3 images are not in .* say where it is"),
    ],
)
def test_what_cannot_be_exported_is_a_sentence_and_changes_nothing(prepare, options, complaint, found, tmp_path):
    prepare(tmp_path / "sorted")
    before, places = tree(tmp_path), sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=complaint):
        found.export(tmp_path / "sorted", **options)
    assert (tree(tmp_path), sorted(tmp_path.rglob("*"))) == (before, places)


def test_wrong_calls_are_one_line_and_status_2(found, tmp_path, monkeypatch, capsys):
    fill(tmp_path / "full")
    calls = {
        "is not empty": [found.folder, "--to", tmp_path / "full"],
        "among the images": [found.folder, "--to", tmp_path / "pile" / "sorted"],
        "there is no run in": [tmp_path / "known", "--to", tmp_path / "sorted"],
        "Missing option '--to'": [found.folder],
        "cannot write to": [found.folder, "--to", tmp_path / "full" / "mine.txt" / "x"],
    }
    for complaint, words in calls.items():
        status, out, errors = called(["export", *words], monkeypatch, capsys)
        assert (status, out, len(errors.splitlines())) == (2, "", 1), errors
        assert complaint in errors
    (found.folder / "result.json").unlink()
    status, _, errors = called(["export", found.folder, "--to", tmp_path / "sorted"], monkeypatch, capsys)
    assert status == 2
    assert "is not finished" in errors


@pytest.mark.parametrize("image", ["../secret", "/etc/passwd"])
def test_a_table_that_leads_out_of_the_pile_is_refused(image, found, tmp_path):
    (tmp_path / "secret").write_text("secret")
    path = found.folder / "assignments.csv"
    path.write_text(path.read_text() + f"{image},novel-01,0.9\n")
    with pytest.raises(UserError, match="which is not in the pile"):
        Discovery.of(Run.open(found.folder)).export(tmp_path / "sorted")
    assert not (tmp_path / "sorted").exists()


def test_features_have_no_images_to_lay_out(tmp_path):
    source = Source(features=str(tmp_path / "f.npy"), labels=str(tmp_path / "l.csv"), n_novel=2)
    run = Run.create(
        tmp_path / "run", Call(source, 0, "cpu", 1, "none"), resolve_settings("kmeans", "kmeans-folder", {})
    )
    found = Discovery(run.folder, ("0",), ("novel-01",), (0.5,), {})
    with pytest.raises(UserError, match="made of features, so there are no images"):
        found.export(tmp_path / "sorted")


def test_a_pile_that_has_moved_is_found_where_it_is_said_to_be(found, tmp_path):
    shutil.move(tmp_path / "pile", tmp_path / "elsewhere")
    assert found.export(tmp_path / "sorted", pile=tmp_path / "elsewhere") == {"novel-01": 2, "novel-02": 1}


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left"), PermissionError(1, "no")]
)
def test_a_half_done_export_leaves_nothing_and_can_be_repeated(error, found, tmp_path, monkeypatch):
    before, copy, done = tree(tmp_path), shutil.copy2, []

    def fail(source, target):
        if done:
            raise error
        done.append(copy(source, target))

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copy2", fail)
        with pytest.raises((type(error), UserError)):
            found.export(tmp_path / "new" / "sorted")
    assert done
    assert tree(tmp_path) == before
    assert not (tmp_path / "new").exists()
    found.export(tmp_path / "new" / "sorted")


def test_an_empty_folder_is_filled_but_not_one_that_was_filled_meanwhile(found, tmp_path, monkeypatch):
    (tmp_path / "sorted").mkdir()
    copy = shutil.copy2

    def meanwhile(source, target):
        (tmp_path / "sorted" / "mine.txt").write_text("mine")
        copy(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copy2", meanwhile)
        with pytest.raises(UserError, match=r"cannot write to .*sorted: Directory not empty"):
            found.export(tmp_path / "sorted")
    assert tree(tmp_path / "sorted") == {"mine.txt": b"mine"}
    (tmp_path / "sorted" / "mine.txt").unlink()
    assert found.export(tmp_path / "sorted") == {"novel-01": 2, "novel-02": 1}


def test_too_little_space_is_told_before_anything_is_copied(found, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0))
    with pytest.raises(UserError, match="choose another to, or link symlink"):
        found.export(tmp_path / "sorted")
    found.export(tmp_path / "sorted", link="symlink")


def test_hard_links_across_file_systems_name_the_other_ways(found, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(UserError, match="take link symlink, or leave link out for copies"):
        found.export(tmp_path / "sorted", link="hard")
    assert not (tmp_path / "sorted").exists()


def test_the_summary_is_json_where_asked(found, tmp_path, monkeypatch, capsys):
    _, out, _ = called(["export", found.folder, "--to", tmp_path / "sorted", "--json"], monkeypatch, capsys)
    assert json.loads(out) == {"to": str(tmp_path / "sorted"), "folders": {"novel-01": 2, "novel-02": 1}}
    assert Path(tmp_path / "sorted" / "novel-01").is_dir()


def test_an_image_that_cannot_be_read_is_named_and_not_the_place_to_write_to(tmp_path):
    with pytest.raises(PermissionError) as caught, _laid_out(tmp_path / "sorted"):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "pile" / "a.jpg"))
    assert caught.value.filename.endswith("a.jpg")
    assert list(tmp_path.iterdir()) == []
