"""Links and folders of somebody's own inside a run folder: nothing outside it is written to, and only what newfound
made is removed."""

import os
import shutil

import pytest
import yaml
from hostile_files import everything

from newfound.runfolder import WRITTEN


def commands(finished, run):
    """Those that write to a finished run."""
    return {"resume": [run], "report": [run], "evaluate": [run, "--answers", finished / "truth.csv"]}


def unfinish(run):
    (run / "result.json").unlink(missing_ok=True)


def test_resume_deletes_nothing_in_a_folder_that_checkpoint_links_to(newfound, finished, mine):
    for name in ("stage1-000000001", "stage1-000000002", "holiday-202407011"):
        (mine / name).mkdir()
        (mine / name / "only.png").write_text("mine")
    before = everything(mine)
    run = finished / "run"
    shutil.rmtree(run / "checkpoint")
    (run / "checkpoint").symlink_to(mine)
    unfinish(run)
    assert "is a symbolic link" in newfound.refused("resume", run)
    assert everything(mine) == before
    for name in ("stage1-000000001", "stage1-000000002", "holiday-202407011"):
        shutil.rmtree(mine / name)


def test_a_file_that_metrics_link_to_is_not_cut(newfound, finished, mine):
    run = finished / "run"
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").symlink_to(mine / "letter.txt")
    unfinish(run)
    assert "is a symbolic link" in newfound.refused("resume", run)


def test_a_file_that_metrics_share_with_another_name_is_not_cut(newfound, finished, mine):
    run = finished / "run"
    (run / "metrics.jsonl").unlink()
    shutil.rmtree(run / "checkpoint")
    os.link(mine / "letter.txt", run / "metrics.jsonl")
    unfinish(run)
    newfound.works("resume", run)
    assert b"mine" not in (run / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize("command", ["resume", "report", "evaluate"])
def test_what_links_at_temporary_names_point_to_stays(newfound, finished, mine, command):
    run = finished / "run"
    for name in ("report.html", "result.json", "confusion.csv", "model", "settings.yaml"):
        for token in ("00000000", f"{os.getpid():08x}", str(os.getpid())):
            (run / f".{name}.{token}.writing").symlink_to(mine / "letter.txt")
            (run / f".{name}.{token}.retired").symlink_to(mine / "holiday")
    if command == "resume":
        unfinish(run)
    newfound.works(command, *commands(finished, run)[command])


@pytest.mark.parametrize("command", ["resume", "report", "evaluate"])
def test_a_lock_that_is_a_link_makes_no_file_elsewhere(newfound, finished, command):
    run = finished / "run"
    (run / ".lock").unlink(missing_ok=True)
    (run / ".lock").symlink_to(finished / "nowhere")
    if command == "resume":
        unfinish(run)
    newfound.refused(command, *commands(finished, run)[command])
    assert not (finished / "nowhere").exists()


@pytest.mark.parametrize("name", ["photographs", "stage1-000000001", "stage1-999999999", "holiday-202407011"])
def test_a_folder_of_ones_own_among_the_checkpoints_stays_whatever_its_name(newfound, finished, name):
    run = finished / "run"
    own = run / "checkpoint" / name
    own.mkdir()
    (own / "only.png").write_text("mine")
    (own / "state.json").write_text("mine")
    unfinish(run)
    newfound.works("resume", run)
    assert (own / "only.png").read_text() == (own / "state.json").read_text() == "mine"


def test_a_link_inside_a_checkpoint_is_not_read_or_written_through(newfound, finished, mine):
    run = finished / "run"
    for folder in (run / "checkpoint").iterdir():
        for file in folder.iterdir():
            file.unlink()
            file.symlink_to(mine / "letter.txt")
    unfinish(run)
    newfound("resume", run)


def test_files_of_ones_own_beside_the_model_stay(newfound, finished):
    run = finished / "run"
    (run / "model" / "only.png").write_text("mine")
    unfinish(run)
    newfound("resume", run)
    assert (run / "model" / "only.png").read_text() == "mine"


def test_pictures_of_ones_own_beside_the_page_stay(newfound, finished, monkeypatch):
    run = finished / "run"
    (run / "report-pictures").mkdir()
    for name in ("3.txt", "holiday.jpg", "1.jpeg"):
        (run / "report-pictures" / name).write_text("mine")
    newfound.works("report", run)
    assert (run / "report-pictures" / "holiday.jpg").read_text() == "mine"
    assert (run / "report-pictures" / "3.txt").read_text() == "mine"


def test_links_among_the_pictures_are_replaced_and_not_written_through(newfound, finished, mine, monkeypatch):
    monkeypatch.setattr("newfound.report.page.INSIDE", 0)  # so that thumbnails lie beside the page
    run = finished / "run"
    (run / "report-pictures").mkdir()
    (run / "report-pictures" / "0.jpg").symlink_to(mine / "letter.txt")
    newfound.works("report", run)
    assert (run / "report-pictures" / "0.jpg").read_bytes()[:2] == b"\xff\xd8"


def stranger(finished, **source):
    """The run as somebody else made it: its settings name other places."""
    file = finished / "run" / "settings.yaml"
    content = yaml.safe_load(file.read_text())
    content["call"]["source"] |= {name: str(path) for name, path in source.items()}
    file.write_text(yaml.safe_dump(content))


def listed(run, names):
    """assignments.csv of these images."""
    lines = (run / "assignments.csv").read_text().splitlines()
    (run / "assignments.csv").write_text("\n".join([lines[0], *(f"{n},novel-01,0.9" for n in names)]) + "\n")
    import json

    result = json.loads((run / "result.json").read_text())
    result["images"]["unlabelled"] = len(names)
    (run / "result.json").write_text(json.dumps(result))


def test_export_copies_no_file_that_only_the_run_names(newfound, finished, mine):
    stranger(finished, unlabelled=mine)
    listed(finished / "run", ["letter.txt"])
    assert "--pile" in newfound.refused("export", finished / "run", "--to", finished / "sorted")
    assert not (finished / "sorted").exists()


def test_a_page_that_is_made_again_shows_no_image_that_only_the_run_names(newfound, finished):
    (finished / "run" / "report.safetensors").unlink()
    shutil.copytree(finished / "run", finished / "own")
    file = finished / "run" / "settings.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"mark": None}))
    lines = newfound.works("report", finished / "run")
    assert any("the images that it names are not put into a page" in line for line in lines)
    newfound.works("report", finished / "own")
    pictures = {name: "/9j/" in (finished / name / "report.html").read_text() for name in ("own", "run")}  # JPEGs
    assert pictures == {"own": True, "run": False}


def test_export_copies_from_the_folder_that_the_person_names(newfound, finished, made_once):
    stranger(finished, unlabelled="/nowhere")
    newfound.works("export", finished / "run", "--to", finished / "sorted", "--pile", made_once / "pile")
    assert len([*(finished / "sorted").rglob("*.png")]) == 8


def test_export_of_ones_own_run_asks_for_nothing(newfound, finished):
    newfound.works("export", finished / "run", "--to", finished / "sorted")
    assert len([*(finished / "sorted").rglob("*.png")]) == 8


@pytest.mark.parametrize("name", ["../mine/letter.txt", "/etc/hostname", "a/../../mine/letter.txt"])
def test_export_takes_nothing_from_above_the_pile(newfound, finished, made_once, mine, name):
    listed(finished / "run", [name])
    words = ["export", finished / "run", "--to", finished / "sorted", "--pile", made_once / "pile"]
    assert "not in the pile" in newfound.refused(*words)


def test_resume_makes_nothing_in_a_cache_folder_that_only_the_run_names(newfound, finished, mine):
    file = finished / "run" / "settings.yaml"
    content = yaml.safe_load(file.read_text())
    content["call"]["cache"] = str(mine)
    file.write_text(yaml.safe_dump(content))
    unfinish(finished / "run")
    newfound.works("resume", finished / "run")


def test_every_file_that_a_run_writes_may_be_a_link_and_nothing_elsewhere_changes(newfound, finished, mine):
    run = finished / "run"
    for name in WRITTEN:
        kept = finished / "kept"
        there = (run / name).exists()
        there and shutil.move(run / name, kept)
        (run / name).symlink_to(mine / ("holiday" if name in ("model", "checkpoint", "report-pictures") else "new.txt"))
        for command, words in commands(finished, run).items():
            newfound.refused(command, *words)
        (run / name).unlink()
        there and shutil.move(kept, run / name)
