"""Make the tables of docs/security.md from what the tests counted (tests/hostile/record.json)."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE, RECORD = ROOT / "docs" / "security.md", ROOT / "tests" / "hostile" / "record.json"
BEGIN, END = "<!-- tables: made by tools/security.py -->\n", "<!-- end of tables -->\n"
TITLES = {
    "inputs": "Cases of files, links and processes",
    "fuzz": "Files with bytes at random: neither a value nor a sentence is bad",
    "faults": "Before each operation on files: the process is killed, a read fails, a write fails, the disk is full",
}
"""Sections of the record, in the order of the page; others follow by their names."""


def tables(record: dict[str, dict[str, dict[str, int]]]) -> str:
    """Markdown with a table for each section."""
    sections = sorted(record, key=lambda name: (list(TITLES).index(name) if name in TITLES else len(TITLES), name))
    text = ""
    for section in sections:
        rows = record[section]
        text += f"\n**{TITLES.get(section, section)}.**\n\n| what | tried | bad |\n|---|---:|---:|\n"
        text += "".join(f"| {name} | {row['tried']:,} | {row['bad']:,} |\n" for name, row in sorted(rows.items()))
        tried, bad = (sum(row[name] for row in rows.values()) for name in ("tried", "bad"))
        text += f"| together | {tried:,} | {bad:,} |\n"
    return text + "\n"


def page(text: str, record: dict[str, dict[str, dict[str, int]]]) -> str:
    """The page with the tables of this record in their place."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + tables(record) + END + rest.split(END)[1]


if __name__ == "__main__":
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), record), encoding="utf-8")
