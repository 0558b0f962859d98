"""What the page holds, without a browser."""

import json
import os
import random
import re
import shutil

import numpy as np
import pytest
from PIL import Image
from report_runs import make_run
from safetensors.numpy import load_file, save_file

import newfound
from newfound import UserError
from newfound.cli import main as cli
from newfound.data.sources import Source
from newfound.errors import Interrupted
from newfound.progress import Reporter
from newfound.report.content import gather
from newfound.report.keep import read_kept
from newfound.report.near import found_before
from newfound.report.page import LIMIT, write_page
from newfound.report.text import as_json, displayed, fitted, shortened
from newfound.runs.again import report

FOLDERS = Source(labelled="known", unlabelled="pile", n_novel=2)
HOSTILE = "<img src=x onerror=alert(1)>"


def page_of(run):
    return write_page(run, read_kept(run)).read_text(encoding="utf-8")


def content_of(page):
    return json.loads(re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.S)[1])


def test_a_discovery_ends_with_a_page(tmp_path):
    found = newfound.discover(dataset="digits", method="kmeans", out=tmp_path / "run", settings={"stage1.epochs": 1})
    page = (tmp_path / "run" / "report.html").read_text()
    content = content_of(page)
    assert sum(category["size"] for category in content["categories"]) == len(content["map"]["x"]) == 679
    assert content["images"]["layout"] == {"side": 8, "cell": 8, "columns": 192}
    assert content["gallery"] is None  # its pictures would be no larger
    assert {data["title"]: data["images"] for data in content["matrices"]} == {"unlabelled": 679, "test": 449}
    assert content["test"]["strict"].keys() == {"old", "new", "all"}
    assert [curve["stage"] for curve in content["curves"]] == ["stage1"]
    assert content["settings"]["stage1"]["epochs"] == 1
    right = sum(category["truth"][0][1] for category in content["categories"])
    assert right / 679 >= found.result["unlabelled"]["accuracy"]


def test_hostile_and_foreign_names_on_the_disk_reach_the_page_as_text(tmp_path):
    rng = np.random.default_rng(0)
    odd = [HOSTILE, "猫 кошка قطة", "x" * 200, os.fsdecode(b"caf\xe9")]
    for folder, names in {"known/<b>known<": "abcd", "known/=cmd": "abcd", "pile": odd}.items():
        (tmp_path / folder).mkdir(parents=True)
        for name in names:
            pixels = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / folder / f"{name}.png")
    (tmp_path / "pile" / "<script>.txt").write_text("not an image")
    tiny = {"network": "tiny", "data.size": 8, "stage1.epochs": 1, "stage1.batch": 4}
    out = tmp_path / "run"
    newfound.discover(tmp_path / "known", tmp_path / "pile", n_novel=2, method="kmeans", out=out, settings=tiny)
    page = (out / "report.html").read_text(encoding="utf-8")
    content = content_of(page)
    assert HOSTILE not in page
    assert set(content["images"]["names"]) == {
        f"{HOSTILE}.png",
        "猫 кошка قطة.png",
        shortened("x" * 200 + ".png", 200),
        "caf�.png",
    }
    assert content["known"]["names"] == ["<b>known<", "=cmd"]
    assert content["skipped"]["files"][0][0].endswith("<script>.txt")


def test_the_page_is_made_again_from_what_the_run_kept(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run")
    first = page_of(run)
    monkeypatch.setattr("newfound.runs.again.read_call", lambda *_: pytest.fail("images were read"))
    assert report(run.folder, device="cpu", reporter=Reporter(quiet=True)).read_text() == first


def test_a_run_that_kept_nothing_is_looked_at_again(tmp_path):
    run = tmp_path / "run"
    newfound.discover(dataset="digits", method="kmeans", out=run, settings={"stage1.epochs": 1})
    kept = {name: value.tobytes() for name, value in load_file(run / "report.safetensors").items()}
    for name in ("report.safetensors", "report.html"):
        (run / name).unlink()
    report(run, device="cpu", reporter=Reporter(quiet=True))
    again = load_file(run / "report.safetensors")
    assert {name: value.tobytes() for name, value in again.items() if "positions" not in name} == {
        name: value for name, value in kept.items() if "positions" not in name
    }
    assert content_of((run / "report.html").read_text())["images"]["layout"]


def test_without_pictures_and_images_the_page_has_names(tmp_path, capsys):
    run = make_run(tmp_path / "run", kept=False)
    report(run.folder, device="cpu", reporter=Reporter(quiet=True))
    assert "the page has no pictures and no map" in capsys.readouterr().err
    content = content_of((run.folder / "report.html").read_text())
    assert content["map"]["x"] == []
    assert content["images"]["layout"] is None
    for category in content["categories"]:
        typical, doubtful = ([content["images"]["sure"][i] for i in category[part]] for part in ("typical", "doubtful"))
        assert typical == sorted(typical, reverse=True)
        assert min(typical) >= max(doubtful)


def test_one_category_without_answers_has_a_page(tmp_path):
    content = content_of(page_of(make_run(tmp_path / "run", n_novel=1, n_images=1, answers=False)))
    assert [category["size"] for category in content["categories"]] == [1]
    assert content["matrices"] == []
    assert content["unlabelled"] is None


def test_categories_of_an_earlier_run_are_told_by_their_numbers():
    known = ["cat", "novel-01", "novel-2", "novel-07", "novel-x", "xnovel-01", "novel-06 "]
    assert found_before(known, "novel-07") == {1, 2}
    assert found_before(known, None) == set()


def test_in_the_matrix_known_categories_stand_below_new_ones(tmp_path):
    content = content_of(page_of(make_run(tmp_path / "run", n_novel=3, n_images=90, mixed=True)))
    (data,) = content["matrices"]
    assert data["rows"] == ["novel-001", "novel-002", "novel-003", "cat", "dog"]
    assert data["old"] == [3, 4]


def test_skipped_files_are_told_with_their_reasons(tmp_path):
    many = tuple((f"{i}.png", "empty file (0 bytes)" if i % 3 else "truncated image") for i in range(1000))
    skipped = content_of(page_of(make_run(tmp_path / "run", skipped=many)))["skipped"]
    assert skipped["n"] == 1000
    assert skipped["reasons"] == [["empty file (0 bytes)", 666], ["truncated image", 334]]
    assert len(skipped["files"]) == 300


def test_what_stands_on_the_diagonal_is_what_a_category_stands_for(tmp_path):
    (data,) = content_of(page_of(make_run(tmp_path / "run", n_novel=6, n_images=600)))["matrices"]
    assert data["match"] == list(range(6))
    assert data["columns"] == [f"true-{i}" for i in range(6)]
    assert sum(data["cells"][2::3]) == 600


def test_no_name_can_end_the_content_or_become_a_tag(tmp_path):
    names = {"known": (HOSTILE, "</script><script>alert(2)</script>"), "novel": (HOSTILE, "<!--", "]]>")}
    run = make_run(
        tmp_path / "run", **names, name=lambda i: f"</script>{HOSTILE}{i}", truth=lambda c: f"{HOSTILE}{c}",
        skipped=((HOSTILE, "</script>"),),
    )  # fmt: skip
    page = page_of(run)
    assert HOSTILE not in page
    assert page.count("<script") == page.count("</script>") == 3
    assert content_of(page)["labels"][0] == HOSTILE


def test_only_the_pages_own_script_and_style_may_run(tmp_path):
    import base64
    import hashlib

    page = page_of(make_run(tmp_path / "run"))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; img-src data:; ")
    for tag in ("style", "script"):
        inside = re.search(f"<{tag}>(.*?)</{tag}>", page, re.S)[1]
        assert f"sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"""<[^>]*\son\w+=|(?:src|href)=["'](?!data:,|#)""", page.partition("<style>")[0])


@pytest.mark.parametrize(
    "size",
    [
        pytest.param({"n_novel": 500, "n_images": 8000, "side": 96, "noise": 60}, marks=pytest.mark.slow),
        {"n_novel": 2500, "n_images": 7000, "side": 32, "noise": 80},
        {"n_novel": 2, "n_images": 6000, "side": 96, "noise": 60},
        {"n_novel": 2, "n_images": 6000, "side": 96, "noise": 60, "source": FOLDERS},
    ],
)
def test_the_page_stays_below_15_mb_whatever_is_in_it(size, tmp_path, monkeypatch):
    monkeypatch.setattr("newfound.report.keep.draw_map", lambda features, *_: np.zeros((len(features), 2), np.float32))
    novel = tuple(f"{'<長' * 700}{i}" for i in range(size["n_novel"]))
    name = lambda i: f"{'<長い名前' * 200}{i}"  # noqa: E731
    if "source" in size:  # names for which there is no room to the letter
        name = lambda i: random.Random(i).randbytes(1500).hex()  # noqa: E731
    skipped = tuple(("<" * 4000, f"<{i}" * 300) for i in range(500))
    run = make_run(
        tmp_path / "run", **size, novel=novel, name=name, skipped=skipped,
        known=tuple(f"{'<' * 200}{i}" for i in range(300)), truth=lambda c: f"{'<' * 100}{c}",
    )  # fmt: skip
    write_page(run, read_kept(run))
    assert "source" not in size or content_of((run.folder / "report.html").read_text())["correct"] is None
    assert 1_000_000 < (run.folder / "report.html").stat().st_size <= LIMIT


def test_answers_given_later_reach_the_page(tmp_path, monkeypatch, capsys):
    run = make_run(tmp_path / "run", answers=False)
    page_of(run)
    truth = tmp_path / "truth.csv"
    truth.write_text("image,label\n" + "".join(f"pile/{i:05d}.png,{'ab'[i % 2]}\n" for i in range(60)))
    monkeypatch.setattr("sys.argv", ["newfound", "evaluate", str(run.folder), "--answers", str(truth), "--json"])
    assert cli.status() == 0
    assert "confusion" not in json.loads(capsys.readouterr().out)
    content = content_of((run.folder / "report.html").read_text())
    assert [data["images"] for data in content["matrices"]] == [60]
    assert content["unlabelled"]["images"] == 60


def test_every_image_is_listed_in_its_category_typical_ones_first(tmp_path):
    run = make_run(tmp_path / "run", n_novel=3, n_images=90)
    content = content_of(page_of(run))
    names, typicality = content["images"]["names"], load_file(run.folder / "report.safetensors")["typicality"]
    rows = {row["image"]: row["category"] for row in run.read_assignments()}
    for category, label in zip(content["categories"], content["labels"], strict=False):
        assert {names[i] for i in category["images"]} == {name for name, found in rows.items() if found == label}
        listed = [typicality[i] for i in category["images"]]
        assert listed == sorted(listed, reverse=True)
        assert category["images"][: len(category["typical"])] == category["typical"]


def test_thumbnails_that_have_no_room_in_the_page_lie_beside_it(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", n_novel=2, n_images=3000, side=48, noise=30)
    beside, sheets = run.folder / "report-pictures", read_kept(run).thumbnails.jpegs
    assert "img-src data:;" in page_of(run)
    assert not beside.exists()
    monkeypatch.setattr("newfound.report.page.INSIDE", len(sheets[0]))
    page = page_of(run)
    assert {path.name: path.read_bytes() for path in beside.iterdir()} == {
        f"{i}.jpg": jpeg for i, jpeg in enumerate(sheets) if i
    }
    assert 'id="images-0"' in page
    assert 'id="images-1"' not in page
    assert "img-src data: 'self' file:;" in page
    (beside / "mine.jpg").write_text("a person's own")
    monkeypatch.undo()
    page_of(run)
    assert [path.name for path in beside.iterdir()] == ["mine.jpg"]


def test_a_file_in_the_place_of_the_thumbnails_folder_stays(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run")
    (run.folder / "report-pictures").write_text("a person's own")
    page_of(run)
    monkeypatch.setattr("newfound.report.page.INSIDE", 0)
    with pytest.raises(UserError, match="report-pictures is not a folder"):
        page_of(run)
    assert (run.folder / "report-pictures").read_text() == "a person's own"


def test_a_page_shows_some_images_of_a_large_pile_and_all_of_the_gallery(tmp_path, monkeypatch):
    monkeypatch.setattr("newfound.report.keep.MOST_IMAGES", 40)
    monkeypatch.setattr("newfound.report.keep.MOST_POINTS", 20)
    content = content_of(page_of(make_run(tmp_path / "run", n_novel=3, n_images=200)))
    shown = {i for category in content["categories"] for i in category["images"]}
    pictured = {i for category in content["categories"] for i in category["typical"] + category["doubtful"]}
    assert content["images"]["of"] == 200
    assert len(content["map"]["x"]) == 20
    assert pictured < shown == set(range(len(content["images"]["names"])))
    assert 40 <= len(shown) <= 100


def test_the_command_names_the_page(tmp_path, monkeypatch, capsys):
    run = make_run(tmp_path / "run")
    monkeypatch.setattr("sys.argv", ["newfound", "report", str(run.folder)])
    assert cli.status() == 0
    assert capsys.readouterr().out == f"{run.folder / 'report.html'}\n"


def test_a_run_that_is_not_finished_has_no_page(tmp_path):
    run = make_run(tmp_path / "run")
    (run.folder / "result.json").unlink()
    with pytest.raises(UserError, match="is not finished: newfound resume"):
        report(run.folder, device="cpu", reporter=Reporter(quiet=True))


def test_an_interruption_while_the_map_is_drawn_costs_the_page_alone(tmp_path, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("newfound.report.keep.draw_map", interrupt)
        with pytest.raises(Interrupted, match=f"the run is finished, and `newfound report {run}` makes its page"):
            newfound.discover(dataset="digits", method="kmeans", out=run, settings={"stage1.epochs": 1})
    assert len(newfound.resume(run, verbose=True)) == 679
    assert f"its page was not made: newfound report {run}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage",
    [
        lambda t: t | {"images": t["images"] + 1000},
        lambda t: t | {"typical": t["typical"] - 70},
        lambda t: t | {"positions": t["positions"] * np.float32(np.nan)},
        lambda t: t | {"nearest": t["nearest"][:1]},
        lambda t: t | {"shown": t["shown"][:, None]},
        lambda t: t | {"thumbnails.layout": np.array([0, 0, 0], np.int32)},
        lambda t: t | {"thumbnails.layout": np.array([8, 8], np.int32)},
        lambda t: t | {"thumbnails.0": np.zeros(6_000_000, np.uint8)},
        lambda t: {name: value for name, value in t.items() if name != "nearest"},
    ],
)
def test_what_a_run_kept_is_checked_before_it_is_shown(damage, tmp_path):
    run = make_run(tmp_path / "run")
    path = run.folder / "report.safetensors"
    save_file(damage(load_file(path)), path)
    with pytest.raises(UserError, match=r"report\.safetensors does not hold what this run's page shows"):
        read_kept(run)


def test_a_file_that_is_no_safetensors_is_told_and_gone_round(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    (run.folder / "report.safetensors").write_bytes(b"\xff" * 100)
    report(run.folder, device="cpu", reporter=Reporter(quiet=True))
    errors = capsys.readouterr().err
    assert "it is made again from the images" in errors
    assert "the page has no pictures and no map" in errors


def test_a_damaged_result_is_a_sentence(tmp_path):
    run = make_run(tmp_path / "run")
    result = json.loads((run.folder / "result.json").read_text())
    (run.folder / "result.json").write_text(json.dumps(result | {"novel": ["other"]}))
    with pytest.raises(UserError, match="do not fit together"):
        gather(run, None)
    shutil.copy(run.folder / "skipped.csv", run.folder / "assignments.csv")
    with pytest.raises(UserError, match="has 0 lines, and the run had 60 images"):
        gather(run, None)


def test_metrics_that_cannot_be_read_are_passed_over(tmp_path):
    run = make_run(tmp_path / "run")
    with open(run.folder / "metrics.jsonl", "a") as file:
        file.write('{"stage": "stage2", "step": 1, "loss": NaN}\n[]\n{"half')
    stages = content_of(page_of(run))["curves"]
    assert [stage["stage"] for stage in stages] == ["stage1", "stage2"]
    assert len(stages[0]["steps"]) == 300
    assert stages[0]["steps"][-1] == 899


def test_names_become_text_that_can_be_shown():
    assert displayed("a\nb\x7f\udce9") == "a␊b␡�"
    assert shortened("0123456789", 7) == "01…6789"
    assert fitted(["x" * 300, "y"], 10**6) == ["x" * 66 + "…" + "x" * 133, "y"]
    assert len(as_json(fitted(["<" * 300] * 10, 2000))) <= 2000
    assert (
        as_json({"a": [float("nan"), 1.23456789, 2**70, None, True, "<"]})
        == b'{"a":[null,1.2346,null,null,true,"\\u003c"]}'
    )
