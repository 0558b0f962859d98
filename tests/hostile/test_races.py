"""Several processes at one folder, and processes that were killed in the first moments: one wins, the others get a
sentence, and nobody's work is mixed with another's."""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml
from hostile_files import TINY_WORDS, everything

from newfound import ours
from newfound.errors import UserError
from newfound.files import new_directory
from newfound.ours import key_file, mark
from newfound.runfolder import Run, check_free, claimed
from newfound.together import JOURNAL, change_together, finish_change


def words(made_once, out, *more):
    trees = ["--labelled", made_once / "known", "--unlabelled", made_once / "pile", "--novel", 2]
    return ["discover", *trees, "--method", "kmeans", *TINY_WORDS, *more, "--out", out]


@contextlib.contextmanager
def held(path):
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(handle)


def test_a_folder_that_another_process_has_claimed_is_left_alone(newfound, made_once, tmp_path):
    (tmp_path / "run").mkdir()
    with held(tmp_path / "run" / ".lock"):
        assert "in use by another process" in newfound.refused(*words(made_once, tmp_path / "run"))
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


def test_the_folder_is_claimed_before_the_images_are_read(made_once, tmp_path):
    with claimed(tmp_path / "run"):
        with pytest.raises(UserError, match="in use by another process"), claimed(tmp_path / "run"):
            pass
        assert (tmp_path / "run" / ".lock").exists()


@pytest.mark.slow
def test_of_two_that_discover_into_one_folder_one_wins_and_one_gets_a_sentence(made_once, tmp_path):
    command = [sys.executable, "-m", "newfound", *map(str, words(made_once, tmp_path / "run", "--seed"))]
    command.insert(-2, "0")
    calls = [[*command[:-3], seed, *command[-2:]] for seed in ("1", "2", "3")]
    running = [subprocess.Popen(call, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) for call in calls]
    told = [process.communicate()[1] for process in running]
    assert sorted(process.returncode for process in running) == [0, 2, 2], told
    won = next(i for i, process in enumerate(running) if process.returncode == 0)
    run = Run.open(tmp_path / "run")
    assert run.call.seed == run.read_result()["seed"] == won + 1
    for i, text in enumerate(told):
        assert i == won or text.splitlines()[-1].startswith("newfound: ")


@pytest.mark.parametrize("left", [[], [".lock"], [".lock", ".settings.yaml.0007abcd.writing"]])
def test_what_a_kill_in_the_first_moments_leaves_is_a_folder_that_discover_takes(tmp_path, left):
    (tmp_path / "run").mkdir()
    for name in left:
        (tmp_path / "run" / name).write_text("")
    check_free(tmp_path / "run")
    with claimed(tmp_path / "run"):
        assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


@pytest.mark.parametrize("name", ["letter.txt", ".notes", ".settings.yaml.writing", ".other.0007abcd.writing", ".git"])
def test_what_is_somebody_s_own_keeps_discover_out(tmp_path, name):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).write_text("mine")
    with pytest.raises(UserError, match="not an empty folder"), claimed(tmp_path / "run"):
        pass
    assert (tmp_path / "run" / name).read_text() == "mine"


def test_a_failure_before_there_is_a_run_leaves_nothing(tmp_path):
    with pytest.raises(KeyError), claimed(tmp_path / "new" / "run"):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_a_settings_file_makes_a_run_that_resume_takes(newfound, finished):
    run = finished / "run"
    for path in sorted(run.rglob("*"), reverse=True):
        if path.name != "settings.yaml":
            path.rmdir() if path.is_dir() else path.unlink()
    newfound.works("resume", run)
    assert Run.open(run).finished


def test_a_lock_that_was_removed_while_one_waited_is_no_lock(tmp_path, monkeypatch):
    """Who gets the lock of a file that is no longer there takes that of the file that is."""
    from newfound import runfolder

    real, calls = runfolder.try_lock, []

    def slow(handle):
        if not calls:
            (tmp_path / "run" / ".lock").unlink()
        calls.append(handle)
        return real(handle)

    monkeypatch.setattr(runfolder, "try_lock", slow)
    with claimed(tmp_path / "run"):
        assert len(calls) == 2
        assert (tmp_path / "run" / ".lock").exists()


def test_a_folder_that_appears_in_the_last_moment_is_replaced(tmp_path, monkeypatch):
    from newfound import files

    (tmp_path / "images-0").mkdir()
    (tmp_path / "images-0" / "index.json").write_text("of the quicker one")
    monkeypatch.setattr(files, "_exists", lambda name, folder: False)
    with new_directory(tmp_path / "images-0") as folder:
        (folder / "index.json").write_text("of the slower one")
    assert (tmp_path / "images-0" / "index.json").read_text() == "of the slower one"
    assert [path.name for path in tmp_path.iterdir()] == ["images-0"]


def test_two_that_fill_one_cache_folder_both_succeed(tmp_path):
    """As two containers do, whose processes have the same number."""
    barrier, failures = threading.Barrier(2), []

    def fill(text):
        try:
            with new_directory(tmp_path / "cache" / "images-0") as folder:
                (folder / "index.json").write_text(text)
                barrier.wait()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=fill, args=(text,)) for text in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert (tmp_path / "cache" / "images-0" / "index.json").read_text() in "ab"
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["images-0"]


@pytest.mark.parametrize("options", [["predict", "--out", "found.csv"], ["export", "--to", "sorted"]])
def test_what_a_killed_command_left_half_written_goes_with_the_next_one(newfound, finished, made_once, options):
    name = options[2]
    left = finished / f".{name}.0007abcd.writing"
    (left.mkdir() or (left / "half.png").write_text("x")) if name == "sorted" else left.write_text("half")
    mine = finished / ".letter.0007abcd.writing"
    mine.write_text("mine")
    more = [made_once / "pile"] if options[0] == "predict" else []
    newfound.works(options[0], finished / "run", *more, options[1], finished / name)
    assert not left.exists()
    assert mine.read_text() == "mine"


def test_a_change_of_several_files_is_ended_by_whoever_comes_next(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / ".a.0007abcd.writing").write_text("new")
    (tmp_path / ".b.0007abcd.writing").write_text("new")
    (tmp_path / JOURNAL).write_text(json.dumps({"a": ".a.0007abcd.writing", "b": ".b.0007abcd.writing"}))
    finish_change(tmp_path, ("a", "b"))
    assert everything(tmp_path) == {path.relative_to(tmp_path): b"new" for path in (tmp_path / "a", tmp_path / "b")}


def test_a_change_that_fails_before_its_journal_changes_nothing(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("old")

    def fail(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("newfound.together.write_json", fail)
    with pytest.raises(OSError, match="No space"):
        change_together(tmp_path, {"a": b"new", "b": b"new"})
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


@pytest.mark.parametrize(
    "journal",
    [
        {"a": "../mine"},
        {"../mine": ".../mine.0007abcd.writing"},
        {"c": ".c.0007abcd.writing"},
        {"a": ".c.0007abcd.writing"},
        {"a": "link"},
        {"a": ".a.0007abcd.writing"},
        {"a": 3},
        ["a"],
        "a",
    ],
)
def test_a_journal_from_a_stranger_moves_nothing_but_what_was_being_written(tmp_path, journal):
    folder, mine = tmp_path / "run", tmp_path / "mine"
    folder.mkdir()
    mine.write_text("mine")
    (folder / ".a.0007abcd.writing").symlink_to(mine)
    (folder / ".c.0007abcd.writing").write_text("x")
    (folder / "a").write_text("old")
    (folder / JOURNAL).write_text(json.dumps(journal))
    finish_change(folder, ("a", "b"))
    assert mine.read_text() == "mine"
    assert (folder / "a").read_text() == "old"
    assert not (folder / "a").is_symlink()
    assert not (folder / "c").exists()


def test_the_key_that_marks_one_s_own_runs_is_readable_by_nobody_else(finished):
    assert key_file().stat().st_mode & 0o077 == 0
    assert Run.open(finished / "run").ours


def test_a_key_that_cannot_be_read_now_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    before = mark("a")
    monkeypatch.setattr(ours, "read_small", lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    assert mark("a") is None
    monkeypatch.undo()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert mark("a") == before


def test_processes_that_make_the_key_at_once_have_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(ours, "_read_key", _late(ours._read_key))
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(mark, ["a"] * 4))) == 1


def _late(read):
    """As a process reads that looks just before another has made the key."""
    barrier, first = threading.Barrier(4), threading.local()

    def late():
        found = read()
        if not hasattr(first, "done"):
            first.done = True
            barrier.wait()
        return found

    return late


@pytest.mark.parametrize("change", ["another call", "another mark", "no mark", "a list", "no ASCII"])
def test_a_run_whose_call_was_changed_is_a_stranger_s(finished, change):
    file = finished / "run" / "settings.yaml"
    content = yaml.safe_load(file.read_text())
    if change == "another call":
        content["call"]["source"]["unlabelled"] = "/home"
    else:
        content["mark"] = {"another mark": "0" * 64, "no mark": None, "a list": ["x"], "no ASCII": "é"}[change]
    file.write_text(yaml.safe_dump(content))
    assert not Run.open(finished / "run").ours


def test_without_a_folder_for_the_key_a_run_is_made_all_the_same(newfound, made_once, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    newfound.works(*words(made_once, tmp_path / "run"))
    assert not Run.open(tmp_path / "run").ours
    newfound.works("export", tmp_path / "run", "--to", tmp_path / "sorted", "--pile", made_once / "pile")
