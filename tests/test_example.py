"""The worked example of the documentation runs as it stands, with fewer epochs."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_worked_example_finds_the_digits(tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "example.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 4
    code = "\n".join(blocks)
    assert '"stage1.epochs": 30' in code
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "example"}
    exec(compile(code.replace('"stage1.epochs": 30', '"stage1.epochs": 4'), "example.md", "exec"), names)
    assert set(names["model"].classes_) == {*"02468", *(f"novel-0{i}" for i in range(1, 6))}
    exported = [path for path in (tmp_path / "sorted").rglob("*.png")]
    assert len(exported) == len(list((tmp_path / "pile").iterdir()))
    right = float(re.search(r"([\d.]+)% of the pile is in the right group", capsys.readouterr().out)[1])
    assert right > 40  # a fifth by chance
