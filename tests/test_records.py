"""Pages with figures are made from records, not typed."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_of_the_digits_is_what_the_record_says(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "digits"))
    monkeypatch.delitem(sys.modules, "run", raising=False)
    import run

    record = json.loads((ROOT / "benchmarks" / "digits" / "record.json").read_text())
    assert (ROOT / "docs" / "digits.md").read_text() == run.page(record)
    assert len(record["results"]["APL"]["runs"]) == 5
    mean = sum(r["accuracy"] for r in record["results"]["APL"]["runs"]) / 5
    assert abs(mean - record["results"]["APL"]["mean"]) < 1e-9
