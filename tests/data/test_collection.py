"""A Collection shows methods the labelled images first, the others in a drawn order, and no answer; digits is one."""

import dataclasses
import itertools

import numpy as np
import pytest
from sklearn.datasets import load_digits

from newfound.data.collection import UNKNOWN, Answers, Collection, Part, Skipped, assemble
from newfound.data.digits import read_digits
from newfound.data.store import ImageStore
from newfound.errors import UserError


def part(values, categories=None, prefix="u"):
    """One-pixel images of these values, named after them."""
    images = np.array(values, dtype=np.uint8).reshape(-1, 1, 1, 1)
    return Part(images, tuple(f"{prefix}{value}" for value in values), categories and tuple(categories))


@pytest.fixture
def labelled():
    return part([0, 1, 2, 3], ["dog", "cat", "dog", "ape"], "l")


@pytest.fixture
def pile():
    """Images in the order of their classes, as they often are on disk."""
    return part(range(100, 160), ["x"] * 20 + ["y"] * 20 + ["z"] * 20)


@pytest.fixture
def held_out():
    return part(range(200, 230), ["x"] * 15 + ["dog"] * 15, "t")


def pixels(store):
    return store.images.flatten().tolist()


def test_labelled_images_come_first_and_keep_their_order(labelled, pile):
    reading = assemble(labelled, pile, seed=0)
    collection = reading.collection
    assert collection.classes == ("ape", "cat", "dog")
    assert collection.labels.tolist() == [2, 1, 2, 0] + [UNKNOWN] * 60
    assert (collection.n_labelled, collection.n_unlabelled) == (4, 60)
    assert collection.labelled.tolist() == [0, 1, 2, 3]
    assert collection.unlabelled.tolist() == list(range(4, 64))
    assert pixels(collection.train)[:4] == [0, 1, 2, 3]
    assert reading.names.labelled == ("l0", "l1", "l2", "l3")


def test_names_and_answers_follow_the_images_through_the_shuffle(labelled, pile, held_out):
    reading = assemble(labelled, pile, held_out, seed=3)
    assert [f"u{value}" for value in pixels(reading.collection.train)[4:]] == list(reading.names.unlabelled)
    assert [f"t{value}" for value in pixels(reading.collection.test)] == list(reading.names.test)
    truth = dict(zip(pile.names + held_out.names, pile.categories + held_out.categories, strict=True))
    assert [truth[name] for name in reading.names.unlabelled] == list(reading.answers.unlabelled)
    assert [truth[name] for name in reading.names.test] == list(reading.answers.test)


def test_the_order_of_unlabelled_and_test_images_is_drawn_from_the_seed(labelled, pile, held_out):
    one, again, other = (assemble(labelled, pile, held_out, seed=seed).names for seed in (0, 0, 1))
    assert one == again
    assert one.unlabelled != other.unlabelled
    assert one.test != other.test
    assert sorted(one.unlabelled) == sorted(other.unlabelled) == sorted(pile.names)


def test_the_order_of_unlabelled_images_does_not_depend_on_their_classes(labelled, pile):
    other = dataclasses.replace(pile, categories=pile.categories[::-1])
    none = dataclasses.replace(pile, categories=None)
    names = {assemble(labelled, any_pile, seed=0).names for any_pile in (pile, other, none)}
    assert len(names) == 1


def test_the_order_on_disk_does_not_show_the_classes_after_the_shuffle(labelled, pile):
    answers = assemble(labelled, pile, seed=0).answers.unlabelled
    neighbours_alike = sum(a == b for a, b in itertools.pairwise(answers))
    assert neighbours_alike < 35  # 57 before, 19 expected by chance


def test_a_collection_holds_no_answer_and_no_name(labelled, pile, held_out):
    collection = assemble(labelled, pile, held_out, seed=0).collection
    assert {field.name for field in dataclasses.fields(collection)} == {"train", "labels", "classes", "test"}
    assert (collection.labels[4:] == UNKNOWN).all()
    assert "x" not in collection.classes
    assert set(vars(collection.train)) == set(vars(collection.test)) == {"images"}


def test_collections_that_differ_in_their_answers_alone_are_the_same(labelled, pile):
    other = dataclasses.replace(pile, categories=("?",) * 60)
    one, same = (assemble(labelled, any_pile, seed=0).collection for any_pile in (pile, other))
    assert one.fingerprint() == same.fingerprint()


def test_answers_are_missing_where_nobody_knows_them(labelled, pile, held_out):
    blind = dataclasses.replace(pile, categories=None)
    assert assemble(labelled, blind, seed=0).answers is None
    answers = assemble(labelled, blind, held_out, seed=0).answers
    assert answers.unlabelled is None
    assert len(answers.test) == 30
    assert assemble(labelled, pile, seed=0).answers.test is None
    assert Answers() == Answers(None, None)


def test_skipped_files_are_handed_on(labelled, pile):
    skipped = (Skipped("a.png", "truncated image"),)
    assert assemble(labelled, pile, seed=0, skipped=skipped).skipped == skipped


def test_without_labelled_or_unlabelled_images_there_is_nothing_to_do(labelled, pile):
    with pytest.raises(UserError, match="no labelled image"):
        assemble(part([], ()), pile, seed=0)
    with pytest.raises(UserError, match="no unlabelled image"):
        assemble(labelled, part([]), seed=0)
    with pytest.raises(ValueError, match="no categories"):
        assemble(dataclasses.replace(labelled, categories=None), pile, seed=0)


def test_a_collection_refuses_labels_that_do_not_fit():
    store = ImageStore(np.zeros((3, 1, 1, 1), np.uint8))
    with pytest.raises(ValueError, match="3 training images but labels of shape"):
        Collection(store, np.array([0, 0]), ("a",))
    with pytest.raises(ValueError, match="must come before"):
        Collection(store, np.array([UNKNOWN, 0, 0]), ("a",))
    with pytest.raises(ValueError, match="label 1 has no name"):
        Collection(store, np.array([0, 1, UNKNOWN]), ("a",))


def test_the_fingerprint_changes_with_a_pixel_a_label_a_name_or_an_order(labelled, pile, held_out):
    def fingerprint(labelled=labelled, pile=pile, held_out=held_out, seed=0):
        return assemble(labelled, pile, held_out, seed=seed).collection.fingerprint()

    brighter = dataclasses.replace(pile, images=pile.images + np.uint8(1))
    brighter_test = dataclasses.replace(held_out, images=held_out.images + np.uint8(1))
    relabelled = dataclasses.replace(labelled, categories=("dog", "cat", "ape", "ape"))
    renamed = dataclasses.replace(labelled, categories=("dog", "cat", "dog", "asp"))
    turned = labelled.take(np.array([2, 1, 0, 3]))
    prints = [
        fingerprint(), fingerprint(pile=brighter), fingerprint(held_out=brighter_test), fingerprint(held_out=None),
        fingerprint(relabelled), fingerprint(renamed), fingerprint(turned), fingerprint(seed=1),
    ]  # fmt: skip
    assert len(set(prints)) == len(prints)
    assert fingerprint() == prints[0]


# Digits


@pytest.fixture(scope="module")
def digits():
    return read_digits(seed=0)


def test_digits_label_the_even_ones_and_hide_the_odd_ones(digits):
    target = load_digits().target
    trained = np.arange(len(target)) % 4 != 3
    collection = digits.collection
    assert collection.classes == ("0", "2", "4", "6", "8")
    assert collection.n_labelled == (trained & (target % 2 == 0)).sum() == 669
    assert collection.n_unlabelled == (trained & (target % 2 == 1)).sum() == 679
    assert len(collection.test) == (~trained).sum() == 449
    assert collection.train.shape == (1, 8, 8)
    assert set(digits.answers.unlabelled) == {"1", "3", "5", "7", "9"}
    assert set(digits.answers.test) == set("0123456789")


def test_every_digit_is_the_image_of_its_number_with_its_label(digits):
    raw = load_digits()
    names = digits.names
    stores = [(names.labelled + names.unlabelled, digits.collection.train), (names.test, digits.collection.test)]
    for some, store in stores:
        numbers = [int(name.removeprefix("digits-")) for name in some]
        assert np.array_equal(store.images[:, 0], np.round(raw.images[numbers] * 255 / 16))
    known = [digits.collection.classes[label] for label in digits.collection.labels[: digits.collection.n_labelled]]
    labels = dict(
        zip(
            names.labelled + names.unlabelled + names.test,
            (*known, *digits.answers.unlabelled, *digits.answers.test),
            strict=True,
        )
    )
    assert [labels[f"digits-{i:04d}"] for i in range(1797)] == [str(target) for target in raw.target]


def test_digits_are_shuffled_by_the_seed_and_split_alike(digits):
    other = read_digits(seed=1)
    assert digits.names.labelled == other.names.labelled
    assert digits.names.unlabelled != other.names.unlabelled
    assert sorted(digits.names.unlabelled) == sorted(other.names.unlabelled)
    assert sorted(digits.names.test) == sorted(other.names.test)
    assert digits.collection.fingerprint() == read_digits(seed=0).collection.fingerprint()
