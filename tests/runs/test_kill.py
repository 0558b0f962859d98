"""A run that is killed at random instants and resumed ends bit for bit like one that was not."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from methods_tiny import TINY
from safetensors.torch import load_file

KILLS = 4
STEPS = 400


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "newfound", *map(str, words)]


def discover(out: Path, method: str, threads: int) -> list[str]:
    changes = {"stage1.epochs": 40, "log_every": 3}
    if method == "apl":
        changes = TINY | changes | {"stage1.epochs": 10, "stage1.batch": 33}
    settings = [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
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


@pytest.mark.parametrize(
    ("method", "threads"),
    [*(pytest.param("kmeans", n, marks=pytest.mark.slow) for n in (1, 2)), ("apl", 2)],
)
def test_a_killed_run_resumes_bit_for_bit(tmp_path, method, threads):
    subprocess.run(discover(tmp_path / "whole", method, threads), check=True, capture_output=True)
    rng = random.Random(threads)
    run = tmp_path / "killed"
    instants = [*sorted(rng.randrange(STEPS) for _ in range(KILLS)), STEPS]
    for instant in instants:
        started = (run / "settings.yaml").exists()
        words = command("resume", run, "--quiet") if started else discover(run, method, threads)
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while steps_done(run) < instant and process.poll() is None:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.1))  # anywhere in a step, in writing a checkpoint, or in what follows training
        process.kill()
        process.wait()
    assert not (run / "result.json").exists(), "the run was over before the last kill"
    subprocess.run(command("resume", run, "--quiet"), check=True, capture_output=True)
    expected, got = contents(tmp_path / "whole"), contents(run)
    assert got.keys() == expected.keys()
    assert [name for name in expected if got[name] != expected[name]] == []
