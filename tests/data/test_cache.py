import fcntl
import io
import json
import os
import time

import numpy as np
import pytest
import torch
from PIL import Image

from newfound.data import parallel
from newfound.data.cache import decode_cached, default_cache
from newfound.data.disk import DiskStore
from newfound.errors import UserError
from newfound.progress import Reporter

QUIET = Reporter(quiet=True)


@pytest.fixture
def files(tmp_path):
    """Seven pictures, among them a text file and one that is missing."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i in range(6):
        Image.fromarray(rng.integers(0, 256, (9, 9, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    (folder / "text.png").write_text("no image")
    return [folder / f"{i}.png" for i in (3, 0, 1)] + [folder / "text.png", folder / "none.png", folder / "5.png"]


def read(files, cache, **more):
    return decode_cached(files, 4, cache=cache, reporter=QUIET, **more)


def assert_same(first, second):
    assert first.kept.tolist() == second.kept.tolist()
    assert first.skipped == second.skipped
    assert first.images.fingerprint() == second.images.fingerprint()
    index = torch.arange(len(first.images))
    assert torch.equal(first.images.batch(index), second.images.batch(index))


def test_the_order_is_kept_and_what_cannot_be_read_is_said(files, tmp_path):
    found = read(files, tmp_path / "cache")
    assert found.kept.tolist() == [0, 1, 2, 5]
    assert [(s.file, bool(s.reason)) for s in found.skipped] == [(str(files[3]), True), (str(files[4]), True)]
    one = decode_cached([files[5]], 4, cache=None, reporter=QUIET)
    assert torch.equal(found.images.images[3], one.images.images[0])


def test_memory_cache_and_disk_give_the_same_images(files, tmp_path):
    in_memory = read(files, None)
    first = read(files, tmp_path / "cache")
    on_disk = read(files, tmp_path / "cache", resident=10)
    assert isinstance(on_disk.images, DiskStore)
    assert not isinstance(first.images, DiskStore)
    assert_same(in_memory, first)
    assert_same(in_memory, on_disk)


def test_a_second_reading_decodes_nothing(files, tmp_path, monkeypatch):
    first = read(files, tmp_path / "cache")

    def never(*_):
        raise AssertionError("decoded again")

    monkeypatch.setattr(parallel, "decode", never)
    assert_same(first, read(files, tmp_path / "cache"))


@pytest.mark.parametrize("change", ["content", "size", "channels", "order", "appearance"])
def test_whatever_changes_the_images_makes_the_cache_miss(files, tmp_path, change):
    cache = tmp_path / "cache"
    read(files, cache)
    more = {"channels": 1} if change == "channels" else {}
    if change == "content":
        Image.new("RGB", (20, 20), "red").save(files[0])
    if change == "appearance":
        Image.new("RGB", (20, 20), "red").save(files[4])
    listed = files[::-1] if change == "order" else files
    found = decode_cached(listed, 5 if change == "size" else 4, cache=cache, reporter=QUIET, **more)
    assert len(list(cache.iterdir())) == 2
    fresh = decode_cached(listed, 5 if change == "size" else 4, cache=None, reporter=QUIET, **more)
    assert_same(found, fresh)


def test_one_channel_is_the_grey_level(files):
    grey = decode_cached(files[:1], 4, channels=1, cache=None, reporter=QUIET).images.images[0, 0].float()
    red, green, blue = decode_cached(files[:1], 4, cache=None, reporter=QUIET).images.images[0].float()
    torch.testing.assert_close(grey, 0.299 * red + 0.587 * green + 0.114 * blue, atol=0.51, rtol=0)


def test_no_file_gives_no_image(tmp_path):
    for cache in (None, tmp_path / "cache"):
        found = read([], cache)
        assert (len(found.images), found.images.shape, found.skipped) == (0, (3, 4, 4), ())


def test_many_blocks_and_workers_give_what_one_gives(files, monkeypatch):
    whole = read(files * 5, None, workers=1)
    monkeypatch.setattr(parallel, "BLOCK", 7)
    assert_same(whole, read(files * 5, None, workers=4))


DAMAGE = {
    "one byte": lambda content: content[:-5] + bytes([content[-5] ^ 4]) + content[-4:],
    "first byte": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "truncated": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "zeros": lambda content: bytes(len(content)),
    "nested": lambda content: b"[" * 100_000,
    "gone": None,
    "a folder": "a folder",
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("file", ["pixels.bin", "index.json", "kept.npy", "digests.npy", "checks.npy"])
def test_a_damaged_cache_is_made_anew_aloud(files, tmp_path, capsys, file, damage):
    cache = tmp_path / "cache"
    before = read(files, cache)
    (folder,) = cache.iterdir()
    content = (folder / file).read_bytes()
    (folder / file).unlink()
    if damage == "a folder":
        (folder / file).mkdir()
    elif damage != "gone":
        (folder / file).write_bytes(DAMAGE[damage](content))
    assert_same(before, read(files, cache))
    told = capsys.readouterr().err
    assert ("is damaged" in told) == (not (file == "index.json" and damage in ("gone", "a folder"))), told
    assert_same(before, read(files, cache))
    assert (folder / file).read_bytes() == content
    assert capsys.readouterr().err == ""


def test_an_image_that_rots_while_it_is_read_from_disk_has_the_next_call_decode_again(files, tmp_path):
    before = read(files, tmp_path / "cache", resident=10)
    (folder,) = (tmp_path / "cache").iterdir()
    content = (folder / "pixels.bin").read_bytes()
    (folder / "pixels.bin").write_bytes(bytes([content[0] ^ 128]) + content[1:])
    rotten = read(files, tmp_path / "cache", resident=10)
    with pytest.raises(UserError, match="is made anew"):
        rotten.images.batch(torch.arange(2))
    again = read(files, tmp_path / "cache", resident=10)
    assert torch.equal(again.images.batch(torch.arange(2)), read(files, None).images.batch(torch.arange(2)))
    assert before.kept.tolist() == again.kept.tolist()


def test_a_cache_that_cannot_be_written_is_done_without(files, tmp_path, capsys):
    place = tmp_path / "file"
    place.write_text("in the way")
    assert_same(read(files, place / "cache"), read(files, None))
    assert "cannot be kept" in capsys.readouterr().err
    with pytest.raises(UserError, match="choose another place with cache"):
        read(files, place / "cache", resident=10)


def test_an_interrupted_reading_stops_soon_and_leaves_no_cache(files, tmp_path, monkeypatch):
    read_so_far = []

    def slow(path, size):
        read_so_far.append(path)
        time.sleep(0.002)
        return np.zeros((3, size, size), np.uint8)

    class CtrlC(io.StringIO):
        def write(self, text):
            raise KeyboardInterrupt

    monkeypatch.setattr(parallel, "decode", slow)
    monkeypatch.setattr("newfound.progress.SECONDS_BETWEEN_LINES", 0.0)
    cache = tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt):
        decode_cached(files[:1] * 4000, 4, cache=cache, reporter=Reporter(stream=CtrlC()), workers=2)
    assert 0 < len(read_so_far) < 1000
    assert list(cache.iterdir()) == []


def test_what_a_killed_reading_left_goes_and_what_somebody_is_writing_stays(files, tmp_path):
    killed, live = (tmp_path / "cache" / f".images-{name}.0007abcd.writing" for name in ("killed", "live"))
    for folder in (killed, live):
        folder.mkdir(parents=True)
    handle = os.open(live, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)  # as its writer does, in whichever container
    read(files, tmp_path / "cache")
    os.close(handle)
    assert not killed.exists()
    assert live.exists()


def test_the_cache_is_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "newfound"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache() == tmp_path / ".cache" / "newfound"


def test_the_index_holds_plain_values(files, tmp_path):
    read(files, tmp_path / "cache")
    (folder,) = (tmp_path / "cache").iterdir()
    assert json.loads((folder / "index.json").read_text())["shape"] == [3, 4, 4]
