import io
import re

import pytest

import newfound.progress as module
from newfound.progress import Reporter, format_seconds


class Terminal(io.StringIO):
    """Standard error of a terminal."""

    def isatty(self):
        return True


class Cell(io.StringIO):
    """Standard error of a notebook."""


Cell.__module__ = "ipykernel.iostream"


def test_without_a_terminal_progress_is_plain_lines_with_rate_and_time_left(monkeypatch):
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.0)
    stream = io.StringIO()
    with Reporter(stream=stream).task("stage1", 100) as task:
        task.note = "epoch 1/2"
        task.advance(40, loss=0.125)
        task.advance(60)
    first, last = stream.getvalue().splitlines()
    assert first.startswith("stage1: 40/100 images")
    for part in ("images/s", "left", "epoch 1/2", "loss 0.125"):
        assert part in first
    assert last.startswith("stage1: 100/100 images in 0:00")


def test_lines_come_seldom():
    stream = io.StringIO()
    with Reporter(stream=stream).task("stage1", 1000) as task:
        for _ in range(1000):
            task.advance(1)
    assert len(stream.getvalue().splitlines()) == 1


def test_quiet_says_nothing_but_warnings():
    stream = io.StringIO()
    reporter = Reporter(quiet=True, stream=stream)
    with reporter.task("stage1", 10) as task:
        task.advance(10)
    reporter.say("hello")
    assert stream.getvalue() == ""
    reporter.warn("careful")
    assert stream.getvalue() == "warning: careful\n"


def test_the_rate_of_a_resumed_task_counts_only_what_was_done_since(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with Reporter(quiet=True).task("stage1", 1000, done=900) as task:
        now[0] += 2.0
        task.advance(50)
        assert task.rate == 25.0
        assert "950/1,000" in task.describe()
        assert "0:02 left" in task.describe()


def test_a_terminal_gets_a_bar(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("COLUMNS", "80")
    with Reporter().task("discovery", 1_200_000) as task:
        task.note = "epoch 199/200"
        task.advance(600_000, accuracy=0.123456, loss=0.123456, label_certainty=0.5)
        rich = task._bar.console
    text = re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", stream.getvalue())
    assert "discovery ━" in text
    assert "epoch 199/200  loss 0.123" in text
    assert "label_certainty" not in text
    assert rich.width == 80
    assert max(map(len, text.splitlines())) <= 80


def test_times_read_like_a_clock():
    assert [format_seconds(s) for s in (0, 59.6, 61, 3700)] == ["0:00", "1:00", "1:01", "1:01:40"]


def test_a_line_that_is_not_on_a_terminal_fits_80_columns(monkeypatch):
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.0)
    stream = io.StringIO()
    with Reporter(stream=stream).task("representation learning", 12_000_000) as task:
        task.note = "epoch 199/200"
        task.advance(6_000_000, accuracy=0.123456, loss=0.123456, label_certainty=0.5, teacher_entropy=1.25)
    for line in stream.getvalue().splitlines():
        assert len(line) <= 80
        assert "label_certainty" not in line


def test_the_pauses_between_lines_grow(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    with Reporter(stream=stream).task("stage1", 3601) as task:
        for _ in range(3600):
            now[0] += 1
            task.advance(1)
    assert len(stream.getvalue().splitlines()) == 12 + 1


@pytest.mark.parametrize(("stream", "watched"), [(Terminal(), True), (Cell(), True), (io.StringIO(), False)])
def test_progress_is_shown_where_somebody_watches_unless_said_otherwise(stream, watched, monkeypatch):
    monkeypatch.setattr("sys.stderr", stream)
    assert [Reporter.of(verbose).quiet for verbose in (None, True, False)] == [not watched, False, True]


def test_a_notebook_gets_one_line_that_is_rewritten(monkeypatch):
    monkeypatch.setattr(module, "SECONDS_BETWEEN_REWRITES", 0.0)
    cell = Cell()
    monkeypatch.setattr("sys.stderr", cell)
    with Reporter.of(None).task("stage1", 100) as task:
        task.advance(40, loss=0.125)
        task.advance(60)
    assert cell.getvalue().count("\n") == 1
    parts = cell.getvalue().split("\r")
    assert parts[1].startswith("stage1: 40/100 images")
    assert parts[-1].startswith("stage1: 100/100 images in 0:00")


def test_a_single_step_that_takes_a_moment_leaves_no_line(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    for seconds, lines in ((0.5, 0), (2.0, 1)):
        stream = io.StringIO()
        with Reporter(stream=stream).task("clustering", 1, "tasks") as task:
            now[0] += seconds
            task.advance(1)
        assert len(stream.getvalue().splitlines()) == lines


def test_what_was_all_there_before_has_no_speed():
    said = io.StringIO()
    with Reporter(stream=said).task("reading features", 580, done=580):
        pass
    assert said.getvalue() == "reading features: 580/580 images in 0:00\n"
