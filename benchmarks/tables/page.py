"""docs/results.md and its pictures from rows.yaml, the records and page.md, the part that is written by hand; and the
figures that `newfound methods` prints, newfound/methods/recorded.json:

python benchmarks/tables/page.py
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from charts import charts
from rows import Records, Row, Tables, accuracies, minutes_of, of_row, read_records, read_tables

from newfound.report.drawing import Drawing, digest_of

HERE = Path(__file__).parent
PARTS = ("old", "new", "all")
COUNTS = {"owned": "ours", "dtc": "DTC", "gcd": "GCD", "shift": "mean shift"}
"""Ways to count novel categories, and what docs/count.md calls them."""
HEAD = ("", "published", "ours", "seeds", "difference", "minutes", "on", "commit", "options")


def page(tables: Tables, records: Records, earlier: Records, text: str) -> str:
    """The page: ``text`` with the tables in the place of its marks."""
    made = sum(job.name in records for job in tables.jobs)
    parts = {
        "<!-- count -->": f"{made} of {len(tables.jobs)} runs have a record.",
        "<!-- tables -->": "\n".join(_dataset(name, tables, records) for name in tables.datasets),
        "<!-- earlier -->": _earlier(tables, earlier),
        "<!-- paper -->": _paper(tables, records),
        "<!-- counted -->": _counted(tables, records),
    }
    for mark, part in parts.items():
        if text.count(mark) != 1:
            raise SystemExit(f"page.md should have {mark} once")
        text = text.replace(mark, part.rstrip("\n"))
    return re.sub(r"\{\{(.+?)\}\}", lambda found: said(found[1], tables, records), text)


def said(words: str, tables: Tables, records: Records) -> str:
    """A figure that a sentence names: "ROW" is its mean, "ROW published" the published one, "ROW seeds" their number,
    "ROW test old" a mean on test images (under the strict protocol, or the one in the place of "test"), "A - B" the
    difference of two of these, and "A over B" the same without a plus."""
    for between, form in ((" - ", "+.1f"), (" over ", ".1f")):
        if between in words:
            one, other = (float(said(part, tables, records)) for part in words.split(between))
            return f"{one - other:{form}}"
    name, *what = words.split()
    row = tables.rows[name]
    found = of_row(row, tables, records)
    values = accuracies(row, found)
    if what == ["published"]:
        return row.published.split()[0]
    if len(what) == 2:
        values = [100 * record["test"]["strict" if what[0] == "test" else what[0]][what[1]] for record in found]
    if not values:
        raise SystemExit(f"page.md speaks of {name}, which has no record")
    return str(len(values)) if what == ["seeds"] else f"{statistics.mean(values):.1f}"


def _paper(tables: Tables, records: Records) -> str:
    """The paper's tables with where their counterparts are, and how many of their figures have a record."""
    head = ("the paper's table", "here", "figures with a record")
    lines = []
    for one in tables.paper:
        links, rows = [], []
        for name in one.data:
            title = tables.datasets[name].title
            slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            links.append(f"[{title.partition(',')[0]}](#{slug})")
            several = [row for row in tables.groups[one.group] if row.dataset == name and row.published]
            rows += [row for row in several if (row.test if one.test else row.source == "paper")]
        made = sum(bool(accuracies(row, of_row(row, tables, records))) for row in rows)
        group = "test images" if one.test else one.group.partition(" (")[0]
        lines.append([one.table, f"{', '.join(links)}: {group}", f"{made} of {len(rows)}"])
    return _table(head, lines)


def _dataset(name: str, tables: Tables, records: Records) -> str:
    """A data set's rows in one table, and what there is on test images in a second one."""
    found = tables.datasets[name]
    dataset = f"imagenet-{{{','.join(part[-1] for part in found.parts)}}}" if found.parts else found.dataset or name
    dataset += " --mixed" if found.mixed else ""
    lines, made = [], [row for row in tables.rows.values() if row.dataset == name and of_row(row, tables, records)]
    note = f"{found.note}\n\n" if found.note and not made else ""
    for title, several in tables.groups.items():
        rows = [row for row in several if row.dataset == name]
        if rows:
            lines.append([f"**{title}**", *[""] * (len(HEAD) - 1)])
            lines += [_line(row, tables, records) for row in rows]
    text = (
        f"## {found.title}\n\n{note}"
        f"A row is run again by `newfound discover --dataset {dataset} --data ROOT --out RUN --seed SEED` with its "
        f"options.\n\n{_table(HEAD, lines)}"
    )
    tests = [line for row in tables.rows.values() if row.dataset == name for line in _tests(row, tables, records)]
    if tests:
        head = ("", "protocol", *PARTS, "seeds")
        text += f"\nTest images: old, new and all categories.\n\n{_table(head, tests)}"
    return text


def _line(row: Row, tables: Tables, records: Records) -> list[str]:
    published = row.published + (f" ({row.source})" if row.published and row.source != "paper" else "")
    found = of_row(row, tables, records)
    values = accuracies(row, found)
    options = _options(tables.rows[row.of] if row.of else row)
    if not values:
        return [row.label, published, "missing", *[""] * 5, options]
    difference = f"{statistics.mean(values) - float(row.published.split()[0]):+.1f}" if row.published else ""
    time = f"in {tables.rows[row.of].label}" if row.of else _minutes(found)
    made = [_several(record["hardware"] for record in found), _several(record["commit"][:7] for record in found)]
    ours = _mean(values) + _old_and_new(found, row)
    return [row.label, published, ours, str(len(values)), difference, time, *made, options]


def _old_and_new(found: list[dict[str, Any]], row: Row) -> str:
    """What a mixed pile has of known and of novel categories, behind the accuracy on all of it."""
    parts = [record["unlabelled"] for record in found if "old" in (record["unlabelled"] or {}) and not row.figure]
    means = {name: _mean([100 * part[name] for part in parts]) for name in ("old", "new")} if parts else {}
    return f" (old {means['old']}, new {means['new']})" if means else ""


def _tests(row: Row, tables: Tables, records: Records) -> list[list[str]]:
    """The row's figures on test images: the published ones, then ours under each protocol."""
    found = [record for record in of_row(row, tables, records) if record["test"] and not row.of]
    main = row in tables.groups[next(iter(tables.groups))]
    if not main or not (row.test or found):
        return []
    lines = [["published", *(f"{value:.1f}" for value in row.test), ""]] if row.test else []
    if not found:
        lines.append(["ours", "missing", "", "", ""])
    for protocol in found[0]["test"] if found else ():
        each = {part: [record["test"][protocol][part] for record in found] for part in PARTS}
        means = ["" if None in each[part] else _mean([100 * value for value in each[part]]) for part in PARTS]
        lines.append([protocol, *means, str(len(found))])
    return [[row.label, *line] for line in lines]


def _counted(tables: Tables, records: Records) -> str:
    """How many novel categories are counted in the features of the runs whose rows say so."""
    head = ("", "true", "interval", *COUNTS.values(), "seed")
    lines = []
    for row in tables.rows.values():
        for record in of_row(row, tables, records):
            if found := record.get("counted"):
                interval = "{} to {}".format(*found["interval"])
                numbers = [str(found["methods"][way]) for way in COUNTS]
                name = f"{tables.datasets[row.dataset].title.partition(',')[0]}: {row.label}"
                lines.append([name, str(record["unlabelled"]["classes"]), interval, *numbers, str(record["seed"])])
    return _table(head, lines)


def _earlier(tables: Tables, records: Records) -> str:
    """Runs that are no row any more."""
    head = ("", "seed", "after stage I", "refined", "in the end", "test: old, new, all", "minutes", "on", "commit")
    lines = []
    for name, run in tables.earlier.items():
        record = records[name]
        stages = [(record["earlier"] or {}).get(stage) for stage in ("stage1", "refinement")] + [record["unlabelled"]]
        figures = [f"{100 * stage['accuracy']:.1f}" if stage else "" for stage in stages]
        test = ", ".join(f"{100 * record['test']['strict'][part]:.1f}" for part in PARTS)
        made = [_minutes([record]), record["hardware"], record["commit"][:7]]
        lines.append([f"{run['dataset']}: {run['label']}", str(record["seed"]), *figures, test, *made])
    return _table(head, lines)


def _options(row: Row) -> str:
    if row.unsaid:  # no data set of `discover` has this pile
        return f"`python benchmarks/tables/run.py --data ROOT --only {row.name}`"
    words = ["--method", row.method, *(["--recipe", row.recipe] if row.recipe else [])]
    words += ["--backbone", row.backbone] if row.backbone else []
    words += [f"--set {name}={json.dumps(value)}" for name, value in row.settings.items()]
    return f"`{' '.join(words)}`".replace('"', "")


def _minutes(found: list[dict[str, Any]]) -> str:
    shared = ", shared" if any(record.get("gpu_shared") for record in found) else ""
    return f"{statistics.mean(map(minutes_of, found)):.1f}{shared}"


def _mean(values: list[float]) -> str:
    deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{deviation}"


def _several(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def _table(head: Iterable[str], lines: list[list[str]]) -> str:
    rows = [list(head), ["---"] * len(list(head)), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows).replace("|  |", "| |").replace("|  |", "| |")


def recorded(tables: Tables, records: Records) -> dict[str, dict[str, dict[str, Any]]]:
    """By method and data set, of the rows in which a method runs with its own recipe and nothing else: mean accuracy
    in per cent, the number of seeds, and what was published."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in tables.rows.values():
        own = row.name == f"{row.dataset}-{row.method}" and not (row.of or row.recipe or row.backbone or row.settings)
        values = accuracies(row, of_row(row, tables, records)) if own else []
        if values:
            figures = {"accuracy": round(statistics.mean(values), 2), "seeds": len(values)}
            source = row.source if row.published else ""
            found.setdefault(row.method, {})[row.dataset] = figures | {"published": row.published, "source": source}
    return found


def made_recorded() -> str:
    """recorded.json of the records in this folder."""
    return json.dumps(recorded(read_tables(), read_records(HERE)), indent=1, ensure_ascii=False) + "\n"


def made_page() -> str:
    """The page of the records in this folder."""
    text = (HERE / "page.md").read_text()
    return _shown(page(read_tables(), read_records(HERE), read_records(HERE / "earlier"), text), made_pictures())


def made_pictures() -> dict[str, Drawing | None]:
    """The pictures of the records in this folder, by the names of their files; None where there is nothing to draw."""
    return charts(read_tables(), read_records(HERE), HERE)


def _shown(text: str, drawn: Mapping[str, Drawing | None]) -> str:
    """The page without the pictures of which there is nothing to draw."""
    for name, drawing in drawn.items():
        if not drawing:
            text = re.sub(rf"!\[[^\]]*\]\({re.escape(name)}\)", "Missing: too little has been run.", text)
    return text


if __name__ == "__main__":
    for name, drawing in made_pictures().items():
        place = HERE.parents[1] / "docs" / name
        if drawing and not (place.exists() and digest_of(place) == drawing.digest()):
            place.write_bytes(drawing.png())
    (HERE.parents[1] / "docs" / "results.md").write_text(made_page())
    (HERE.parents[1] / "newfound" / "methods" / "recorded.json").write_text(made_recorded())
