import numpy as np
import pytest

from newfound.data.collection import Pool, assemble
from newfound.data.holdout import set_aside
from newfound.data.store import ImageStore


def reading_of(sizes, pile=30):
    """Known categories of these sizes, and a pile; the first pixels of an image are its number."""
    categories = [f"c{k:02d}" for k, size in enumerate(sizes) for _ in range(size)] + [None] * pile
    rows = np.arange(len(categories))
    pixels = np.zeros((len(rows), 1, 8, 8), np.uint8)
    pixels[:, 0, 0, 0], pixels[:, 0, 0, 1] = rows % 256, rows // 256
    pool = Pool(ImageStore(pixels), [str(row) for row in rows], categories)
    known = sum(sizes)
    return assemble(pool, labelled=rows[:known], unlabelled=rows[known:], n_novel=2, seed=0)


def numbers(store):
    return [int(image[0, 0, 0]) + 256 * int(image[0, 0, 1]) for image in store.images]


@pytest.mark.parametrize(
    ("sizes", "held"), [([20] * 10, 20), ([23] * 15, 20), ([100] * 20, 100), ([3000] * 10, 1000), ([19] * 10, 0)]
)
def test_a_twentieth_is_held_out_if_there_are_enough_to_spare(sizes, held):
    test = set_aside(reading_of(sizes), None, 0).collection.test
    assert (len(test) if test is not None else 0) == held


def test_every_category_gives_its_part_and_small_ones_keep_theirs():
    reading = set_aside(reading_of([200, 100, 9, 100]), None, 0)
    left = np.bincount(reading.collection.labels[: reading.collection.n_labelled])
    assert left.tolist() == [190, 95, 9, 95]


def test_nothing_is_lost_and_names_go_with_their_images():
    before = reading_of([100, 150])
    after = set_aside(before, 0.1, 0)
    collection, names = after.collection, after.names
    assert len(collection.test) == 25
    assert [str(n) for n in numbers(collection.train)] == [*names.labelled, *names.unlabelled]
    assert [str(n) for n in numbers(collection.test)] == list(names.test)
    assert sorted(map(int, (*names.labelled, *names.test))) == list(range(250))
    assert names.unlabelled == before.names.unlabelled
    assert [len(task.rows) for task in collection.tasks] == [30]


def test_the_same_seed_holds_out_the_same_images_and_another_seed_others():
    names = [set_aside(reading_of([300]), None, seed).names.test for seed in (0, 0, 1)]
    assert names[0] == names[1] != names[2]


def test_a_share_of_nothing_and_images_with_a_test_part_change_nothing():
    reading = reading_of([300])
    assert set_aside(reading, 0.0, 0) is reading
    held = set_aside(reading, None, 0)
    assert set_aside(held, None, 0) is held
