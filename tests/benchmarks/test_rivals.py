"""Whatever a rival does, the benchmark goes on and says what happened."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest

SPEED = Path(__file__).parents[2] / "benchmarks" / "speed"


@pytest.fixture
def rivals(monkeypatch):
    monkeypatch.syspath_prepend(str(SPEED))
    import rivals

    return rivals


def program(*lines):
    return [sys.executable, "-c", "\n".join(lines)]


def test_a_rival_that_hangs_is_stopped_with_its_workers_and_keeps_its_figures(rivals):
    # The worker holds the program's output open: were it alive, reading that output would take its minute.
    worker = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    began = time.monotonic()
    figures = rivals.run_within(
        3, program("import subprocess, sys, time", worker, """print('{"loader": 7}', flush=True)""", "time.sleep(60)")
    )
    assert figures == {"loader": 7, "reason": "stopped after 3 s"}
    assert time.monotonic() - began < 40


def test_a_rival_that_crashes_leaves_its_figures_and_its_last_words(rivals):
    figures = rivals.run_within(
        30, program("print('noise')", """print('{"loader": 7}')""", "raise MemoryError('too many views')")
    )
    assert figures == {"loader": 7, "reason": "ended with status 1: MemoryError: too many views"}


def test_later_figures_join_earlier_ones_without_a_reason_when_all_went_well(rivals):
    assert rivals.run_within(30, program("""print('{"a": 1, "b": 1}')""", """print('{"b": 2}')""")) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("library", "call", "figure"),
    [("lightly", "lightly_images_per_s", "images_per_s"), ("kornia", "kornia_ms", "ms")],
)
def test_a_missing_library_is_a_reason(rivals, library, call, figure, tmp_path, monkeypatch):
    missing = f"No module named {library!r}"
    (tmp_path / f"{library}.py").write_text(f"raise ModuleNotFoundError({missing!r})")
    monkeypatch.syspath_prepend(str(tmp_path))
    images = np.zeros((2, 32, 32, 3), np.uint8)
    figures = getattr(rivals, call)(images, device="cpu", limit=100)
    assert figures == {figure: None, "reason": f"{library} cannot be imported here: {missing}"}
