"""A small draw of a data set, as folders that `discover` takes."""

import csv

import numpy as np
import pytest
from PIL import Image

from newfound.data.digits import read_digits
from newfound.errors import UserError
from newfound.runs.sample import write_sample


def truth_of(folder):
    with open(folder / "truth.csv", newline="") as file:
        return {row["image"]: row["label"] for row in csv.DictReader(file)}


def test_every_category_has_as_many_images_as_asked_for(tmp_path):
    counts, novel = write_sample("digits", None, tmp_path / "made", each=10)
    assert novel == 5
    assert counts == {"known": 50, "pile": 50, "new": 20}
    known = {folder.name: len(list(folder.iterdir())) for folder in (tmp_path / "made" / "known").iterdir()}
    assert known == dict.fromkeys("02468", 10)
    truth = truth_of(tmp_path / "made")
    pile = [truth[path.name] for path in (tmp_path / "made" / "pile").iterdir()]
    assert {digit: pile.count(digit) for digit in pile} == dict.fromkeys("13579", 10)
    new = [truth[path.name] for path in (tmp_path / "made" / "new").iterdir()]
    assert {digit: new.count(digit) for digit in new} == dict.fromkeys("0123456789", 2)


def test_files_hold_the_images_that_their_names_and_folders_say(tmp_path):
    write_sample("digits", None, tmp_path / "made", each=3, seed=4)
    reading = read_digits(4)
    row = {f"{name}.png": i for i, name in enumerate(reading.names.labelled + reading.names.unlabelled)}
    truth = truth_of(tmp_path / "made")
    for path in (*(tmp_path / "made" / "known").rglob("*.png"), *(tmp_path / "made" / "pile").iterdir()):
        pixels = np.asarray(Image.open(path))
        assert np.array_equal(pixels, reading.collection.train.images[row[path.name]][0].numpy())
        if path.parent.name != "pile":
            assert reading.collection.classes[reading.collection.labels[row[path.name]]] == path.parent.name
        else:
            assert reading.answers.unlabelled[row[path.name] - reading.collection.n_labelled] == truth[path.name]


def test_a_folder_that_holds_something_is_refused_and_stays(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="not an empty folder"):
        write_sample("digits", None, tmp_path, each=3)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
