"""A Collection shows methods the labelled images first, the others in a drawn order, and no answer; digits is one."""

import dataclasses
import itertools

import numpy as np
import pytest
from sklearn.datasets import load_digits

from newfound.data.collection import UNKNOWN, Answers, Collection, Pool, Skipped, Task, assemble, novel_tasks
from newfound.data.digits import read_digits
from newfound.data.store import ImageStore
from newfound.errors import UserError

LABELLED, PILE, HELD_OUT = np.arange(4), np.arange(4, 64), np.arange(64, 94)


def store_of(values):
    """One-pixel images of these values."""
    return ImageStore(np.array(values, dtype=np.uint8).reshape(-1, 1, 1, 1))


@pytest.fixture
def pool():
    """Four labelled images, sixty of a pile in the order of their classes, as they often are on disk, thirty to test.

    Every image is one pixel, and its name says the pixel's value.
    """
    values = [0, 1, 2, 3, *range(100, 160), *range(200, 230)]
    categories = ["dog", "cat", "dog", "ape"] + ["x"] * 20 + ["y"] * 20 + ["z"] * 20 + ["x"] * 15 + ["dog"] * 15
    tasks = [""] * 4 + ["runes"] * 25 + ["letters"] * 35 + [""] * 30
    return Pool(store_of(values), [f"i{value}" for value in values], categories, tasks)


def read(pool, *, test=HELD_OUT, n_novel=3, seed=0, **options):
    options = {"labelled": LABELLED, "unlabelled": PILE} | options
    return assemble(pool, test=test, n_novel=n_novel, seed=seed, **options)


def with_categories(pool, rows, categories):
    changed = list(pool.categories)
    for row, category in zip(rows, categories, strict=True):
        changed[row] = category
    return dataclasses.replace(pool, categories=changed)


def pixels(store):
    return store.images.flatten().tolist()


def test_labelled_images_come_first_and_keep_their_order(pool):
    reading = read(pool)
    collection = reading.collection
    assert collection.classes == ("ape", "cat", "dog")
    assert collection.labels.tolist() == [2, 1, 2, 0] + [UNKNOWN] * 60
    assert (collection.n_labelled, collection.n_unlabelled) == (4, 60)
    assert collection.labelled.tolist() == [0, 1, 2, 3]
    assert collection.unlabelled.tolist() == list(range(4, 64))
    assert pixels(collection.train)[:4] == [0, 1, 2, 3]
    assert reading.names.labelled == ("i0", "i1", "i2", "i3")


def test_names_and_answers_follow_the_images_through_the_shuffle(pool):
    reading = read(pool, seed=3)
    assert [f"i{value}" for value in pixels(reading.collection.train)[4:]] == list(reading.names.unlabelled)
    assert [f"i{value}" for value in pixels(reading.collection.test)] == list(reading.names.test)
    truth = dict(zip(pool.names, pool.categories, strict=True))
    assert [truth[name] for name in reading.names.unlabelled] == list(reading.answers.unlabelled)
    assert [truth[name] for name in reading.names.test] == list(reading.answers.test)


def test_the_order_of_unlabelled_and_test_images_is_drawn_from_the_seed(pool):
    one, again, other = (read(pool, seed=seed).names for seed in (0, 0, 1))
    assert one == again
    assert one.unlabelled != other.unlabelled
    assert one.test != other.test
    assert sorted(one.unlabelled) == sorted(other.unlabelled) == sorted(pool.names[4:64])


def test_the_order_of_unlabelled_images_does_not_depend_on_their_classes(pool):
    backwards = with_categories(pool, PILE, [pool.categories[row] for row in PILE[::-1]])
    none = with_categories(pool, PILE, [None] * 60)
    names = {read(any_pool).names for any_pool in (pool, backwards, none)}
    assert len(names) == 1


def test_the_order_on_disk_does_not_show_the_classes_after_the_shuffle(pool):
    answers = read(pool).answers.unlabelled
    neighbours_alike = sum(a == b for a, b in itertools.pairwise(answers))
    assert neighbours_alike < 35  # 57 before, 19 expected by chance


def test_a_collection_holds_no_answer_and_no_name(pool):
    collection = read(pool).collection
    assert {field.name for field in dataclasses.fields(collection)} == {"train", "labels", "classes", "tasks", "test"}
    assert {field.name for field in dataclasses.fields(Task)} == {"name", "rows", "candidates"}
    assert (collection.labels[4:] == UNKNOWN).all()
    assert "x" not in collection.classes
    assert set(vars(collection.train)) == set(vars(collection.test)) == {"images", "_digests"}


def test_collections_that_differ_in_their_answers_alone_are_the_same(pool):
    other = with_categories(pool, PILE, ["?"] * 60)
    assert read(pool).collection.fingerprint() == read(other).collection.fingerprint()


def test_answers_are_missing_where_nobody_knows_them(pool):
    assert read(with_categories(pool, PILE, [None] * 60), test=None).answers is None
    assert read(pool, test=None).answers.test is None
    half = read(with_categories(pool, PILE[:30], [None] * 30)).answers.unlabelled
    assert half.count(None) == 30
    assert Answers() == Answers(None, None)


def test_skipped_files_are_handed_on(pool):
    skipped = (Skipped("a.png", "truncated image"),)
    assert read(pool, skipped=skipped).skipped == skipped


def test_without_labelled_or_unlabelled_images_there_is_nothing_to_do(pool):
    none = np.empty(0, np.int64)
    with pytest.raises(UserError, match="no labelled image"):
        read(pool, labelled=none)
    with pytest.raises(UserError, match="no unlabelled image"):
        read(pool, unlabelled=none)


def test_a_collection_refuses_labels_that_do_not_fit():
    store = store_of([0, 0, 0])

    def collection(labels):
        labels = np.array(labels)
        return Collection(store, labels, ("a",), (Task("", np.flatnonzero(labels == UNKNOWN), np.array([1])),))

    with pytest.raises(ValueError, match="3 training images but labels of shape"):
        collection([0, 0])
    with pytest.raises(ValueError, match="must come before"):
        collection([UNKNOWN, 0, 0])
    for label in (1, -2):
        with pytest.raises(ValueError, match="labels have to lie in -1 to 0"):
            collection([0, label, UNKNOWN])


def test_the_fingerprint_changes_with_a_pixel_a_label_a_name_an_order_or_a_task(pool):
    def fingerprint(pool=pool, **options):
        return read(pool, **options).collection.fingerprint()

    def brighter(row):
        images = pool.images.images.clone()
        images[row] += 1
        return dataclasses.replace(pool, images=ImageStore(images))

    relabelled = with_categories(pool, LABELLED, ["dog", "cat", "ape", "ape"])
    renamed = with_categories(pool, LABELLED, ["dog", "cat", "dog", "asp"])
    two = {"runes": 2, "letters": 1}
    prints = [
        fingerprint(), fingerprint(brighter(PILE[7])), fingerprint(brighter(HELD_OUT[7])), fingerprint(test=None),
        fingerprint(relabelled), fingerprint(renamed), fingerprint(labelled=LABELLED[[2, 1, 0, 3]]),
        fingerprint(seed=1), fingerprint(n_novel=4), fingerprint(n_novel=two), fingerprint(n_novel=two | {"runes": 3}),
    ]  # fmt: skip
    assert len(set(prints)) == len(prints)
    assert fingerprint() == prints[0]


# Tasks


def test_without_tasks_all_unlabelled_images_are_one_task_without_a_name(pool):
    collection = read(pool).collection
    (task,) = collection.tasks
    assert (task.name, len(task.candidates), collection.n_novel) == ("", 3, 3)
    assert np.array_equal(task.rows, collection.unlabelled)


def test_tasks_part_the_unlabelled_images_by_name(pool):
    reading = read(pool, n_novel={"runes": 2, "letters": 4})
    collection = reading.collection
    assert [(task.name, len(task.candidates), len(task.rows)) for task in collection.tasks] == [
        ("letters", 4, 35), ("runes", 2, 25),
    ]  # fmt: skip
    assert collection.n_novel == 6
    rows = np.concatenate([task.rows for task in collection.tasks])
    assert np.array_equal(np.sort(rows), collection.unlabelled)
    task_of = dict(zip(pool.names, pool.tasks, strict=True))
    for task in collection.tasks:
        names = [reading.names.unlabelled[row - collection.n_labelled] for row in task.rows]
        assert {task_of[name] for name in names} == {task.name}


def test_a_task_holds_its_images_in_an_order_that_is_drawn_and_not_the_one_on_disk(pool):
    reading = read(pool, n_novel={"runes": 2, "letters": 4})
    for task in reading.collection.tasks:
        values = [int(reading.names.unlabelled[row - 4][1:]) for row in task.rows]
        assert values != sorted(values)


@pytest.mark.parametrize("rows", [[1], [1, 2, 2], [0, 1, 2], [1, 2, 3], []])
def test_tasks_that_do_not_cover_every_unlabelled_image_once_are_refused(rows):
    labels = np.array([0, UNKNOWN, UNKNOWN])
    with pytest.raises(ValueError, match="every unlabelled image has to be in one task"):
        Collection(store_of([0, 0, 0]), labels, ("a",), (Task("", np.array(rows, np.int64), np.array([1])),))


@pytest.mark.parametrize("n_novel", [0, 61, -1, 5000, 10**15])
def test_a_number_of_novel_categories_that_cannot_be_is_refused(pool, n_novel):
    with pytest.raises(UserError, match=f"cannot find {n_novel:,} novel categories among the 60 unlabelled images:"):
        read(pool, n_novel=n_novel)


def test_a_number_that_does_not_fit_names_its_task(pool):
    with pytest.raises(UserError, match="cannot find 26 novel categories among the 25 unlabelled images of runes"):
        read(pool, n_novel={"runes": 26, "letters": 1})


@pytest.mark.parametrize("n_novel", [1, 60])
def test_one_category_and_as_many_as_there_are_images_can_be_looked_for(pool, n_novel):
    assert read(pool, n_novel=n_novel).collection.n_novel == n_novel


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
    assert [(task.name, len(task.candidates)) for task in collection.tasks] == [("", 5)]
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


def test_tasks_count_their_categories_after_the_known_ones_one_task_after_the_other():
    one, two = novel_tasks(3, ("one", 2, np.arange(4, 9)), ("two", 4, np.arange(9, 20)))
    assert (one.candidates.tolist(), two.candidates.tolist()) == ([3, 4], [5, 6, 7, 8])


def test_known_categories_may_be_candidates_and_novel_ones_of_one_task_alone():
    labels = np.array([0, 1, UNKNOWN, UNKNOWN, UNKNOWN])

    def collection(*candidates):
        tasks = tuple(Task(str(i), np.array(rows), np.array(c)) for i, (rows, c) in enumerate(candidates))
        return Collection(store_of([0] * 5), labels, ("a", "b"), tasks)

    mixed = collection(([2, 3, 4], [0, 1, 2, 3]))
    assert (mixed.n_novel, mixed.candidates.tolist()) == (2, [0, 1, 2, 3])
    assert mixed.novel_of(mixed.tasks[0]).tolist() == [2, 3]
    with pytest.raises(ValueError, match="counted after the known ones, task after task"):
        collection(([2, 3], [2]), ([4], [2]))
    with pytest.raises(ValueError, match="counted after the known ones, task after task"):
        collection(([2, 3, 4], [3]))


def test_in_a_mixed_pile_known_categories_are_candidates_of_every_task(pool):
    plain, mixed = read(pool).collection, read(pool, mixed=True).collection
    assert (plain.mixed, mixed.mixed) == (False, True)
    assert plain.candidates.tolist() == [3, 4, 5]
    assert mixed.candidates.tolist() == [0, 1, 2, 3, 4, 5]
    assert mixed.n_novel == 3
    assert mixed.fingerprint() != plain.fingerprint()
    tasks = read(pool, mixed=True, n_novel={"letters": 2, "runes": 2}).collection.tasks
    assert [task.candidates.tolist() for task in tasks] == [[0, 1, 2, 3, 4], [0, 1, 2, 5, 6]]


def test_some_known_categories_as_candidates_are_refused(pool):
    collection = read(pool).collection
    task = dataclasses.replace(collection.tasks[0], candidates=np.array([1, 3, 4, 5]))
    with pytest.raises(ValueError, match="all known categories"):
        dataclasses.replace(collection, tasks=(task,))


def test_half_of_each_known_digit_goes_into_a_mixed_pile():
    plain, mixed = read_digits(0), read_digits(0, mixed=True)
    before, after = (np.bincount(r.collection.labels[: r.collection.n_labelled]) for r in (plain, mixed))
    assert after.tolist() == [-(-n // 2) for n in before]
    hidden = [name for name in mixed.answers.unlabelled if int(name) % 2 == 0]
    assert len(hidden) == sum(before) - sum(after)
    assert not set(mixed.names.labelled) & set(mixed.names.unlabelled)
    assert {*mixed.names.labelled, *mixed.names.unlabelled} == {*plain.names.labelled, *plain.names.unlabelled}
    assert read_digits(1, mixed=True).names.labelled != mixed.names.labelled
