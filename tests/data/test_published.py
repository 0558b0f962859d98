"""The publishers' own files, whole: counts, channel means, first labels, and how fast they are read.

Run with ``NEWFOUND_DATA=ROOT pytest -m data``, where ROOT holds CIFAR-10, CIFAR-100 and OmniGlot unpacked.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from newfound.data.check import check_data
from newfound.data.sources import Request, Source
from newfound.progress import Reporter

pytestmark = [pytest.mark.data, pytest.mark.timeout(600)]

CIFAR_SECONDS, OMNIGLOT_SECONDS = 3.0, 1.0
MEANS = {"cifar10": [0.4914, 0.4822, 0.4465], "cifar100": [0.5071, 0.4865, 0.4409]}
ALPHABETS = {
    "Angelic": 20, "Atemayar_Qelisayer": 26, "Atlantean": 26, "Aurek-Besh": 26, "Avesta": 26, "Ge_ez": 26,
    "Glagolitic": 45, "Gurmukhi": 45, "Kannada": 41, "Keble": 26, "Malayalam": 47, "Manipuri": 40, "Mongolian": 30,
    "Old_Church_Slavonic_(Cyrillic)": 45, "Oriya": 46, "Sylheti": 28, "Syriac_(Serto)": 23, "Tengwar": 25,
    "Tibetan": 42, "ULOG": 26,
}  # fmt: skip


@pytest.fixture(scope="module")
def root():
    assert "NEWFOUND_DATA" in os.environ, "set NEWFOUND_DATA to the folder that holds the data sets"
    return Path(os.environ["NEWFOUND_DATA"])


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def read(root, name, cache=None):
    request = Request(size=32, seed=0, reporter=Reporter(quiet=True), cache=cache)
    return Source(dataset=name, data=str(root)).read(request)


def part(images, classes):
    return {"images": images, "classes": classes}


def labels_by_name(reading):
    collection = reading.collection
    known = [collection.classes[label] for label in collection.labels[: collection.n_labelled]]
    names = reading.names.labelled + reading.names.unlabelled
    return dict(zip(names, (*known, *reading.answers.unlabelled), strict=True))


@pytest.mark.parametrize(
    ("name", "labelled", "unlabelled", "test"),
    [
        ("cifar10", part(25_000, 5), part(25_000, 5), part(10_000, 10)),
        ("cifar100", part(40_000, 80), part(10_000, 20), part(10_000, 100)),
        ("cifar100-50", part(25_000, 50), part(25_000, 50), part(10_000, 100)),
        ("cifar100-rehearsal", part(32_000, 64), part(8_000, 16), part(8_000, 80)),
    ],
)
def test_cifar_has_the_published_counts_and_means(root, name, labelled, unlabelled, test):
    found = check_data(name, root)
    assert (found["labelled"], found["unlabelled"], found["test"]) == (labelled, unlabelled, test)
    if name != "cifar100-rehearsal":
        assert found["means"] == MEANS[name.removesuffix("-50")]


def test_the_first_labels_of_cifar10_are_6_9_9_4_1_1_2_7_8_3(root):
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    found = labels_by_name(read(root, "cifar10"))
    assert [names.index(found[f"train-{i:05d}"]) for i in range(10)] == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]


def test_cifar100_goes_from_apple_to_worm(root):
    reading = read(root, "cifar100")
    assert reading.collection.classes[0] == "apple"
    assert max(reading.answers.unlabelled) == "worm"
    assert max(reading.collection.classes) < min(reading.answers.unlabelled)  # alphabetical, as published


def test_omniglot_has_the_published_counts_and_alphabets(root, cache):
    found = check_data("omniglot", root, cache=cache)
    assert found["labelled"] == part(19_280, 964)
    assert found["unlabelled"] == part(13_180, 659)
    assert found["test"] == part(0, 0)
    assert found["tasks"] == {name: part(20 * n, n) for name, n in ALPHABETS.items()}


def test_the_omniglot_rehearsal_has_795_and_169_characters(root, cache):
    found = check_data("omniglot-rehearsal", root, cache=cache)
    assert (found["labelled"], found["unlabelled"]) == (part(15_900, 795), part(3_380, 169))
    assert {name: count["classes"] for name, count in found["tasks"].items()} == {
        "Alphabet_of_the_Magi": 20, "Cyrillic": 33, "Grantha": 43, "Japanese_(katakana)": 47, "Latin": 26,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "most"), [("cifar10", CIFAR_SECONDS), ("cifar100", CIFAR_SECONDS), ("omniglot", OMNIGLOT_SECONDS)]
)
def test_reading_is_quick(root, cache, name, most, record_property):
    read(root, name, cache)  # OmniGlot counts from the second time; all files are in the system's memory then
    began = time.perf_counter()
    read(root, name, cache)
    seconds = time.perf_counter() - began
    record_property("seconds", seconds)
    print(f"{name}: {seconds:.2f} s")
    assert seconds < most


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "omniglot"])
def test_the_kmeans_row_runs_on_the_whole_set_from_the_command_line(root, name, tmp_path):
    """Shortened: a tiny network for one epoch; chance is 20 %, 5 % and less than 5 %."""
    short = ["--set", "network=tiny", "--set", "stage1.epochs=1", "--out", tmp_path / "run", "--json", "--quiet"]
    words = ["-m", "newfound", "discover", "--method", "kmeans", "--dataset", name, "--data", root, *short]
    done = subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    floor = {"cifar10": 0.35, "cifar100": 0.15, "omniglot": 0.25}[name]
    assert result["unlabelled"]["accuracy"] > floor
    assert len(result["unlabelled"].get("tasks", {})) == (20 if name == "omniglot" else 0)
