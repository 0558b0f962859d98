"""The queue of the tables: what it runs, when it stops, what it leaves."""

import importlib
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from newfound import UserError, count_novel, discover
from newfound.data.digits import read_digits
from newfound.methods import method_names
from newfound.plan.recipe import resolve_settings
from newfound.report.matrix import meanings

TABLES = Path(__file__).parents[2] / "benchmarks" / "tables"
MODULES = ("rows", "run", "charts", "page", "one", "record", "unsaid")
QUICK = {"network": "tiny", "stage1.epochs": 1}

STANDS_FOR_A_RUN = """
import json, pathlib, sys, time
name, out = sys.argv[sys.argv.index("--run") + 1], pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
here = pathlib.Path(__file__).parent
with (here / "order").open("a") as file:
    file.write(name + "\\n")
if "failing" in name:
    raise SystemExit("the row cannot be run")
run = pathlib.Path(sys.argv[sys.argv.index("--folder") + 1])
if "endless" in name and not run.exists():
    run.mkdir()
    time.sleep(600)
if "next" in name:
    time.sleep(2)
if "paged" in name:
    run.mkdir()
    (run / "result.json").write_text("{}")
    until = time.monotonic() + 3
    while time.monotonic() < until and not (here / "order").read_text().endswith("next-0\\n"):
        time.sleep(0.05)
part = {"accuracy": 0.5}
fields = dict.fromkeys(("commit", "date", "versions", "settings", "seed"), "")
seconds = {"stage1": 1.0, "since_start": 2.0}
part["begun"] = (here / "order").read_text().split()
figures = {"unlabelled": part, "earlier": {"stage1": part}, "test": None, "seconds": seconds}
out.write_text(json.dumps({"hardware": "a machine", **fields, **figures}))
if "crashes" in name:
    raise SystemExit("its maps cannot be drawn")
if "counts" in name:
    time.sleep(600)
"""


@pytest.fixture
def tables(monkeypatch, tmp_path):
    """The modules of the benchmark, by name."""
    for folder in (TABLES.parent, TABLES):
        monkeypatch.syspath_prepend(str(folder))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = {name: importlib.import_module(name) for name in MODULES}
    yield found
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def queue(tables, monkeypatch, tmp_path):
    """Run a queue of such rows, {row: {settings, …}}, with a script in the place of real runs; give the rows begun."""
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake" / "one.py").write_text(STANDS_FOR_A_RUN)
    run = tables["run"]
    monkeypatch.setattr(run, "ONE", tmp_path / "fake" / "one.py")
    monkeypatch.setattr(run, "commit_of_newfound", lambda: "abc123")
    monkeypatch.setattr(run, "_hardware", lambda device: "a machine")

    def queue(rows, *words, status=0):
        write_rows(tmp_path / "rows.yaml", rows)
        (tmp_path / "fake" / "order").write_text("")
        monkeypatch.setattr(sys, "argv", ["run.py", "--rows", str(tmp_path / "rows.yaml"), *words])
        assert run.main() == status
        return (tmp_path / "fake" / "order").read_text().split()

    return queue


def write_rows(path, rows):
    groups = [{"row": name, "label": name, "method": "kmeans", **row} for name, row in rows.items()]
    for row in groups:
        row["data"] = {row.pop("dataset", "digits"): {"minutes": row.pop("minutes", 0.01)}}
    queue = [{f"{next(iter(row['data']))}-{row['row']}": row.pop("seeds", [0])} for row in groups]
    datasets = {"digits": {"title": "Digits"}, "cifar10": {"title": "CIFAR-10", "folders": ["cifar-10-batches-py"]}}
    path.write_text(yaml.safe_dump({"datasets": datasets, "groups": {"All": groups}, "queue": queue}, sort_keys=False))


def records(folder):
    return sorted(path.stem for path in folder.glob("*.json"))


def test_rows_are_run_in_order_and_leave_a_record_each(queue, tmp_path, capsys):
    assert queue({"b": {"seeds": [1, 0]}, "a": {}}) == ["digits-b-1", "digits-b-0", "digits-a-0"]
    assert records(tmp_path) == ["digits-a-0", "digits-b-0", "digits-b-1"]
    assert json.loads((tmp_path / "digits-a-0.json").read_text())["seconds"]["process"] > 0
    assert capsys.readouterr().out.splitlines()[0].startswith("digits-b-1: unlabelled 50.0%, stage1 50.0%; 0.")


def test_what_has_a_record_is_not_run_again(queue, tmp_path):
    rows = {"a": {}, "b": {}}
    assert queue(rows, "--only", "digits-b") == ["digits-b-0"]
    assert queue(rows, "--records", str(tmp_path / "new")) == ["digits-a-0"]
    assert records(tmp_path / "new") == ["digits-a-0"]
    assert queue(rows, "--records", str(tmp_path / "new")) == []


def test_rows_without_data_or_method_are_left_out(queue, tmp_path, capsys):
    rows = {"a": {"dataset": "cifar10"}, "b": {"method": "oracle"}, "c": {"settings": {"stage1.speed": 3}}, "d": {}}
    assert queue(rows, "--data", str(tmp_path)) == ["digits-d-0"]
    assert queue(rows, "--data", str(tmp_path), "--list") == []
    states = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines()[1:])
    assert states["cifar10-a-0"] == "no data: cifar-10-batches-py is not at ROOT"
    assert states["digits-b-0"].startswith("missing: there is no method oracle")
    assert "stage1.speed" in states["digits-c-0"]
    assert states["digits-d-0"] == "done"


def test_data_that_is_there_is_used(queue, tmp_path):
    (tmp_path / "cifar-10-batches-py").mkdir()
    assert queue({"a": {"dataset": "cifar10"}}, "--data", str(tmp_path)) == ["cifar10-a-0"]


def test_a_row_that_would_not_end_in_time_waits_and_a_shorter_one_runs(queue, capsys):
    assert queue({"long": {"minutes": 8.7}, "short": {"minutes": 8.0}}, "--minutes", "9") == ["digits-short-0"]
    assert "digits-long-0: left for the next time: takes about 9.1 min" in capsys.readouterr().out


def test_a_record_of_the_row_says_better_how_long_it_takes(queue, tmp_path):
    rows = {"a": {"minutes": 30, "seeds": [0, 1]}}
    assert queue(rows, "--minutes", "9") == []
    assert queue(rows, "--only", "digits-a-0") == ["digits-a-0"]
    assert queue(rows, "--minutes", "9") == ["digits-a-1"]
    slow = json.loads((tmp_path / "digits-a-0.json").read_text())
    slow["seconds"]["process"] = 1000.0
    (tmp_path / "digits-a-0.json").write_text(json.dumps(slow))
    (tmp_path / "digits-a-1.json").unlink()
    assert queue(rows, "--minutes", "9") == []


def test_a_row_takes_as_long_as_its_longest_record_on_this_hardware_alone(tables, tmp_path):
    rows = tables["rows"]
    write_rows(tmp_path / "rows.yaml", {"a": {"minutes": 1, "seeds": [0, 1, 2]}})
    found = rows.read_tables(tmp_path / "rows.yaml")

    def minutes(**records):
        records = {f"digits-a-{i}": record for i, record in enumerate(records.values())}
        return round(rows.estimate(found.rows["digits-a"], found, records, "a machine") / rows.MARGIN, 6)

    alone = {"hardware": "a machine", "seconds": {"process": 300.0}}
    assert minutes() == 1
    assert minutes(elsewhere=alone | {"hardware": "another"}) == 1
    assert minutes(shared={**alone, "gpu_shared": True}) == 1
    assert minutes(alone=alone, longer={**alone, "seconds": {"process": 480.0}}) == 8
    drawn = {**alone, "seconds": {"process": 480.0, "maps": 30.0}}
    assert minutes(drawn=drawn) == 8
    assert rows.minutes_of(drawn) == 7.5


def test_a_row_that_takes_too_long_is_cut_off_and_the_rest_is_kept(queue, tables, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables["run"], "ENDING", 2.0)
    queue({"a": {}, "endless": {}, "b": {}}, "--minutes", "0.1", status=1)
    assert "digits-a-0" in records(tmp_path)
    assert "digits-endless-0" not in records(tmp_path)
    assert "digits-endless-0: cut off after 0." in capsys.readouterr().out


def test_a_row_that_is_cut_off_goes_on_in_the_next_call_where_runs_are_kept(
    queue, tables, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(tables["run"], "ENDING", 2.0)
    rows, keep = {"a": {}, "endless": {"minutes": 60}, "b": {}}, ["--keep", str(tmp_path / "kept")]
    assert queue(rows, *keep, "--minutes", "0.1") == ["digits-a-0", "digits-endless-0"]
    assert "the next call goes on with it" in capsys.readouterr().out
    assert records(tmp_path) == ["digits-a-0"]
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["digits-endless-0"]
    earlier = float((tmp_path / "kept" / "digits-endless-0" / "seconds").read_text())
    assert queue({"first": {}, **rows}, *keep) == ["digits-endless-0", "digits-first-0", "digits-b-0"]
    seconds = json.loads((tmp_path / "digits-endless-0.json").read_text())["seconds"]["process"]
    assert earlier < seconds < earlier + 60
    assert not any((tmp_path / "kept").iterdir())


@pytest.mark.parametrize(("hardware", "beside"), [("NVIDIA H200", True), ("cpu, 2 threads", False)])
def test_the_next_run_begins_on_a_gpu_while_the_page_of_the_last_is_drawn(
    queue, tables, tmp_path, monkeypatch, hardware, beside
):
    monkeypatch.setattr(tables["run"], "_hardware", lambda device: hardware)
    assert queue({"paged": {}, "next": {}}) == ["digits-paged-0", "digits-next-0"]
    assert records(tmp_path) == ["digits-next-0", "digits-paged-0"]
    paged, following = (json.loads((tmp_path / f"digits-{name}-0.json").read_text()) for name in ("paged", "next"))
    assert paged["unlabelled"]["begun"] == ["digits-paged-0", *(["digits-next-0"] if beside else [])]
    if beside:
        assert paged["seconds"]["process"] < following["seconds"]["process"], "its time ends with its own page"


def test_no_run_begins_while_features_of_the_last_are_read_once_more(queue, tables, tmp_path, monkeypatch):
    monkeypatch.setattr(tables["run"], "_hardware", lambda device: "NVIDIA H200")
    assert queue({"paged": {"count": True}, "next": {}}) == ["digits-paged-0", "digits-next-0"]
    begun = json.loads((tmp_path / "digits-paged-0.json").read_text())["unlabelled"]["begun"]
    assert begun == ["digits-paged-0"]


def test_a_run_whose_count_fails_is_recorded_and_told(queue, tmp_path, capsys):
    assert queue({"crashes": {"count": True}}, status=1) == ["digits-crashes-0"]
    assert records(tmp_path) == ["digits-crashes-0"]
    told = capsys.readouterr().out
    assert "recorded, but what follows the run FAILED with status 1: its maps cannot be drawn" in told


def test_a_run_whose_count_does_not_end_in_time_is_recorded(queue, tables, tmp_path, monkeypatch):
    monkeypatch.setattr(tables["run"], "ENDING", 2.0)
    queue({"counts": {"count": True}}, "--minutes", "0.1", status=1)
    assert records(tmp_path) == ["digits-counts-0"]


def test_an_interrupted_queue_notes_how_long_a_kept_run_took(queue, tables, tmp_path, monkeypatch):
    def interrupt(self, under_way):
        if under_way and time.monotonic() - under_way[0].began > 1:
            raise KeyboardInterrupt
        return 0

    monkeypatch.setattr(tables["run"].Queue, "finish_ended", interrupt)
    with pytest.raises(KeyboardInterrupt):
        queue({"endless": {"minutes": 60}}, "--keep", str(tmp_path / "kept"))
    assert 1 < float((tmp_path / "kept" / "digits-endless-0" / "seconds").read_text()) < 30


def test_a_page_that_is_not_drawn_in_time_is_cut_off(queue, tables, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables["run"], "ENDING", 1.0)
    keep = ["--keep", str(tmp_path / "kept"), "--minutes", "0.03"]
    assert queue({"paged": {}}, *keep, status=0) == ["digits-paged-0"]
    assert "digits-paged-0: cut off" in capsys.readouterr().out
    assert records(tmp_path) == []


def test_a_row_that_fails_does_not_stop_the_rest(queue, tmp_path, capsys):
    rows = {"failing": {}, "a": {}}
    assert queue(rows, status=1) == ["digits-failing-0", "digits-a-0"]
    assert records(tmp_path) == ["digits-a-0"]
    assert "digits-failing-0: FAILED with status 1 after 0.0 min: the row cannot be run" in capsys.readouterr().out


def test_a_record_is_what_discover_finds(tables, tmp_path, monkeypatch):
    write_rows(tmp_path / "rows.yaml", {"kmeans": {"settings": QUICK, "seeds": [3]}})
    monkeypatch.setattr(tables["run"], "commit_of_newfound", lambda: "abc123")
    monkeypatch.setattr(sys, "argv", ["run.py", "--rows", str(tmp_path / "rows.yaml"), "--device", "cpu"])
    assert tables["run"].main() == 0
    record = json.loads((tmp_path / "digits-kmeans-3.json").read_text())
    threads = int(record["hardware"].split()[1])
    settings, out = {"settings": QUICK, "seed": 3, "threads": threads}, tmp_path / "run"
    found = discover(dataset="digits", method="kmeans", device="cpu", out=out, **settings).result
    for name in ("images", "figures", "unlabelled", "test", "neighbours"):
        assert record[name] == found.get(name)
    assert (record["row"], record["data"], record["seed"]) == ("digits-kmeans", "digits", 3)
    assert record["settings"] == yaml.safe_load((out / "settings.yaml").read_text())["settings"]
    assert record["last"]["stage1"] == json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])
    job = next(job for job in tables["rows"].read_tables(tmp_path / "rows.yaml").jobs if job.name == "digits-kmeans-3")
    again = tables["one"].run(tables["rows"].read_tables(tmp_path / "rows.yaml"), job, None, "cpu", out)
    assert again["unlabelled"] == record["unlabelled"], "a run that is there is gone on with"
    assert len(record["commit"].rstrip("+")) == 40
    assert str(tmp_path) not in json.dumps(record)


def test_a_row_with_count_has_the_number_counted_in_its_features_and_no_longer_minutes(tables, tmp_path, monkeypatch):
    write_rows(tmp_path / "rows.yaml", {"kmeans": {"settings": QUICK, "count": True}})
    monkeypatch.setattr(tables["run"], "commit_of_newfound", lambda: "abc123")
    monkeypatch.setattr(sys, "argv", ["run.py", "--rows", str(tmp_path / "rows.yaml"), "--device", "cpu"])
    assert tables["run"].main() == 0
    record = json.loads((tmp_path / "digits-kmeans-0.json").read_text())
    out = tmp_path / "run"
    discover(dataset="digits", method="kmeans", device="cpu", out=out, settings=QUICK)
    assert record["counted"] == json.loads(json.dumps(count_novel(run=out, device="cpu").to_mapping()))
    seconds = record["seconds"]
    assert tables["rows"].minutes_of(record) == pytest.approx((seconds["process"] - seconds["count"]) / 60)
    read = tables["rows"]
    lines = tables["page"]._counted(read.read_tables(tmp_path / "rows.yaml"), read.read_records(tmp_path)).splitlines()
    found = record["counted"]
    ours, dtc, gcd, shift = (found["methods"][way] for way in ("owned", "dtc", "gcd", "shift"))
    interval = "{} to {}".format(*found["interval"])
    assert lines[2:] == [f"| Digits: kmeans | 5 | {interval} | {ours} | {dtc} | {gcd} | {shift} | 0 |"]


def test_a_row_is_recorded_even_if_its_categories_cannot_be_counted(tables, tmp_path, monkeypatch):
    def refuse(**arguments):
        raise UserError("too few")

    write_rows(tmp_path / "rows.yaml", {"kmeans": {"settings": QUICK, "count": True}})
    words = ["--rows", tmp_path / "rows.yaml", "--run", "digits-kmeans-0", "--device", "cpu"]
    words += ["--folder", tmp_path / "run", "--out", tmp_path / "record.json"]
    monkeypatch.setattr(sys, "argv", ["one.py", *map(str, words)])
    monkeypatch.setattr(tables["one"], "count_novel", refuse)
    with pytest.raises(SystemExit, match="too few"):
        tables["one"].main()
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["unlabelled"]["accuracy"] > 0
    assert "counted" not in record


def test_rows_with_a_count_are_of_one_task_whose_pile_has_novel_categories_alone(tables):
    found = tables["rows"].read_tables()
    counted = {row.dataset for row in found.rows.values() if row.count}
    assert counted == {"cifar10", "cifar100"}


def test_a_row_with_snapshots_keeps_what_its_pictures_need(tables, tmp_path, monkeypatch):
    settings = QUICK | {"stage1.epochs": 2, "stage1.warmup_epochs": 1, "dino.out": 64, "views.extra": 2}
    write_rows(tmp_path / "rows.yaml", {"apl": {"method": "apl", "settings": settings, "snapshots": [1, 2]}})
    monkeypatch.setattr(tables["run"], "commit_of_newfound", lambda: "abc123")
    monkeypatch.setattr(sys, "argv", ["run.py", "--rows", str(tmp_path / "rows.yaml"), "--device", "cpu"])
    assert tables["run"].main() == 0
    record = json.loads((tmp_path / "digits-apl-0.json").read_text())
    assert list(record["confusion"]) == ["after stage1", "in the end"]
    assert record["seconds"]["maps"] > 0
    for pairs, figures in zip(
        record["confusion"].values(), (record["earlier"]["stage1"], record["unlabelled"]), strict=True
    ):
        right = sum(n for found, true, n in pairs if meanings(pairs).get(found) == true)
        assert sum(n for *_, n in pairs) == 679
        assert right / 679 == pytest.approx(figures["accuracy"])
    beside = tmp_path / "digits-apl-0.csv"
    lines = beside.read_text().splitlines()
    assert len(lines) == 1 + 2 * 679
    assert {line.split(",")[0] for line in lines[1:]} == {"epoch 1", "epoch 2"}
    assert {line.split(",")[3] for line in lines[1:]} == set("13579")
    assert beside.stat().st_size / len(lines) * 6000 < 200_000, "of 2,000 images and three epochs"

    renamed = tmp_path / "renamed"
    renamed.mkdir()
    (renamed / "cifar10-apl-2.csv").write_text(beside.read_text())
    real, charts = tables["rows"].read_tables(), tables["charts"]
    words = [shape[2] for shape in charts.draw_features(real, renamed).drawn if shape[0] == "text"]
    assert words[0].startswith("APL on CIFAR-10, seed 2: t-SNE of the features of 679")
    assert {"epoch 1", "epoch 2", *"13579"} <= set(words)
    drawn = charts.draw_confusion(real, {"cifar10-apl-2": record})
    assert f"in the end: {record['unlabelled']['accuracy']:.1%} right".replace("%", " %") in str(drawn.drawn)
    assert charts.draw_features(real, tmp_path) is charts.draw_confusion(real, {"cifar10-apl-0": {}}) is None


def test_an_unsaid_row_takes_the_mixed_pile_for_a_novel_one_and_has_old_and_new(tables, tmp_path, monkeypatch):
    row = {"row": "unsaid", "label": "K", "method": "kmeans", "settings": QUICK, "unsaid": True}
    datasets = {"digits-mixed": {"title": "Digits, mixed", "dataset": "digits", "mixed": True}}
    content = {"datasets": datasets, "groups": {"All": [row | {"data": {"digits-mixed": {}}}]}}
    content["queue"] = [{"digits-mixed-unsaid": [0]}]
    (tmp_path / "rows.yaml").write_text(yaml.safe_dump(content))
    monkeypatch.setattr(tables["run"], "commit_of_newfound", lambda: "abc123")
    monkeypatch.setattr(sys, "argv", ["run.py", "--rows", str(tmp_path / "rows.yaml"), "--device", "cpu"])
    assert tables["run"].main() == 0
    record = json.loads((tmp_path / "digits-mixed-unsaid-0.json").read_text())
    found, said = record["unlabelled"], read_digits(0, mixed=True)
    assert found["images"] == said.collection.n_unlabelled
    old = sum(name in said.collection.classes for name in said.answers.unlabelled)
    right = found["old"] * old + found["new"] * (found["images"] - old)
    assert right == pytest.approx(found["accuracy"] * found["images"])
    read = tables["rows"].read_tables(tmp_path / "rows.yaml")
    assert (
        tables["page"]._line(read.rows["digits-mixed-unsaid"], read, {})[-1]
        == "`python benchmarks/tables/run.py --data ROOT --only digits-mixed-unsaid`"
    )


def test_a_row_of_a_mixed_pile_has_old_and_new_and_is_refused_to_methods_that_take_none(tables, tmp_path):
    rows, one, page = tables["rows"], tables["one"], tables["page"]
    taking = {"row": "kmeans", "label": "K", "method": "kmeans", "settings": QUICK, "data": {"digits-mixed": {}}}
    other = {"row": "dtc", "label": "D", "method": "dtc", "data": {"digits-mixed": {}}}
    datasets = {"digits-mixed": {"title": "Digits, mixed", "dataset": "digits", "mixed": True}}
    queue = [{"digits-mixed-kmeans": [0], "digits-mixed-dtc": [0]}]
    content = {"datasets": datasets, "groups": {"All": [taking, other]}, "queue": queue}
    (tmp_path / "rows.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    found = rows.read_tables(tmp_path / "rows.yaml")
    first, second = found.jobs
    assert one.why_not(found, first) is None
    assert "dtc finds novel categories alone" in one.why_not(found, second)
    record = one.run(found, first, None, "cpu", tmp_path / "run")
    assert record["data"] == "digits"
    part = record["unlabelled"]
    marks = "<!-- count -->\n<!-- paper -->\n<!-- tables -->\n<!-- counted -->\n<!-- earlier -->"
    text = page.page(found, {first.name: record}, {}, marks)
    assert "newfound discover --dataset digits --mixed --data ROOT" in text
    ours = f"{100 * part['accuracy']:.1f} (old {100 * part['old']:.1f}, new {100 * part['new']:.1f})"
    assert f"| K | | {ours} | 1 |" in text


def test_every_row_is_in_the_queue_or_a_figure_of_one_that_is(tables):
    found = tables["rows"].read_tables()
    queued = [job.name for job in found.jobs]
    assert len(queued) == len(set(queued))
    run = {job.row.name for job in found.jobs}
    assert {row.name for row in found.rows.values() if not row.of} == run
    assert {row.of for row in found.rows.values() if row.of} <= run
    assert len(found.rows) == sum(map(len, found.groups.values())), "two rows of one name"
    assert all(job.row.minutes > 0 for job in found.jobs)


def test_tables_with_a_cut_stage_i_have_30_per_cent_of_its_epochs_in_every_row(tables):
    found = tables["rows"].read_tables()
    cut = {title: rows for title, rows in found.groups.items() if "cut to 30 %" in title}
    assert len(cut) == 6
    for rows in cut.values():
        for row in (found.rows[row.of] if row.of else row for row in rows):
            if row.method != "kmeans":
                whole = resolve_settings("apl", f"apl-{row.dataset}", {}).stage1
                plan = resolve_settings("apl", f"apl-{row.dataset}", row.settings).stage1
                assert plan.epochs == round(0.3 * whole.epochs), row.name
                assert plan == replace(whole, epochs=plan.epochs, warmup_epochs=plan.epochs / 10)


def test_every_record_is_of_a_row_or_listed_as_an_earlier_run(tables):
    found = tables["rows"].read_tables()
    assert set(records(TABLES)) <= {job.name for job in found.jobs}
    assert records(TABLES / "earlier") == sorted(found.earlier)


def test_the_rows_of_methods_that_exist_can_be_run(tables):
    found = tables["rows"].read_tables()
    jobs = [job for job in found.jobs if job.row.method in method_names() and job.seed == 0]
    assert len(jobs) > 40
    assert {job.name: why for job in jobs if (why := tables["one"].why_not(found, job))} == {}


def test_the_page_has_means_over_seeds_figures_on_the_way_and_what_is_missing(tables, tmp_path):
    of = {"row": "half", "label": "halfway", "of": "a", "figure": "stage1", "data": {"digits": {"published": 50.5}}}
    row = {
        "row": "a",
        "label": "A",
        "method": "kmeans",
        "data": {"digits": {"published": "70.0 ± 1.0", "test": [1, 2, 3]}},
    }
    none = {"row": "b", "label": "B", "method": "uno", "settings": {"x.y": "z"}, "data": {"digits": {}}}
    content = {"datasets": {"digits": {"title": "Digits"}}, "groups": {"All": [row, of, none]}}
    content["queue"] = [{"digits-a": [0, 1], "digits-b": [0]}]
    (tmp_path / "rows.yaml").write_text(yaml.safe_dump(content))
    for seed, (half, end) in enumerate([(0.5, 0.7), (0.52, 0.73)]):
        strict = {"old": end, "new": end, "all": end}
        figures = {
            "unlabelled": {"accuracy": end},
            "earlier": {"stage1": {"accuracy": half}},
            "test": {"strict": strict},
        }
        made = {"hardware": "cpu", "commit": "abcdefgh", "seconds": {"stage1": 30, "process": 120 + 60 * seed}}
        (tmp_path / f"digits-a-{seed}.json").write_text(json.dumps(figures | made))
    rows, page = tables["rows"], tables["page"]
    marks = "<!-- count -->\n<!-- paper -->\n<!-- tables -->\n<!-- counted -->\n<!-- earlier -->\n"
    marks += "{{digits-a over digits-half}} {{digits-a seeds}}"
    text = page.page(rows.read_tables(tmp_path / "rows.yaml"), rows.read_records(tmp_path), {}, marks).splitlines()
    assert "2 of 3 runs have a record." in text
    assert text[-1] == "20.5 2"
    assert "| A | 70.0 ± 1.0 | 71.5 ± 2.1 | 2 | +1.5 | 2.5 | cpu | abcdefg | `--method kmeans` |" in text
    assert "| halfway | 50.5 | 51.0 ± 1.4 | 2 | +0.5 | in A | cpu | abcdefg | `--method kmeans` |" in text
    assert "| B | | missing | | | | | | `--method uno --set x.y=z` |" in text
    assert "| A | published | 1.0 | 2.0 | 3.0 | |" in text
    assert "| A | strict | 71.5 ± 2.1 | 71.5 ± 2.1 | 71.5 ± 2.1 | 2 |" in text


def test_what_is_recorded_of_a_method_is_of_its_own_recipe_alone(tables, tmp_path):
    rows = {"kmeans": {"seeds": [0, 1]}, "a": {}, "apl": {"settings": {"stage1.epochs": 3}}, "uno": {"method": "uno"}}
    write_rows(tmp_path / "rows.yaml", rows)
    found = tables["rows"].read_tables(tmp_path / "rows.yaml")
    ran = {f"digits-{name}": {"unlabelled": {"accuracy": 0.5}} for name in ("kmeans-0", "a-0", "apl-0")}
    ran["digits-kmeans-1"] = {"unlabelled": {"accuracy": 0.51}}
    figures = {"accuracy": 50.5, "seeds": 2, "published": "", "source": ""}
    assert tables["page"].recorded(found, ran) == {"kmeans": {"digits": figures}}


def test_names_beside_marks_keep_their_distance_and_stay_near(tables):
    spread = tables["charts"].spread
    assert spread([10, 50, 90], 16, 0, 100) == [10, 50, 90]
    assert spread([50, 50], 16, 0, 100) == [42, 58]
    assert spread([50, 50, 60], 16, 0, 100) == pytest.approx([160 / 3 - 16, 160 / 3, 160 / 3 + 16])
    assert spread([0, 1, 2], 16, 0, 100) == [0, 16, 32]
    assert spread([98, 99, 100], 16, 0, 100) == [68, 84, 100]


def test_a_system_is_drawn_with_what_it_reached_and_what_was_published(tables, tmp_path):
    rows = {"a": {"seeds": [0, 1]}, "b": {}, "c": {}, "d": {}}
    write_rows(tmp_path / "rows.yaml", rows)
    content = yaml.safe_load((tmp_path / "rows.yaml").read_text())
    content["groups"]["All"][0]["data"]["digits"]["published"] = "70.0 ± 1.0"
    content["groups"]["All"][1]["data"]["digits"]["published"] = 60
    (tmp_path / "rows.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    made = {"unlabelled": {"accuracy": 0.75}, "hardware": "a GPU", "seconds": {"process": 120.0}}
    records = {"digits-a-0": made, "digits-a-1": made | {"unlabelled": {"accuracy": 0.77}, "gpu_shared": True}}
    records["digits-c-0"] = made | {"hardware": "cpu, 2 threads"}
    found = tables["rows"].read_tables(tmp_path / "rows.yaml")
    Mark = tables["charts"].Mark
    expected = [Mark("a", (75.0, 77.0), 70.0, 2.0), Mark("b", (), 60.0, None), Mark("c", (75.0,), None, None)]
    assert tables["charts"].marks("digits", found, records) == expected
    drawing = tables["charts"].against_minutes(found, records)
    words = [shape[2] for shape in drawing.drawn if shape[0] == "text"]
    assert {"Digits", "a", "b", "c"} <= set(words)
    mixed = replace(found, datasets={"digits": replace(found.datasets["digits"], mixed=True)})
    assert "Digits" not in [shape[2] for shape in tables["charts"].against_minutes(mixed, records).drawn]
    more = tables["charts"].against_minutes(found, records | {"digits-d-0": made})
    assert more.digest() != drawing.digest()

    content["groups"][tables["charts"].LEARNERS] = [
        {"row": "e", "label": "E and k-means", "method": "kmeans", "data": {"digits": {"published": 50}}},
        {"row": "a-again", "label": "again", "of": "a", "data": {"digits": {}}},
    ]
    content["queue"].append({"digits-e": [0]})
    (tmp_path / "rows.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    found = tables["rows"].read_tables(tmp_path / "rows.yaml")
    assert tables["charts"].marks("digits", found, records) == expected
    ran = tables["charts"].marks("digits", found, records | {"digits-e-0": made})
    assert ran == [*expected, Mark("E", (75.0,), 50.0, 2.0)]


def test_a_data_set_without_a_timed_run_has_no_panel(tables, tmp_path):
    write_rows(tmp_path / "rows.yaml", {"a": {}, "b": {"dataset": "cifar10"}})
    made = {"unlabelled": {"accuracy": 0.75}, "hardware": "a GPU", "seconds": {"process": 120.0}}
    records = {"digits-a-0": made, "cifar10-b-0": made | {"hardware": "cpu, 2 threads"}}
    drawing = tables["charts"].against_minutes(tables["rows"].read_tables(tmp_path / "rows.yaml"), records)
    words = [shape[2] for shape in drawing.drawn if shape[0] == "text"]
    assert "Digits" in words
    assert "CIFAR-10" not in words
