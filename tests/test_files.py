import os
import time

import pytest

from newfound.files import clear_unfinished, new_directory, write_json, write_text


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    write_json(path, {"a": 1})
    before = path.read_bytes()

    def fail(_):
        raise OSError("disk full")

    monkeypatch.setattr("newfound.files.sync", fail)
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


def test_what_was_left_half_written_goes_once_nobody_writes_to_it(tmp_path):
    for name in (".images-a.7.writing", ".images-b.7.writing", ".other.7.writing", "images-c", ".images-d"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pixels.bin").write_text("x")
    (tmp_path / ".images-c.7.retired").mkdir()
    ago = time.time() - 100
    for path in (*tmp_path.iterdir(), *tmp_path.rglob("*.bin")):
        os.utime(path, (ago, ago))
    os.utime(tmp_path / ".images-b.7.writing" / "pixels.bin")
    clear_unfinished(tmp_path, "images-*", idle=50)
    assert {p.name for p in tmp_path.iterdir()} == {".images-b.7.writing", ".other.7.writing", "images-c", ".images-d"}
    os.utime(tmp_path / ".other.7.writing", (time.time() + 100,) * 2)  # of a machine whose clock is ahead
    clear_unfinished(tmp_path, idle=0)
    assert {p.name for p in tmp_path.iterdir()} == {"images-c", ".images-d"}


def test_what_was_to_be_replaced_when_a_process_was_killed_stays_where_it_is_the_only_one(tmp_path):
    for name in (".model.7.retired", ".model.7.writing"):
        (tmp_path / name).mkdir()
    clear_unfinished(tmp_path, idle=0)
    assert [p.name for p in tmp_path.iterdir()] == [".model.7.retired"]
    (tmp_path / "model").mkdir()
    clear_unfinished(tmp_path, idle=0)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
