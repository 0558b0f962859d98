"""What the page is given so that a person can correct on it, and when it is given nothing."""

import base64
import json
import os
import re
import zlib

import pytest
from report_runs import make_run

from newfound.data.answers import LIKE_UNKNOWN
from newfound.data.sources import Source
from newfound.report.keep import read_kept
from newfound.report.page import write_page

FOLDERS = Source(labelled="known", unlabelled="pile", n_novel=3)


def content_of(run):
    page = write_page(run, read_kept(run)).read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.S)[1])


def spelled(content):
    names = zlib.decompress(base64.b64decode(content["correct"]["spelled"])).split(b"\0")
    n, k = len(content["labels"]), len(content["known"]["names"])
    return names[:n], names[n : n + k], names[n + k :]


def test_names_are_given_as_they_are_on_the_disk_however_the_page_shows_them(tmp_path):
    odd = ["x" * 300, os.fsdecode(b"caf\xe9"), 'a "b",c\nd', "</script>", "=1+1"]
    name = lambda i: f"{odd[i % 5]}/{i}.png"  # noqa: E731
    names = {"novel": ("n" * 300, "novel-02", "novel-03"), "known": ("k" * 300, "dog")}
    run = make_run(tmp_path / "run", name=name, **names, source=FOLDERS)
    content = content_of(run)
    categories, known, images = spelled(content)
    assert known == [b"k" * 300, b"dog"]
    assert sorted(images) == sorted(os.fsencode(name(i)) for i in range(60))
    assert categories[:3] == [b"n" * 300, b"novel-02", b"novel-03"]
    assert len(content["images"]["names"]) == len(images)
    for shown, exact in zip(content["images"]["names"], images, strict=True):
        assert shown[-5:] == exact.decode(errors="replace")[-5:]
    assert content["correct"]["unnamed"] == list(LIKE_UNKNOWN)


def test_another_result_has_another_key_and_the_page_made_again_the_same(tmp_path):
    run = make_run(tmp_path / "a", source=FOLDERS)
    key = content_of(run)["correct"]["key"]
    assert content_of(run)["correct"]["key"] == key
    assert content_of(make_run(tmp_path / "b", source=FOLDERS, mixed=True))["correct"]["key"] != key


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ({}, {}),  # of a data set
        ({"source": Source(features="f.npy", labels="l.csv", n_novel=3)}, {}),
        ({"source": FOLDERS, "kept": False}, {}),  # without pictures
        ({"source": FOLDERS}, {"newfound.report.page.LIMIT": 10_000}),
        ({"source": FOLDERS}, {"newfound.report.keep.MOST_IMAGES": 30, "newfound.report.keep.MOST_POINTS": 30}),
    ],
)
def test_where_corrections_could_not_be_used_or_whole_the_page_offers_none(words, change, tmp_path, monkeypatch):
    for name, value in change.items():
        monkeypatch.setattr(name, value)
    assert content_of(make_run(tmp_path / "run", **words))["correct"] is None
