import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import security  # noqa: E402


def test_the_page_has_the_counts_of_the_record():
    text = security.PAGE.read_text(encoding="utf-8")
    record = json.loads(security.RECORD.read_text(encoding="utf-8"))
    assert security.page(text, record) == text, "run tools/security.py"


def test_every_count_is_in_a_table():
    found = security.tables(
        {"faults": {"save, kill": {"tried": 1200, "bad": 3}}, "other": {"x": {"tried": 1, "bad": 0}}}
    )
    assert "| save, kill | 1,200 | 3 |" in found
    assert found.index("together") < found.index("**other.**") < found.index("| x | 1 | 0 |")
