"""Pages with figures are made from records, not typed."""

import json
import re
import sys
from pathlib import Path
from statistics import fmean

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tables(monkeypatch):
    """The module that makes the page of results."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "tables"))
    for name in ("page", "charts"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import page

    return page


def test_the_page_of_the_digits_is_what_the_record_says(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "digits"))
    monkeypatch.delitem(sys.modules, "run", raising=False)
    import run

    record = json.loads((ROOT / "benchmarks" / "digits" / "record.json").read_text())
    text = (ROOT / "docs" / "digits.md").read_text()
    assert text == run.page(record), "call `python benchmarks/digits/run.py --page`"
    accuracies = [100 * found["accuracy"] for found in record["results"]["apl"]]
    assert f"| APL | {sum(accuracies) / len(accuracies):.1f} ± " in text


def test_the_page_of_the_pretrained_network_has_the_table_of_its_record(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "pretrained"))
    monkeypatch.delitem(sys.modules, "run", raising=False)
    import run

    record = json.loads((ROOT / "benchmarks" / "pretrained" / "record.json").read_text())
    assert run.table(record) in (ROOT / "docs" / "pretrained.md").read_text()
    assert [r["seed"] for r in record["runs"]] == [0, 1, 2]
    for name, mean in record["mean"].items():
        assert abs(mean - sum(r["accuracy"][name] for r in record["runs"]) / 3) < 1e-9


def test_the_page_of_the_pretrained_network_has_the_table_of_networks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "pretrained"))
    for name in ("run", "make"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import networks

    record = json.loads((ROOT / "benchmarks" / "pretrained" / "networks.json").read_text())
    assert networks.table(record) in (ROOT / "docs" / "pretrained.md").read_text()
    for found in record["results"].values():
        for network, runs in found["runs"].items():
            assert [run["seed"] for run in runs] == [10, 11, 12, 13]
            assert abs(found["mean"][network] - sum(run["accuracy"] for run in runs) / 4) < 1e-9


def test_the_page_of_the_pretrained_network_has_the_table_of_tuning(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "pretrained"))
    monkeypatch.delitem(sys.modules, "run", raising=False)
    import tuning

    for file, seeds in (("tuning.json", [10, 11, 12]), ("tuning-result.json", [0, 1, 2])):
        record = json.loads((ROOT / "benchmarks" / "pretrained" / file).read_text())
        assert tuning.table(record) in (ROOT / "docs" / "pretrained.md").read_text()
        for way in record["ways"]:
            assert [run["seed"] for run in way["runs"]] == seeds
            for name, mean in way["mean"].items():
                assert abs(mean - sum(run[name] for run in way["runs"]) / len(seeds)) < 1e-9


def test_the_page_of_speed_is_what_the_record_says(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "speed"))
    monkeypatch.delitem(sys.modules, "page", raising=False)
    import page

    assert (ROOT / "docs" / "speed.md").read_text() == page.made_page(), "call benchmarks/speed/page.py"
    record = json.loads((ROOT / "benchmarks" / "speed" / "h200.json").read_text())
    rate = record["images_per_s"]
    assert rate["full"] == round(1e3 * record["batch"] / record["ms"]["full"])


def test_the_page_of_results_is_what_the_records_say(tables):
    assert (ROOT / "docs" / "results.md").read_text() == tables.made_page(), "call `make results`"


def test_the_pictures_of_results_are_what_the_records_say(tables):
    from newfound.report.drawing import digest_of

    for name, drawing in tables.made_pictures().items():
        assert (f"]({name})" in (ROOT / "docs" / "results.md").read_text()) == bool(drawing), name
        assert not drawing or digest_of(ROOT / "docs" / name) == drawing.digest(), "call `make results`"


def test_the_discussion_of_the_results_fits_the_records(tables):
    """Where this fails, records have come that change what is said: rewrite benchmarks/tables/page.md, then this."""
    rows, records = tables.read_tables(), tables.read_records(tables.HERE)

    def said(words):
        return float(tables.said(words, rows, records))

    near = ["cifar10-apl", "omniglot-apl", *(f"cifar10-{name}" for name in ("autonovel", "uno", "iic", "kmeans"))]
    assert all(abs(said(f"{name} - {name} published")) <= 1 for name in near)
    assert all(said(f"{data}-apl over {data}-kmeans") > 3 for data in ("cifar10", "cifar100", "omniglot"))
    assert said("cifar10-apl over cifar10-autonovel") > 3
    assert said("omniglot-stage1 over omniglot-online") > 3
    assert all(abs(said(f"{data}-apl - {data}-stage1")) < 0.5 for data in ("cifar10", "cifar100", "omniglot"))
    assert all(said(f"{data}-stage1 over {data}-stage1 published") > 1 for data in ("cifar10", "omniglot"))
    assert said("cifar100-stage1 over cifar100-stage1 published") < 0
    assert abs(said("cifar10-stage1 - cifar10-online")) < 0.5
    assert said("cifar10-iic over cifar10-apl") == 3.0
    assert all(said(f"cifar100-{name} over cifar100-apl") > 3 for name in ("uno", "iic"))
    assert all(abs(said(f"cifar100-{name} - cifar100-{name}-500 published")) <= 1 for name in ("uno", "iic"))
    assert all(said(f"cifar10-apl-{name} over cifar10-{name}") > 3 for name in ("simclr", "moco"))
    assert said("cifar10-apl over cifar10-apl-moco") > 3 > said("cifar10-apl over cifar10-apl-simclr") > 0
    learners = ("simclr", "moco", "mocov2")
    assert all(said(f"cifar10-{name} over cifar10-{name} published") > 3 for name in learners)
    assert 0 < said("cifar10-apl-short over cifar10-apl-no-instdis") < 3
    assert said("cifar10-apl-no-instdis over cifar10-apl-no-catdis") > 3
    assert said("cifar10-apl-no-instdis seeds") == said("cifar10-apl-short seeds") == 2
    assert said("cifar100-apl over cifar100-apl published") < -3
    one = ["cifar100-apl", "cifar100-uno", "cifar100-kmeans", "omniglot-apl", "omniglot-kmeans", "cifar10-iic"]
    one += ["cifar10-autonovel", "cifar100-iic", *(f"cifar10-{name}" for name in learners)]
    one += [f"cifar10-apl-{name}" for name in ("simclr", "moco", "no-catdis")]
    assert [said(f"{name} seeds") for name in one] == [1] * len(one)
    own = [row for row in rows.rows.values() if not row.of and tables.of_row(row, rows, records)]
    others = ("apl", "kmeans", "autonovel", "uno", "iic", "apl-features", "simgcd")
    assert {row.method for row in own} == {*others, *learners}
    assert said("cifar10-apl-features - cifar10-apl published") > -1
    assert {row.name for row in own if row.settings} == {
        f"cifar10-apl-{name}" for name in ("simclr", "moco", "short", "no-instdis", "no-catdis")
    }
    assert not [row.name for row in own if row.dataset == "imagenet"]


def test_every_table_of_the_paper_has_its_counterpart(tables):
    found = tables.read_tables()
    paper = {int(one.table.split(".")[0]): one for one in found.paper}
    assert sorted(paper) == [2, 3, 4, 5, 6, 7, 9, 10, 11], "1 is docs/data.md, 8 the recipes"
    figures = {2: 18, 4: 13, 5: 12, 6: 16, 7: 10, 9: 6, 10: 4, 11: 10}
    for number, one in paper.items():
        rows = [row for row in found.groups[one.group] if row.dataset in one.data and row.published]
        if one.test:
            assert sum(len(row.test) for row in rows) == 3 * 10
        else:
            assert sum(row.source == "paper" for row in rows) == figures[number], one.table


def test_the_figures_of_newfound_methods_are_what_the_records_say(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "tables"))
    monkeypatch.delitem(sys.modules, "page", raising=False)
    import page

    written = (ROOT / "newfound" / "methods" / "recorded.json").read_text()
    assert written == page.made_recorded(), "call `make results`"
    paths = sorted((ROOT / "benchmarks" / "tables").glob("cifar10-apl-?.json"))
    runs = [json.loads(path.read_text())["unlabelled"]["accuracy"] for path in paths]
    row = json.loads(written)["apl"]["cifar10"]
    assert (row["seeds"], row["published"]) == (len(runs), "96.0 ± 0.4")
    assert abs(row["accuracy"] - 100 * sum(runs) / len(runs)) < 0.0051


def test_the_readme_has_the_figures_of_the_records(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import readme

    text = (ROOT / "README.md").read_text()
    assert text == readme.filled(text), "call `make results`"
    head = re.search(r"\| \| APL, published \|.*", text)[0].split(" | ")
    row = re.search(r"\| OmniGlot, .*", text)[0].split(" | ")
    runs = [json.loads(path.read_text()) for path in (ROOT / "benchmarks" / "tables").glob("omniglot-apl-?.json")]
    accuracy = 100 * sum(run["unlabelled"]["accuracy"] for run in runs) / len(runs)
    assert row[head.index("`apl`")].startswith(f"{accuracy:.1f} (")
    assert row[head.index("APL, published")] == "93.4"
    record = json.loads((ROOT / "benchmarks" / "speed" / "h200.json").read_text())
    assert f"{record['images_per_s']['full']:,} images/s" in text


def test_records_name_no_place_on_the_machine_that_made_them():
    for path in (ROOT / "benchmarks").rglob("*.json"):
        text = path.read_text()
        assert not [word for word in ('"/root', '"/home', '"/tmp', '"/work') if word in text], path


def test_the_page_of_the_folders_is_what_the_record_says(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "folders"))
    monkeypatch.delitem(sys.modules, "run", raising=False)
    import run

    record = json.loads((ROOT / "benchmarks" / "folders" / "record.json").read_text())
    assert (ROOT / "docs" / "folders.md").read_text() == run.page(record)
    for found in record["results"].values():
        assert [one["seed"] for one in found["runs"]] == [0, 1, 2, 3]
        for one in found["runs"]:
            assert list(one["accuracy"]) == record["ways"]
            assert all(0 < value <= 1 for value in one["accuracy"].values())
    assert "/tmp" not in json.dumps(record), "a record names no place on a machine"


def test_the_page_of_trust_is_what_the_records_say(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "trust"))
    for name in ("page", "pools", "look", "reject", "gauges", "confidence", "within", "learned"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import page

    records = page.read()
    for name, text in page.pages(records).items():
        assert (ROOT / "docs" / name).read_text() == text
    assert not any(record["commit"].endswith("+") for record in records.values())
    for found in records["reject"]["results"].values():
        assert [run["seed"] for run in found["runs"]] == list(range(len(found["runs"])))


def test_strangers_among_the_digits_are_counted_as_the_record_says(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "reject"))
    monkeypatch.delitem(sys.modules, "run", raising=False)
    import run

    record = json.loads((ROOT / "benchmarks" / "reject" / "record.json").read_text())
    assert run.table(record) in (ROOT / "docs" / "export.md").read_text()
    assert not any(row["commit"].endswith("+") for row in record["rows"].values())


def test_the_page_about_the_report_has_the_table_of_its_record(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "page"))
    monkeypatch.delitem(sys.modules, "run", raising=False)
    import run

    record = json.loads((ROOT / "benchmarks" / "page" / "record.json").read_text())
    assert run.table(record) in (ROOT / "docs" / "report.md").read_text()
    assert [row["images"] for row in record["rows"]] == [1000, 10_000, 50_000]
    assert not record["commit"].endswith("+")


def test_the_notebook_has_the_rehearsals_figures():
    """Of the tables that were typed: every accuracy stands in a record that the table names."""
    folder = ROOT / "benchmarks" / "rehearsal"

    def accuracies(names):
        runs = [r for name in names.split() for r in json.loads((folder / f"{name}.json").read_text())["runs"].values()]
        stages = [run["accuracy"] for run in runs] + [b["accuracy"] for run in runs for b in run["branches"].values()]
        return {f"{100 * value:.1f}" for found in stages for value in found.values()}

    text = (ROOT / "docs" / "log" / "rehearsals.md").read_text()
    for begin, names, counts in (
        ("| as it is |", ["cifar100-weights"], [11]),
        ("| after stage I |", ["cifar100-refinement", "mixed-refinement"], [7, 5]),
        ("| found by stage I |", ["fashion-refinement"], [12]),
        ("| 60 epochs of stage I |", ["fashion-long"], [16]),
        ("| labels of stage I |", ["mixed-refinement mixed-long mixed-labels mixed-short mixed-full"], [14]),
        ("| epochs of stage I |", ["mixed-full", "mixed-short"], [4, 5]),
        ("| after 100 epochs of stage I |", ["mixed-teacher"], [20]),
        ("| with a teacher or without |", ["fashion-teacher", "fashion-teacher", "cifar100-teacher"], [3, 3, 4]),
        ("| with stage I alone |", ["cifar100-decay", "mixed-decay"], [5, 5]),
        ("| after 60 epochs |", ["mixed-long"], [3]),
        ("| stage I |", ["cifar100-stage2", "cifar10-stage2"], [10, 7]),
    ):
        rows = text[text.index(begin) :].split("\n\n")[0].splitlines()
        columns = [[] for _ in names]
        for row in rows:
            for i, cell in enumerate(row.split("|")[2:-1]):
                columns[i % len(names)] += re.findall(r"\d\d\.\d", cell)
        assert [len(found) for found in columns] == counts, begin
        for name, found in zip(names, columns, strict=True):
            assert set(found) <= accuracies(name), name


def test_the_page_on_the_number_of_categories_has_the_table_of_its_record(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "count"))
    monkeypatch.delitem(sys.modules, "run", raising=False)
    import run

    for name in ("record", "mixed"):
        record = json.loads((ROOT / "benchmarks" / "count" / f"{name}.json").read_text())
        assert run.table(record) in (ROOT / "docs" / "count.md").read_text()
        assert record["summary"] == run.summary(record["rows"])
        assert not record["commit"].endswith("+")
    ways = ("owned", "dtc", "gcd", "shift")
    off = [
        {"methods": dict.fromkeys(ways, n), "true": t, "interval": [1, 2]} for n, t in ((11, 10), (22, 20), (23, 20))
    ]
    assert run.summary(off)["ways"]["owned"]["within_10"] == 2, "a tenth is within a tenth"


def test_the_page_of_mixed_piles_has_the_runs_with_a_network_of_their_own(tables):
    text, records = (ROOT / "docs" / "mixed.md").read_text(), tables.read_records(tables.HERE, tables.HERE / "earlier")
    for data, title in (("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100")):
        for way, row in (("--mixed", "uno-coarse"), ("without", "uno-unsaid")):
            found = records[f"{data}-mixed-{row}-0"]["unlabelled"]
            figures = " | ".join(f"{found[part]:.1%}" for part in ("old", "new", "accuracy"))
            assert f"| {title}, uno | {way} | {figures} |\n" in text
    assert f"{records['cifar10-mixed-uno-coarse-0']['test']['task-aware']['new']:.1%}".replace("%", " %") in text


def test_the_page_of_mixed_piles_has_the_table_of_its_record(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "mixed"))
    monkeypatch.delitem(sys.modules, "run", raising=False)
    import run

    record = json.loads((ROOT / "benchmarks" / "mixed" / "record.json").read_text())
    others = [json.loads((ROOT / "benchmarks" / "mixed" / f"{name}.json").read_text()) for name in ("simgcd", "cifar")]
    kmeans = json.loads((ROOT / "benchmarks" / "mixed" / "kmeans.json").read_text())
    for each in (record, kmeans, *others):
        assert run.table(each) in (ROOT / "docs" / "mixed.md").read_text()
        assert not each["commit"].endswith("+")
    beside = (ROOT / "docs" / "methods" / "kmeans.md").read_text()
    piles = {"known among novel": "200 known and 500 novel images", "known alone": "200 known images"}
    for pile, ways in kmeans["runs"].items():
        for way in ways:
            shares = [fmean(one["all"] for one in each["runs"][pile][way]) for each in (kmeans, record)]
            assert f"| {piles.get(pile, '500 novel images')} | {way} | {shares[0]:.1%} | {shares[1]:.1%} |" in beside
    first = record["runs"]["known among novel"]
    assert [(one["draw"], one["seed"]) for one in first["--mixed"]] == [(d, s) for d in range(3) for s in range(2)]
