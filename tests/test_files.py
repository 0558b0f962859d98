import fcntl
import os

import pytest

from newfound.files import clear_unfinished, new_directory, new_file, open_regular, write_bytes, write_json, write_text
from newfound.ours import is_ours, mark


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    write_json(path, {"a": 1})
    before = path.read_bytes()

    def fail(_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_text(path, "new")
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_a_name_that_is_not_utf8_keeps_its_bytes(tmp_path):
    write_text(tmp_path / "a.csv", "caf\udce9")
    assert (tmp_path / "a.csv").read_bytes() == b"caf\xe9"


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    def half():
        with new_directory(tmp_path / "model") as folder:
            (folder / "half").write_text("x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert list(tmp_path.iterdir()) == []
    with new_directory(tmp_path / "model") as folder:
        (folder / "whole").write_text("x")
        assert not (tmp_path / "model").exists()
    assert [p.name for p in (tmp_path / "model").iterdir()] == ["whole"]


def test_a_folder_is_replaced_by_its_successor(tmp_path):
    for text in ("old", "new"):
        with new_directory(tmp_path / "model") as folder:
            (folder / text).write_text("x")
    assert [p.name for p in (tmp_path / "model").iterdir()] == ["new"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def held(path):
    """The lock of a file or folder, as a process that writes there has it."""
    handle = os.open(path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


@pytest.mark.parametrize("age", [-(10**9), 0, 10**9])
def test_what_was_left_half_written_goes_once_nobody_holds_it_whatever_the_clock_says(tmp_path, age):
    for name in (
        ".images-a.0007abcd.writing",
        ".images-b.0007abcd.writing",
        ".other.0007abcd.writing",
        "images-c",
        ".images-d",
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pixels.bin").write_text("x")
    (tmp_path / ".images-c.0007abcd.retired").mkdir()
    (tmp_path / ".images-e.0007abcd.writing").write_text("x")
    for path in tmp_path.iterdir():
        os.utime(path, (1.6e9 - age, 1.6e9 - age))
    handle = held(tmp_path / ".images-b.0007abcd.writing")
    clear_unfinished(tmp_path, "images-*")
    others = {".other.0007abcd.writing", "images-c", ".images-d"}
    assert {p.name for p in tmp_path.iterdir()} == others | {".images-b.0007abcd.writing"}
    os.close(handle)  # its process ends
    clear_unfinished(tmp_path, "images-*")
    assert {p.name for p in tmp_path.iterdir()} == others


def test_what_is_being_written_is_nobody_else_s_to_clear(tmp_path):
    with new_file(tmp_path / "a.csv") as file, new_directory(tmp_path / "model") as folder:
        file.write(b"x")
        (folder / "half").write_text("x")
        clear_unfinished(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"a.csv", "model"}


def test_what_was_to_be_replaced_when_a_process_was_killed_gets_its_name_back_where_it_is_the_only_one(tmp_path):
    for name in (".model.0007abcd.retired", ".model.0007abcd.writing"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "which").write_text(name)
    clear_unfinished(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model" / "which").read_text() == ".model.0007abcd.retired"


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_folder_is_replaced_whether_or_not_the_system_exchanges_names(tmp_path, monkeypatch, exchanges):
    if not exchanges:
        monkeypatch.setattr("newfound.files._exchange", lambda *names: False)
    for text in ("old", "new"):
        with new_directory(tmp_path / "model") as folder:
            (folder / text).write_text("x")
    assert [p.name for p in (tmp_path / "model").iterdir()] == ["new"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_no_link_is_followed_on_the_way_to_what_is_written_within_a_folder(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "run" / "checkpoint").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        write_bytes(tmp_path / "run" / "checkpoint" / "a", b"x", within=tmp_path / "run")
    with (
        pytest.raises(OSError, match=r"Not a directory|symbolic links"),
        new_directory(tmp_path / "run" / "checkpoint" / "a", within=tmp_path / "run"),
    ):
        pass
    assert list((tmp_path / "mine").iterdir()) == []


def test_leftovers_are_known_by_their_whole_name_and_links_among_them_stay(tmp_path):
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    run.mkdir()
    (elsewhere / "photographs").mkdir(parents=True)
    (elsewhere / "notes").write_text("mine")
    (run / "model").mkdir()
    (run / "d").mkdir()
    stay = [".mine.writing", ".mine.7.writing", ".mine.0007ABCD.writing", "mine.0007abcd.writing", ".mine.0007abcd.old"]
    for name in stay:
        (run / name).write_text("mine")
    (run / ".a.0007abcd.writing").symlink_to(elsewhere)
    (run / ".b.0007abcd.writing").symlink_to(elsewhere / "notes")
    (run / ".model.0007abcd.retired").symlink_to(elsewhere)
    os.mkfifo(run / ".c.0007abcd.writing")
    (run / ".d.0007abcd.writing").mkdir()
    (run / ".d.0007abcd.writing" / "link").symlink_to(elsewhere)
    before = {path.name for path in run.iterdir()}
    clear_unfinished(run)
    assert {path.name for path in run.iterdir()} == before - {".d.0007abcd.writing"}
    assert (elsewhere / "notes").read_text() == "mine"
    assert (elsewhere / "photographs").is_dir()


def test_no_two_temporary_names_are_alike(tmp_path):
    seen = []
    for _ in range(3):
        with new_file(tmp_path / "a.csv") as file:
            file.write(b"x")
            seen += [path.name for path in tmp_path.glob(".a.csv.*.writing")]
        with new_directory(tmp_path / "model"):
            seen += [path.name for path in tmp_path.glob(".model.*.writing")]
    assert len(set(seen)) == len(seen) == 6


@pytest.fixture
def guessed(tmp_path, monkeypatch):
    """What is to be written at tmp_path/target, where somebody knows the random names and leaves links there."""
    monkeypatch.setattr("secrets.token_hex", lambda n: "0" * 2 * n)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "only.png").write_text("mine")
    (tmp_path / "file").write_text("mine")
    yield tmp_path / "target"
    assert (tmp_path / "file").read_text() == "mine"
    assert (tmp_path / "folder" / "only.png").read_text() == "mine"
    assert (tmp_path / ".target.00000000.writing").is_symlink()


@pytest.mark.parametrize("to", ["file", "nowhere"])
def test_a_link_at_the_name_of_a_temporary_file_is_not_followed(to, guessed):
    (guessed.parent / ".target.00000000.writing").symlink_to(to)
    with pytest.raises(FileExistsError):
        write_bytes(guessed, b"new")
    assert not guessed.exists()
    assert not (guessed.parent / "nowhere").exists()


@pytest.mark.parametrize("to", ["folder", "nowhere"])
def test_a_link_at_the_name_of_a_temporary_folder_is_not_followed(to, guessed):
    (guessed.parent / ".target.00000000.writing").symlink_to(to)
    with pytest.raises(FileExistsError), new_directory(guessed):
        pass
    assert not guessed.exists()
    assert not (guessed.parent / "nowhere").exists()


def test_a_file_is_not_opened_through_a_link(tmp_path):
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(OSError, match="symbolic links"):
        open_regular(tmp_path / "link", os.O_WRONLY | os.O_CREAT)
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("flags", [os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CREAT])
def test_what_is_no_regular_file_is_not_written_to_and_nothing_waits(tmp_path, flags):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(tmp_path / "fifo", flags)


def test_a_link_is_replaced_and_what_it_points_to_stays(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "only.png").write_text("mine")
    (tmp_path / "a.csv").symlink_to("file")
    (tmp_path / "model").symlink_to("folder")
    write_text(tmp_path / "a.csv", "new")
    with new_directory(tmp_path / "model"):
        pass
    assert (tmp_path / "file").read_text() == (tmp_path / "folder" / "only.png").read_text() == "mine"
    assert not (tmp_path / "a.csv").is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"file", "folder", "a.csv", "model"}


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "plain").write_text("x")
    write_text(tmp_path / "ours", "x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_folder_that_cannot_be_opened_once_made_is_removed(tmp_path, monkeypatch):
    real = os.open

    def failing(path, flags, *more, **options):
        if str(path).endswith(".writing"):
            raise OSError(5, "Input/output error")
        return real(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(OSError, match="Input/output"), new_directory(tmp_path / "model"):
        pass
    assert os.listdir(tmp_path) == []


def test_a_key_is_kept_where_the_file_system_has_no_locks(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("fcntl.flock", lambda *_: (_ for _ in ()).throw(OSError(37, "No locks available")))
    assert is_ours("a", mark("a"))
