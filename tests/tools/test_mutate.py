"""The mutation run: which changes it makes, and whether it tells a change that a test sees from one that none does."""

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("mutate", ROOT / "tools" / "mutate.py")
mutate = sys.modules["mutate"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(mutate)

SOURCE = '''
"""Docstrings of 1 < 2 stay — with letters of several bytes: é."""

class S:
    epochs: int = number(9, 11, 12)

def f(x: "int < 3", *, n: int = 2) -> "1 + 1":
    """Not 3 + 4 either."""
    if x < n:
        raise ValueError(f"{x + 1} is less than 5" + "6")
    self.sum += F.normalize(x.detach(), dim=1).argmax(0)
    self.seed = [7, 0x7B57]
    return torch.where(x[:n] > 0, -x, 0.5 if n else 1e-9)
'''
CHANGES = {
    *{("9", "10"), ("2", "3")},
    *{("<", "<="), ("<", ">=")},
    *{("self.sum += F.normalize(x.detach(), dim=1).argmax(0)", "pass"), ("self.seed = [7, 0x7B57]", "pass")},
    *{("F.normalize(x.detach(), dim=1)", "(x.detach())"), (".detach()", ""), ("1", "0"), ("argmax", "argmin")},
    *{("0", "1"), ("7", "8"), (":n", "n:"), (">", ">="), (">", "<="), ("-x", "(x)"), ("0.5", "0.375"), ("n", "not n")},
    ("-x, 0.5 if n else 1e-9", "0.5 if n else 1e-9, -x"),
}


def test_changes_are_made_where_they_mean_something_and_nowhere_else():
    assert {(m.old, m.new) for m in mutate.find_mutants("f.py", SOURCE)} == CHANGES


def test_a_mutant_differs_from_the_source_in_its_span_alone():
    for mutant in mutate.find_mutants("f.py", SOURCE):
        changed = mutant.apply(SOURCE.encode()).decode()
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SOURCE))
        before, after = SOURCE.encode()[: mutant.start].decode(), SOURCE.encode()[mutant.end :].decode()
        assert changed == before + mutant.new + after
        assert before.count("\n") + 1 == mutant.line


def test_the_same_seed_draws_the_same_mutants():
    places = ["newfound/evaluate", "newfound/losses/sinkhorn.py"]
    drawn = mutate.draw(places, 20, seed=0)
    assert drawn == mutate.draw(places, 20, seed=0) != mutate.draw(places, 20, seed=1)
    assert len(set(drawn)) == 20
    assert {m.path.rsplit("/", 1)[0] for m in drawn} == {"newfound/evaluate", "newfound/losses"}
    assert all((ROOT / m.path).read_bytes()[m.start : m.end].decode() == m.old for m in drawn)


DRIVER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import mutate
mutate.ROOT, mutate.IMPORTED_ONCE = Path(sys.argv[2]), ("pytest", "hypothesis")
mutate.NEAREST, mutate.WIDER = {"newfound": ("tests/test_near.py",)}, ("tests/test_wide.py",)
mutate.main(["newfound/a.py", "--out", sys.argv[3]])
"""


def test_a_change_that_a_test_sees_is_killed_and_one_that_none_sees_survives(tmp_path):
    files = {
        "newfound/__init__.py": "",
        "newfound/a.py": "near = lambda x: x + 3\nwide = lambda x: x - 5\nunseen = lambda x: -x\n",
        "tests/test_near.py": "from newfound.a import near\ndef test_near():\n    assert near(2) == 5\n",
        "tests/test_wide.py": "from newfound.a import wide\ndef test_wide():\n    assert wide(9) == 4\n",
        "pyproject.toml": "[tool.pytest.ini_options]\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    out = tmp_path / "mutants.json"
    command = [sys.executable, "-c", DRIVER, str(ROOT / "tools"), str(tmp_path), str(out)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = {(row["old"], row["new"]): (row["status"], row["by"]) for row in json.loads(out.read_text())}
    near, wide = ("killed", "tests/test_near.py::test_near"), ("killed", "tests/test_wide.py::test_wide")
    assert found == {
        ("+", "-"): near, ("3", "4"): near, ("-", "+"): wide, ("5", "6"): wide, ("-x", "(x)"): ("survived", "")
    }  # fmt: skip
    assert "80.0% of 5 did not survive" in run.stdout
    assert run.stdout.rstrip().endswith("newfound/a.py:3: -x -> (x)   in: unseen = lambda x: -x")
    assert {name: (tmp_path / name).read_text() for name in files} == files
