"""OmniGlot in the publishers' layout, small: labelled background, one task an alphabet, and nothing about drawers."""

import dataclasses
import itertools
import random
from collections import Counter

import numpy as np
import pytest
import torch
from PIL import Image
from reference.publishers import write_omniglot

from newfound.data import omniglot
from newfound.data.digits import read_digits
from newfound.data.omniglot import REHEARSED, Layout, list_drawings, read_omniglot, read_omniglot_rehearsal
from newfound.data.tasks import only_task, with_novel
from newfound.errors import UserError
from newfound.progress import Reporter

KNOWN = {"Greek": 3, "Futurama": 2}
NOVEL = {"Old_Church_Slavonic_(Cyrillic)": 4, "Angelic": 2}
BACKGROUND = Layout("images_background", alphabets=2, characters=5)
EVALUATION = Layout("images_evaluation", alphabets=2, characters=6)
QUIET = Reporter(quiet=True)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_omniglot(root, "images_background", KNOWN)
    write_omniglot(root, "images_evaluation", NOVEL)
    return root


@pytest.fixture
def whole(tmp_path):
    write_omniglot(tmp_path, "images_background", KNOWN)
    write_omniglot(tmp_path, "images_evaluation", NOVEL)
    return tmp_path


def read(root, seed=0, size=21, cache=None, **layouts):
    layouts = {"background": BACKGROUND, "evaluation": EVALUATION} | layouts
    return read_omniglot(root, seed, size=size, reporter=QUIET, cache=cache, **layouts)


def refusal(root, **options):
    with pytest.raises(UserError) as caught:
        read(root, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_published_set_has_the_published_numbers():
    assert (omniglot.BACKGROUND.alphabets, omniglot.BACKGROUND.characters, omniglot.BACKGROUND.drawings) == (
        30,
        964,
        20,
    )
    assert (omniglot.EVALUATION.alphabets, omniglot.EVALUATION.characters, omniglot.EVALUATION.drawings) == (
        20,
        659,
        20,
    )


def test_background_characters_are_labelled_under_their_alphabet(untouched):
    reading = read(untouched)
    expected = tuple(sorted(f"{name}/character{c + 1:02d}" for name, n in KNOWN.items() for c in range(n)))
    assert reading.collection.classes == expected
    assert (reading.collection.n_labelled, reading.collection.n_unlabelled) == (100, 120)
    assert np.bincount(reading.collection.labels[:100]).tolist() == [20] * 5
    assert reading.collection.test is None


def test_each_evaluation_alphabet_is_a_task_by_its_full_name_with_its_own_number(untouched):
    reading = read(untouched)
    collection = reading.collection
    assert [(task.name, len(task.candidates), len(task.rows)) for task in collection.tasks] == [
        ("Angelic", 2, 40), ("Old_Church_Slavonic_(Cyrillic)", 4, 80),
    ]  # fmt: skip
    for task in collection.tasks:
        answers = Counter(reading.answers.unlabelled[row - 100] for row in task.rows)
        assert answers == {f"{task.name}/character{c + 1:02d}": 20 for c in range(len(task.candidates))}


def test_drawings_are_black_on_white_in_one_channel(untouched):
    images = read(untouched, size=105).collection.train.images
    assert images.shape == (220, 1, 105, 105)
    assert images.unique().tolist() == [0, 255]
    assert ((images == 0).sum((1, 2, 3)) == 400).all()


def test_each_row_is_the_drawing_of_its_name(untouched):
    reading = read(untouched, size=105)
    names = reading.names.labelled + reading.names.unlabelled
    for name, image in zip(names, reading.collection.train.images, strict=True):
        expected = np.asarray(Image.open(untouched / name).convert("L"))
        assert np.array_equal(image[0], expected), name


def test_labels_are_those_of_the_folders(untouched):
    reading = read(untouched)
    known = [reading.collection.classes[label] for label in reading.collection.labels[:100]]
    for name, category in zip(
        reading.names.labelled + reading.names.unlabelled, (*known, *reading.answers.unlabelled), strict=True
    ):
        assert name.split("/")[1:3] == category.split("/")


def test_no_order_gives_the_drawer_or_the_character_away(untouched):
    reading = read(untouched)
    drawers = [name[-6:-4] for name in reading.names.labelled + reading.names.unlabelled]
    for part in (drawers[:100], drawers[100:]):
        steps = Counter((int(b) - int(a)) % 20 for a, b in itertools.pairwise(part))
        assert steps[1] < 20  # nearly all of them on disk, a twentieth by chance
    answers = reading.answers.unlabelled
    assert sum(a == b for a, b in itertools.pairwise(answers)) < 60


def test_the_order_follows_from_the_seed_alone(untouched, monkeypatch):
    one, other = read(untouched, seed=0), read(untouched, seed=1)
    assert one.names.labelled != other.names.labelled
    assert one.names.unlabelled != other.names.unlabelled
    assert sorted(one.names.labelled) == sorted(other.names.labelled)
    plain = omniglot.os.scandir

    class Shuffled:
        def __init__(self, path):
            with plain(path) as entries:
                self.entries = list(entries)
            random.Random(3).shuffle(self.entries)

        def __enter__(self):
            return iter(self.entries)

        def __exit__(self, *_):
            pass

    monkeypatch.setattr("newfound.data.listing.os.scandir", Shuffled)
    again = read(untouched, seed=0)
    assert again.names == one.names
    assert again.collection.fingerprint() == one.collection.fingerprint()


def test_a_second_reading_takes_the_images_from_the_cache(untouched, tmp_path, monkeypatch):
    first = read(untouched, cache=tmp_path / "cache")
    monkeypatch.setattr("newfound.data.parallel.decode", lambda *_: pytest.fail("a file was decoded again"))
    second = read(untouched, cache=tmp_path / "cache")
    assert torch.equal(first.collection.train.images, second.collection.train.images)
    assert first.names == second.names


def test_hidden_files_and_loose_ones_beside_the_folders_do_no_harm(whole):
    (whole / "images_background" / ".DS_Store").touch()
    (whole / "images_background" / "Greek" / "character01" / "._0001_01.png").touch()
    (whole / "images_background" / "readme.txt").touch()
    assert read(whole).collection.n_labelled == 100


# The rehearsal


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory):
    """Background images alone: two alphabets beside those that pretend to be novel."""
    root = tmp_path_factory.mktemp("rehearsal")
    write_omniglot(root, "images_background", KNOWN | dict.fromkeys(REHEARSED, 2) | {"Latin": 3}, drawings=2)
    return root


LAYOUT = Layout("images_background", alphabets=7, characters=16, drawings=2)


def test_the_rehearsal_takes_five_background_alphabets_as_tasks_and_needs_no_evaluation_images(rehearsal):
    reading = read_omniglot_rehearsal(rehearsal, 0, size=8, reporter=QUIET, cache=None, background=LAYOUT)
    tasks = {task.name: len(task.candidates) for task in reading.collection.tasks}
    assert tasks == {
        "Alphabet_of_the_Magi": 2, "Cyrillic": 2, "Grantha": 2, "Japanese_(katakana)": 2, "Latin": 3,
    }  # fmt: skip
    assert {name.split("/")[0] for name in reading.collection.classes} == set(KNOWN)
    assert {name.split("/")[0] for name in reading.answers.unlabelled} == set(tasks)
    assert (reading.collection.n_labelled, reading.collection.n_unlabelled) == (10, 22)


def test_the_rehearsal_does_not_look_at_evaluation_images(rehearsal, tmp_path):
    (tmp_path / "images_background").symlink_to(rehearsal / "images_background")
    (tmp_path / "images_evaluation").write_text("no folder at all")
    reading = read_omniglot_rehearsal(tmp_path, 0, size=8, reporter=QUIET, cache=None, background=LAYOUT)
    assert reading.collection.n_novel == 11


def test_a_rehearsal_without_one_of_its_alphabets_is_refused(untouched):
    with pytest.raises(UserError, match="has no alphabet Alphabet_of_the_Magi"):
        read_omniglot_rehearsal(untouched, 0, size=8, reporter=QUIET, cache=None, background=BACKGROUND)


# What is not whole


def test_data_that_is_missing_comes_with_how_to_obtain_it(tmp_path, whole):
    message = refusal(tmp_path / "nowhere")
    assert "has no folder images_background" in message
    assert "`newfound data get omniglot --to ROOT`" in message
    assert "data" in message
    (whole / "images_evaluation").rename(whole / "elsewhere")
    assert "has no folder images_evaluation" in refusal(whole)


def test_a_missing_or_extra_drawing_is_named_with_its_character(whole):
    folder = whole / "images_evaluation" / "Angelic" / "character02"
    (folder / "0102_21.png").write_bytes((folder / "0102_01.png").read_bytes())
    assert f"{str(folder)!r} has 21 files, and every character 20 drawings" in refusal(whole)
    (folder / "0102_21.png").unlink()
    (folder / "0102_01.png").unlink()
    assert f"{str(folder)!r} has 19 files" in refusal(whole)


def test_another_number_of_characters_or_alphabets_is_refused(whole):
    more = dataclasses.replace(BACKGROUND, characters=6)
    assert "has 5 characters in 2 alphabets, and OmniGlot has 6 in 2" in refusal(whole, background=more)
    more = dataclasses.replace(EVALUATION, alphabets=3)
    assert "has 6 characters in 2 alphabets, and OmniGlot has 6 in 3" in refusal(whole, evaluation=more)


def test_an_alphabet_in_both_parts_is_refused(whole):
    (whole / "images_background" / "Greek").rename(whole / "images_background" / "Angelic")
    assert "has Angelic among the background and the evaluation alphabets" in refusal(whole)


def test_drawings_that_cannot_be_read_are_not_skipped_but_refused(whole):
    folder = whole / "images_background" / "Greek" / "character02"
    (folder / "0002_07.png").write_text("no image")
    message = refusal(whole)
    assert f"{str(folder / '0002_07.png')!r} cannot be read (not an image" in message
    assert "OmniGlot is not whole" in message
    (folder / "0002_08.png").write_bytes(b"")
    assert "nor can 1 more" in refusal(whole)


def test_a_folder_that_cannot_be_opened_is_named(whole, monkeypatch):
    def scandir(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("newfound.data.listing.os.scandir", scandir)
    with pytest.raises(UserError, match="cannot be opened: permission denied"):
        list_drawings(whole, BACKGROUND)


def test_one_task_can_be_taken_by_itself(untouched):
    whole = read(untouched)
    task, first = whole.collection.tasks[1], whole.collection.n_labelled
    one = only_task(whole, task.name)
    assert [(t.name, len(t.candidates)) for t in one.collection.tasks] == [(task.name, len(task.candidates))]
    assert one.collection.n_labelled == first
    assert torch.equal(one.collection.train.images[first:], whole.collection.train.images[torch.from_numpy(task.rows)])
    assert one.names.unlabelled == tuple(whole.names.unlabelled[i - first] for i in task.rows)
    assert {answer.split("/")[0] for answer in one.answers.unlabelled} == {task.name}
    with pytest.raises(UserError, match="there is no such task; there are: Angelic, Old_Church"):
        only_task(whole, "Klingon")


def test_another_number_of_categories_can_be_looked_for_in_one_task(untouched):
    whole = read(untouched)
    one = only_task(whole, whole.collection.tasks[1].name)
    known = len(one.collection.classes)
    (task,) = with_novel(one, 7).collection.tasks
    assert task.candidates.tolist() == list(range(known, known + 7))
    assert np.array_equal(task.rows, one.collection.tasks[0].rows)
    with pytest.raises(UserError, match="has 2 tasks, each with a number of categories of its own: leave n_novel out"):
        with_novel(whole, 7)


def test_another_number_in_a_mixed_pile_goes_beside_the_known_categories():
    (task,) = with_novel(read_digits(0, mixed=True), 8).collection.tasks
    assert task.candidates.tolist() == list(range(5 + 8))
