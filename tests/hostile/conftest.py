"""A finished run of folders of images, as a stranger may send one, and a command that is run in this process."""

import random
import shutil
import sys

import pytest
from hostile_files import TRIED, every_case, everything, finished_run, note

from newfound.cli import main as cli


class Command:
    """A command in this process: its exit status, what it printed, and the lines on standard error."""

    def __init__(self, monkeypatch, capsys):
        self.monkeypatch, self.capsys, self.out = monkeypatch, capsys, ""

    def __call__(self, *words):
        self.monkeypatch.setattr(sys, "argv", ["newfound", *map(str, words)])
        self.capsys.readouterr()
        status = cli.status()
        captured = self.capsys.readouterr()
        self.out = captured.out
        return status, captured.err.splitlines()

    def refused(self, *words):
        """The one sentence of a command that ends with status 2."""
        status, lines = self(*words)
        told = [line for line in lines if line.startswith("newfound: ")]
        assert (status, len(told)) == (2, 1), (status, lines)
        return told[0]

    def works(self, *words):
        status, lines = self(*words)
        assert status == 0, (status, lines)
        return lines


@pytest.fixture
def newfound(monkeypatch, capsys):
    return Command(monkeypatch, capsys)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """The folders of a finished run, and the run."""
    return finished_run(tmp_path_factory.mktemp("finished"), method="kmeans")


@pytest.fixture
def finished(made_once, tmp_path):
    """A copy of the run, beside its answers."""
    shutil.copytree(made_once / "run", tmp_path / "run", symlinks=True)
    shutil.copy(made_once / "truth.csv", tmp_path)
    return tmp_path


@pytest.fixture
def mine(tmp_path):
    """A folder of the person's own, which is as it was at the end of the test."""
    folder = tmp_path / "mine"
    (folder / "holiday").mkdir(parents=True)
    (folder / "holiday" / "only.png").write_text("mine")
    (folder / "letter.txt").write_text("mine, and nobody else's")
    before = everything(folder)
    yield folder
    assert everything(folder) == before


QUICK, SLOW = 3, 6
"""Cases of a test with many that are tried by the quick and by the slow suite."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Keep a few cases, chosen by a seed, of each test that has a command try many files."""
    if every_case():
        return
    cases = {}
    for item in items:
        if item.path.name == "test_special_files.py" and hasattr(item, "callspec"):
            cases.setdefault(item.function, []).append(item)
    left = set()
    for some in cases.values():
        most = SLOW if some[0].get_closest_marker("slow") else QUICK
        left |= set(some) - set(random.Random(0).sample(some, min(most, len(some))))
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]


_outcomes: dict[str, list[bool]] = {}
NAMES = {"test_links": "links and folders of one's own", "test_special_files": "special and malformed files"}
NAMES |= {"test_races": "races and processes killed"}


def pytest_runtest_logreport(report):
    module = report.nodeid.partition("::")[0].rpartition("/")[2].removesuffix(".py")
    if module in NAMES and report.when == "call" and not report.skipped:
        _outcomes.setdefault(module, []).append(report.failed)


def pytest_sessionfinish(session):
    for module, failed in _outcomes.items():
        note("inputs", NAMES[module], len(failed), sum(failed))


def pytest_terminal_summary(terminalreporter):
    for section, rows in TRIED.items():
        tried, bad = (sum(row[i] for row in rows.values()) for i in (0, 1))
        terminalreporter.write_line(f"{section}: {bad} bad of {tried} tried")
        if section == "faults":
            for name, (tried, bad) in rows.items():
                terminalreporter.write_line(f"  {name}: {bad} bad of {tried}")
