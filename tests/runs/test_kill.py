"""A run that is killed at random instants and resumed ends bit for bit like one that was not."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from methods_tiny import TINY
from safetensors.torch import load_file

import newfound

STEPS = {"kmeans": 10, "apl": 41}
"""Steps of an epoch of stage I."""


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "newfound", *map(str, words)]


def short(method: str, epochs: int) -> dict[str, object]:
    changes = {"stage1.epochs": epochs, "log_every": 3}
    return TINY | changes | {"stage1.batch": 33} if method == "apl" else changes


def discover(out: Path, method: str, threads: int, epochs: int) -> list[str]:
    settings = [word for name, value in short(method, epochs).items() for word in ("--set", f"{name}={value}")]
    words = ["--dataset", "digits", "--method", method, "--threads", threads, "--quiet"]
    return command("discover", *words, *settings, "--out", out)


def contents(run: Path) -> dict[str, object]:
    files = {name: (run / name).read_bytes() for name in ("metrics.jsonl", "assignments.csv", "skipped.csv")}
    folders = [run / "model", *sorted((run / "checkpoint").iterdir())]
    for path in (path for folder in folders for path in folder.glob("*.safetensors")):
        for name, tensor in load_file(path).items():
            files[f"{path.relative_to(run)}/{name}"] = (tensor.dtype, tensor.shape, tensor.numpy().tobytes())
    return files


def steps_done(run: Path) -> int:
    return max((int(path.name[-9:]) for path in (run / "checkpoint").glob("stage1-*")), default=-1)


@pytest.fixture(autouse=True)
def threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("method", "threads", "epochs", "kills"),
    [
        ("apl", 1, 3, 1),
        pytest.param("apl", 2, 10, 4, marks=pytest.mark.slow),
        pytest.param("kmeans", 1, 40, 4, marks=pytest.mark.slow),
        pytest.param("kmeans", 2, 40, 4, marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_resumes_bit_for_bit(tmp_path, method, threads, epochs, kills):
    """Killed in stage I and once more at its end."""
    settings = short(method, epochs)
    newfound.discover(dataset="digits", method=method, threads=threads, settings=settings, out=tmp_path / "whole")
    rng = random.Random(threads)
    run = tmp_path / "killed"
    steps = epochs * STEPS[method]
    for instant in [*sorted(rng.randrange(steps) for _ in range(kills)), steps]:
        started = (run / "settings.yaml").exists()
        words = command("resume", run, "--quiet") if started else discover(run, method, threads, epochs)
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while steps_done(run) < instant and process.poll() is None:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.1))  # anywhere in a step, in writing a checkpoint, or in what follows training
        process.kill()
        process.wait()
    assert not (run / "result.json").exists(), "the run was over before the last kill"
    seconds = newfound.resume(run).result["seconds"]
    assert seconds.pop("since_start") >= sum(seconds.values()), "what was trained before counts"
    expected, got = contents(tmp_path / "whole"), contents(run)
    assert got.keys() == expected.keys()
    assert [name for name in expected if got[name] != expected[name]] == []
