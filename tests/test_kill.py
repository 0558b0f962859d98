"""A run that is killed at random instants and resumed ends bit for bit like one that was not."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

KILLS = 4


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "newfound", *map(str, words)]


def discover(out: Path, threads: int) -> list[str]:
    settings = ["--set", "stage1.epochs=60", "--set", "log_every=3"]
    return command("discover", "--dataset", "digits", "--threads", threads, "--quiet", *settings, "--out", out)


def contents(run: Path) -> dict[str, object]:
    files = {name: (run / name).read_bytes() for name in ("metrics.jsonl", "assignments.csv", "skipped.csv")}
    folders = [run / "model", *sorted((run / "checkpoint").iterdir())]
    for path in (path for folder in folders for path in folder.glob("*.safetensors")):
        for name, tensor in load_file(path).items():
            files[f"{path.relative_to(run)}/{name}"] = (tensor.dtype, tensor.shape, tensor.numpy().tobytes())
    return files


@pytest.mark.parametrize("threads", [1, 2])
def test_a_killed_run_resumes_bit_for_bit(tmp_path, threads):
    began = time.monotonic()
    subprocess.run(discover(tmp_path / "whole", threads), check=True, capture_output=True)
    duration = time.monotonic() - began
    rng = random.Random(threads)
    run, survived = tmp_path / "killed", 0
    for _ in range(KILLS):
        started = (run / "settings.yaml").exists()
        process = subprocess.Popen(
            command("resume", run, "--quiet") if started else discover(run, threads),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            process.wait(timeout=rng.uniform(0.35, 1.0) * duration)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            survived += any((run / "checkpoint").glob("stage1-*")) and not (run / "result.json").exists()
    assert survived, "no kill fell between the first checkpoint and the result: the test shows nothing"
    subprocess.run(command("resume", run, "--quiet"), check=True, capture_output=True)
    expected, got = contents(tmp_path / "whole"), contents(run)
    assert got.keys() == expected.keys()
    assert [name for name in expected if got[name] != expected[name]] == []
