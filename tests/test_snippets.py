"""What pages say to type runs: as it stands, and in the quick tests of the README and the tutorial on fewer images."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from newfound.cli import main as cli

ROOT = Path(__file__).parents[1]
FEW = {
    "newfound data get cifar10 --to data\n": "",
    "data sample cifar10 --data data --to photos --each 60": "data sample digits --to photos --each 5",
    "data sample digits --to digits\n": "data sample digits --to digits --each 5\n",
    "--reject 0.05 ": "",
    "[:600]": "[:40]",
}
"""What the quick tests change: digits for photographs, and images too few to hold any out."""


def blocks(page):
    """The commands and the Python code of a page, in order."""
    return re.findall(r"^```(sh|python)\n(.*?)^```$", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)


def run(kind, code, monkeypatch):
    if kind == "python":
        exec(compile(code, "snippet", "exec"), {"__name__": "snippet"})
        return
    for line in code.splitlines():
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        assert cli.status() == 0, line


def run_page(page, monkeypatch, changes):
    for kind, code in blocks(page):
        for old, new in changes.items():
            code = code.replace(old, new)
        run(kind, code, monkeypatch)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("page", ["README.md", pytest.param("docs/tutorial.md", marks=pytest.mark.slow)])
def test_what_a_page_says_to_type_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_page(page, monkeypatch, FEW)
    assert len((tmp_path / "found.csv").read_text().splitlines()) == 1 + 10
    assert len(list((tmp_path / "sorted").glob("novel-0?/*.png"))) == 25
    assert (tmp_path / "run" / "report.html").is_file()
    assert "'novel-05': " in capsys.readouterr().out


@pytest.mark.parametrize("number", range(len(blocks("docs/library.md"))))
def test_the_code_on_using_the_parts_prints_what_the_page_says(number, monkeypatch, capsys):
    kind, code = blocks("docs/library.md")[number]
    run(kind, code, monkeypatch)
    said = re.findall(r"^print\(.*\)  # (.*)$", code, flags=re.MULTILINE)
    assert said
    assert capsys.readouterr().out.splitlines()[-len(said) :] == said


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_readme_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_page("README.md", monkeypatch, {})
    assert len(list((tmp_path / "sorted").glob("novel-0?/*.png"))) == 300


@pytest.mark.data
def test_the_tutorial_finds_what_it_says(tmp_path, monkeypatch, capsys):
    assert "NEWFOUND_DATA" in os.environ, "set NEWFOUND_DATA to the folder that holds the data sets"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(Path(os.environ["NEWFOUND_DATA"]).absolute())
    run_page("docs/tutorial.md", monkeypatch, {"newfound data get cifar10 --to data\n": ""})
    page, (out, err) = (ROOT / "docs/tutorial.md").read_text(), capsys.readouterr()
    said = r"unlabelled images: accuracy ([\d.]+)%"
    assert float(re.search(said, out)[1]) == pytest.approx(float(re.search(said, page)[1]), abs=3)
    listed = r"^novel-0\d  \d+ images  (?:near to: (.*?)  )?train-"
    assert sorted(re.findall(listed, out, flags=re.M)[:5]) == sorted(re.findall(listed, page, flags=re.M))
    assert "120 names in the table are no images of this run" in err
    assert "120 names" in page
