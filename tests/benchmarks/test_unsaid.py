"""Mixed piles of which nobody says that they are mixed."""

import sys
from pathlib import Path

import numpy as np

from newfound.data.digits import read_digits

MIXED = Path(__file__).parents[2] / "benchmarks" / "mixed"


def test_an_unsaid_pile_has_the_same_images_and_novel_categories_alone(monkeypatch):
    monkeypatch.syspath_prepend(str(MIXED))
    monkeypatch.delitem(sys.modules, "unsaid", raising=False)
    from unsaid import unsaid as take_back

    said = read_digits(0, mixed=True)
    unsaid = take_back(said)
    (task,), (mixed,) = unsaid.collection.tasks, said.collection.tasks
    assert (unsaid.collection.mixed, said.collection.mixed) == (False, True)
    assert np.array_equal(task.rows, mixed.rows)
    assert np.array_equal(task.candidates, np.arange(5, 10))
    assert np.array_equal(mixed.candidates, np.arange(10))
    assert unsaid.answers is said.answers
    assert unsaid.collection.train is said.collection.train
