"""A step of training that the memory is not enough for ends in a sentence, and counting it changes nothing."""

import contextlib
import gc
import resource
import subprocess
import sys
import weakref

import pytest
import torch
from hostile_files import TINY, make_trees
from torch import nn

from newfound import discover
from newfound.engine import room
from newfound.errors import UserError

CPU = torch.device("cpu")


def layers():
    """Given ``images``, 210 MB are kept, 10 of these and 100 for each ReLU; a gradient has 100 MB."""
    return nn.Sequential(nn.Linear(100, 1000), nn.ReLU(), nn.ReLU(), nn.Linear(1000, 1))


@pytest.fixture(scope="module")
def images():
    return torch.randn(25_000, 100)


def test_what_is_kept_for_the_backward_pass_is_counted_once(images, monkeypatch):
    net = layers()
    monkeypatch.setattr(room, "free_memory", lambda: int(1.05 * 410e6 / room.SHARE))
    with room.require_room(CPU, "stage1"):
        net(images).sum().backward()
    found = iter([int(0.95 * 410e6 / room.SHARE), 0])  # and nothing to give back
    monkeypatch.setattr(room, "free_memory", lambda: next(found))
    words = r"more than four fifths of the 487 MB of memory that were free: .*smaller stage1\.batch"
    with pytest.raises(UserError, match=words), room.require_room(CPU, "stage1"):
        net(images).sum().backward()


def test_a_little_may_always_be_taken(images, monkeypatch):
    monkeypatch.setattr(room, "free_memory", lambda: 0)
    with room.require_room(CPU, "stage1"):
        layers()(images[:3000]).sum().backward()


def test_a_large_layers_weights_are_there_before(monkeypatch):
    monkeypatch.setattr(room, "free_memory", lambda: 0)
    net = nn.Sequential(nn.Linear(10, 5000), nn.Linear(5000, 5000), nn.ReLU())  # 100 MB of weights
    with room.require_room(CPU, "stage1"):
        net(torch.randn(2, 10)).sum().backward()


def test_what_the_process_has_freed_and_kept_is_free_too(images, monkeypatch):
    found = iter([int(100e6), int(600e6)])  # before and after it is given back
    monkeypatch.setattr(room, "free_memory", lambda: next(found))
    with room.require_room(CPU, "stage1"):
        layers()(images).sum().backward()


def test_what_a_refused_step_had_computed_is_given_back(images, monkeypatch):
    net, made = layers(), []
    net[1].register_forward_hook(lambda _, __, output: made.append(weakref.ref(output)))
    found = iter([int(320e6 / room.SHARE), 0])  # enough for the first ReLU alone
    monkeypatch.setattr(room, "free_memory", lambda: next(found))
    with contextlib.suppress(UserError), room.require_room(CPU, "stage1"):
        net(images)
        pytest.fail("it was to be refused")
    gc.collect()
    assert [output() for output in made] == [None]


@pytest.fixture
def trees(tmp_path):
    make_trees(tmp_path)
    return tmp_path / "known", tmp_path / "pile"


def options(tmp_path, **more):
    return {"n_novel": 2, "method": "kmeans", "cache": tmp_path / "cache", "settings": TINY | more}


def test_a_run_whose_step_does_not_fit_says_so(trees, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "free_memory", lambda: 10**5)
    monkeypatch.setattr(room, "LITTLE", 0)
    with pytest.raises(UserError, match=r"a smaller stage1\.batch or data\.size"):
        discover(*trees, out=tmp_path / "run", **options(tmp_path))


def test_counting_changes_no_figure(trees, tmp_path, monkeypatch):
    counted = discover(*trees, out=tmp_path / "counted", **options(tmp_path))
    monkeypatch.setattr("newfound.engine.loop.require_room", lambda *_: contextlib.nullcontext())
    plain = discover(*trees, out=tmp_path / "plain", **options(tmp_path))
    for name in ("metrics.jsonl", "assignments.csv", "model/model.safetensors"):
        assert (counted.folder / name).read_bytes() == (plain.folder / name).read_bytes(), name


@pytest.mark.slow
@pytest.mark.parametrize("size", [256, 1024])
def test_settings_that_do_not_fit_end_in_a_sentence_before_the_memory_is_full(trees, tmp_path, size):
    """One batch of 12 images: of 256 pixels 700 MB, which fit into 4 GB, and of 1,024 pixels sixteen times that."""
    most = 4 * 2**30
    words = ["--labelled", trees[0], "--unlabelled", trees[1], "--novel", 2, "--method", "kmeans"]
    for name, value in (TINY | {"data.size": size, "stage1.batch": 12, "stage1.epochs": 1}).items():
        words += ["--set", f"{name}={value}"]
    done = subprocess.run(
        [sys.executable, "-m", "newfound", "discover", *map(str, words), "--out", tmp_path / "run"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if size == 256 else 2), done.stderr
    assert size == 256 or "a smaller stage1.batch or data.size" in done.stderr
