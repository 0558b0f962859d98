"""Figures of several tasks, and counts of pairs of found and true categories."""

import numpy as np
import pytest

from newfound.evaluate.confusion import count_pairs
from newfound.evaluate.protocol import evaluate_unlabelled
from newfound.evaluate.tasks import evaluate_tasks

FOUND = ["A/1", "A/1", "A/2", "B/1", "B/1", "B/1", "B/2", "B/2"]
TRUTH = ["a", "a", "a", "x", "x", "y", "y", None]
TASKS = {"A": np.arange(3), "B": np.arange(3, 8)}


def test_figures_of_several_tasks_are_the_mean_of_each_by_itself():
    figures = evaluate_tasks(FOUND, TRUTH, TASKS)
    assert figures["tasks"] == {
        "A": evaluate_unlabelled(FOUND[:3], TRUTH[:3]),
        "B": evaluate_unlabelled(FOUND[3:], TRUTH[3:]),
    }
    assert figures["accuracy"] == pytest.approx((2 / 3 + 3 / 4) / 2)
    for name in ("nmi", "ari"):
        assert figures[name] == pytest.approx(sum(task[name] for task in figures["tasks"].values()) / 2)
    assert (figures["images"], figures["classes"]) == (7, 3)


def test_a_single_task_is_all_images_at_once():
    assert evaluate_tasks(FOUND, TRUTH, {"": np.arange(8)}) == evaluate_unlabelled(FOUND, TRUTH)


def test_pairs_are_counted_most_images_first_and_then_by_name():
    assert count_pairs(FOUND, TRUTH) == [
        ("A/1", "a", 2),
        ("B/1", "x", 2),
        ("A/2", "a", 1),
        ("B/1", "y", 1),
        ("B/2", "y", 1),
    ]
