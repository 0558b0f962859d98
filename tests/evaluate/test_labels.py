"""The evaluation takes labels as people have them."""

import inspect
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from newfound import UserError, evaluate
from newfound.evaluate import (
    clustering_accuracy,
    clustering_figures,
    evaluate_mixed,
    evaluate_unlabelled,
    match,
    paper,
    protocols,
    single,
    strict,
    task_aware,
    vote,
)
from newfound.evaluate.protocol import evaluate_test

# Known are cat and dog, 0 and 1; "group" 2 is the yak, 3 the bee.
NAMES = ["cat", "dog", "bee", "yak"]
TRUTH = [0, 0, 1, 1, 2, 2, 3, 3, 3]
FOUND = [0, 2, 1, 1, 3, 3, 2, 2, 0]
CALLED = ["cat", "dog", "novel-1", "novel-2"]

KINDS = {
    "lists": lambda numbers: numbers,
    "tuples": tuple,
    "arrays": np.array,
    "small arrays": lambda numbers: np.array(numbers, dtype=np.uint8),
    "whole floats": lambda numbers: np.array(numbers, dtype=np.float32),
    "tensors": torch.tensor,
    "half tensors": lambda numbers: torch.tensor(numbers, dtype=torch.bfloat16),
    "columns": pd.Series,
    "columns with room for NA": lambda numbers: pd.Series(numbers, dtype="Int64"),
    "columns of objects": lambda numbers: pd.Series([float(number) for number in numbers], dtype=object),
}


def names(numbers, of=NAMES):
    return [of[number] for number in numbers]


def outputs(predicted, among=4):
    """Logits whose largest is ``predicted``, and no two of which are alike."""
    return np.eye(among)[predicted] + 0.1 * np.random.default_rng(0).random((len(predicted), among))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_whole_numbers_may_come_in_any_kind(kind):
    found, truth = kind(FOUND), kind(TRUTH)
    assert match(found, truth) == {0: 0, 1: 1, 2: 3, 3: 2}
    assert clustering_accuracy(found, truth) == clustering_figures(found, truth)["accuracy"] == 7 / 9
    assert evaluate_unlabelled(found, truth)["classes"] == 4
    expected = {"old": 3 / 4, "new": 4 / 5, "all": 7 / 9}
    for known in (2, np.int64(2), kind([0, 1]), kind([1, 0])):
        assert single(found, truth, known) == evaluate_mixed(found, truth, known) == pytest.approx(expected)
        assert paper(found, truth, known) == pytest.approx(expected)
        assert strict(found, truth, known, kind([2, 3, 3, 0]), kind([3, 2, 2, 2])) == pytest.approx(expected)


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, lambda of: np.array(of, dtype=object)])
def test_names_may_come_in_any_kind(kind):
    found, truth, known = kind(names(FOUND, CALLED)), kind(names(TRUTH)), kind(["cat", "dog"])
    assert match(found, truth) == {"cat": "cat", "dog": "dog", "novel-1": "yak", "novel-2": "bee"}
    assert evaluate_unlabelled(found, truth)["accuracy"] == clustering_accuracy(found, truth) == 7 / 9
    expected = {"old": 3 / 4, "new": 4 / 5, "all": 7 / 9}
    assert single(found, truth, known) == evaluate_mixed(found, truth, known) == pytest.approx(expected)
    assert paper(found, truth, known) == pytest.approx(expected)
    trained = kind(["novel-1", "novel-2"]), kind(["yak", "bee"])
    assert strict(found, truth, known, *trained) == pytest.approx(expected)


def test_groups_may_be_numbers_where_classes_have_names():
    assert match(FOUND, names(TRUTH)) == {0: "cat", 1: "dog", 2: "yak", 3: "bee"}
    assert single(FOUND, names(TRUTH), ["cat", "dog"]) == single(FOUND, TRUTH, 2)


@pytest.mark.parametrize(
    "kind", [iter, lambda labels: (label for label in labels), lambda of: dict(enumerate(of)).values()]
)
def test_labels_that_can_be_gone_through_once_are_taken(kind):
    assert match(kind(FOUND), kind(names(TRUTH))) == match(FOUND, names(TRUTH))
    assert evaluate_unlabelled(kind(FOUND), kind(TRUTH)) == evaluate_unlabelled(FOUND, TRUTH)
    called = names(FOUND, CALLED), names(TRUTH), ["cat", "dog"], ["novel-1", "novel-2"], ["yak", "bee"]
    for judge in (paper, single, evaluate_mixed):
        assert judge(*map(kind, called[:3])) == judge(*called[:3])
    assert strict(*map(kind, called)) == strict(*called)
    of_logits = names(TRUTH), ["cat", "dog"], [2, 3], ["yak", "bee"]
    assert task_aware(outputs(FOUND), *map(kind, of_logits[:2])) == task_aware(outputs(FOUND), *of_logits[:2])
    assert protocols(outputs(FOUND), *map(kind, of_logits)) == protocols(outputs(FOUND), *of_logits)


def as_objects(logits):
    return np.array(logits, dtype=object)


@pytest.mark.parametrize(
    "kind", [np.array, torch.tensor, lambda x: torch.tensor(x, requires_grad=True), pd.DataFrame, as_objects]
)
def test_protocols_take_known_classes_by_name_in_the_order_of_the_columns(kind):
    logits = kind(outputs(FOUND)[:, [1, 0, 2, 3]])
    by_name = protocols(logits, names(TRUTH), ["dog", "cat"], [2, 3], ["yak", "bee"])
    assert by_name == protocols(outputs(FOUND), TRUTH, 2, [2, 3], [3, 2])
    assert by_name["task-aware"] == task_aware(logits, names(TRUTH), ["dog", "cat"])
    assert by_name["strict"] == pytest.approx({"old": 3 / 4, "new": 4 / 5, "all": 7 / 9})


def test_logits_of_half_precision_are_taken():
    logits = torch.tensor(outputs(FOUND))
    for dtype in (torch.bfloat16, torch.float16):
        assert protocols(logits.to(dtype), TRUTH, 2) == protocols(logits, TRUTH, 2)


def test_logits_of_double_precision_are_not_rounded():
    assert task_aware(torch.tensor([[1.0, 1.0 + 1e-12]], dtype=torch.float64), [1], 2)["all"] == 1.0


def test_an_output_may_be_shut_out_by_an_infinite_logit():
    assert task_aware([[-np.inf, 0.0]], [1], 2)["all"] == 1.0


def test_without_predictions_on_training_images_there_is_no_strict():
    whole = protocols(outputs(FOUND), TRUTH, 2, [2, 3], [3, 2])
    assert list(whole) == ["paper", "single", "strict", "task-aware"]
    del whole["strict"]
    assert protocols(outputs(FOUND), TRUTH, 2) == whole


def test_known_classes_need_not_be_the_first_numbers():
    moved = [10 * label + 7 for label in TRUTH]
    assert single(FOUND, moved, [17, 7]) == single(FOUND, TRUTH, 2)
    assert protocols(outputs(FOUND), moved, [7, 17]) == protocols(outputs(FOUND), TRUTH, 2)


def test_which_of_two_equally_good_matchings_is_taken_does_not_depend_on_names():
    figures = [single(["x", "x"], [known, "m"], [known]) for known in ("a", "z")]
    assert figures[0] == figures[1] == {"old": 1.0, "new": 0.0, "all": 0.5}


@pytest.mark.parametrize("nothing", [None, float("nan"), np.nan, pd.NA, pd.NaT])
def test_images_without_truth_are_left_out(nothing):
    found, truth = [*names(FOUND, CALLED), "novel-1"], [*names(TRUTH), nothing]
    assert evaluate_unlabelled(found, truth)["images"] == 9
    assert evaluate_mixed(found, pd.Series(truth), ["cat", "dog"]) == single(FOUND, TRUTH, 2)
    for evaluated in (lambda *two: evaluate_mixed(*two, ["b"]), evaluate_unlabelled):
        with pytest.raises(UserError, match="none of the 1 unlabelled images has a true category"):
            evaluated(["a"], [nothing])


def test_columns_of_tables_may_hold_na():
    numbers = pd.Series([*TRUTH, None], dtype="Int64")
    assert evaluate_unlabelled([*FOUND, 0], numbers) == evaluate_unlabelled(FOUND, TRUTH)
    assert evaluate_mixed([*FOUND, 0], numbers, 2) == single(FOUND, TRUTH, 2)
    called = pd.Series([*names(TRUTH), None], dtype="string")
    assert evaluate_unlabelled([*FOUND, 0], called) == evaluate_unlabelled(FOUND, TRUTH)
    assert evaluate_test(outputs([*FOUND, 0]), ["cat", "dog"], 2, called, np.array([2, 3]), ["bee", pd.NA]) == (
        protocols(outputs(FOUND), names(TRUTH), ["cat", "dog"], [2], ["bee"])
    )


EMPTY = {
    "clustering_accuracy": lambda: clustering_accuracy([], []),
    "clustering_figures": lambda: clustering_figures([], []),
    "match": lambda: match(np.array([]), torch.tensor([])),
    "paper": lambda: paper([], [], 2),
    "single": lambda: single([], [], ["a"]),
    "strict": lambda: strict([], [], 2, [2], [2]),
    "task_aware": lambda: task_aware(np.zeros((0, 3)), [], 2),
    "protocols": lambda: protocols(np.zeros((0, 3)), [], 2, [2], [2]),
    "evaluate_unlabelled": lambda: evaluate_unlabelled([], []),
    "evaluate_mixed": lambda: evaluate_mixed([], [], 2),
}


@pytest.mark.parametrize("judge", EMPTY)
def test_nothing_at_all_is_refused_alike_everywhere(judge):
    with pytest.raises(UserError, match="there is no image to evaluate: the labels are empty"):
        EMPTY[judge]()


def test_the_largest_whole_numbers_stay_as_they_are():
    ends = [2**63 - 1, -(2**63)]
    assert match(ends, [0, 1]) == {2**63 - 1: 0, -(2**63): 1}
    assert match(np.array(ends[:1], dtype=np.uint64), [0]) == {2**63 - 1: 0}


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_the_vote_takes_arrays(dtype):
    features = np.random.default_rng(0).normal(size=(30, 4))
    labels = (np.arange(30) % 3).astype(dtype)
    expected = vote(torch.tensor(features), torch.arange(30) % 3, torch.tensor(features[:5]), 3)
    assert torch.equal(vote(features, labels, features[:5], 3), expected)


REFUSED = {
    "truth: labels are all whole numbers or all strings, and both are there": lambda: match([0, 1], [0, "a"]),
    "truth: labels are all whole numbers or all strings, and one is None": lambda: single([0, 1], [0, None], 1),
    "predicted: .* one is nan": lambda: clustering_accuracy([0.0, float("nan")], [0, 1]),
    "predicted: .* one is 0.5": lambda: match([0.5, 1], [0, 1]),
    r"predicted: expected .* of one dimension, got the shape \(9, 4\)": lambda: single(outputs(FOUND), TRUTH, 2),
    "known: expected a list or an array of labels, of one dimension, got a str": lambda: paper(["a"], ["a"], "a"),
    "known: expected a list or an array of labels, of one dimension, got a set": lambda: paper(["a"], ["a"], {"a"}),
    "a cluster and a class for each image, got 2 in predicted and 3 in truth": lambda: paper([0, 1], [0, 1, 2], 1),
    "got 1 in train_predicted and 2 in train_truth": lambda: strict([0], [0], 1, [1], [1, 1]),
    "a predicted and a true label for each image, got 1 and 2": lambda: evaluate_unlabelled(["a"], ["a", None]),
    "known is 1, and true classes have names": lambda: single(["a"], ["a"], 1),
    "true classes count from 0, and some are below": lambda: single([0, 1], [0, -1], 1),
    "known classes, such as 'a', and true ones are all whole numbers or all strings": lambda: single([0], [0], ["a"]),
    "known: a class comes twice": lambda: single(["a"], ["a"], ["a", "a"]),
    "known categories are called as their classes, such as 'a'": lambda: strict([0], ["a"], ["a"], [], []),
    r"1 images and 2 known classes need logits of shape \(1, 3 or more\)": lambda: task_aware([[1, 0]], [2], 2),
    r"need logits of shape \(2, 1 or more\), got \(1, 2\)": lambda: protocols([[1, 0]], [0, 0], 1),
    r"need logits of shape .* got \(1,\)": lambda: protocols([1], [0], 1),
    "strict needs train_predicted and train_truth: give both or none": lambda: protocols([[1, 0]], [0], 1, [1]),
    "predicted: a number lies beyond": lambda: match([2**63], [0]),
    "truth: a number lies beyond": lambda: match([0], [2**70]),
    "predicted: a number lies beyond -2.*: give such labels as strings": lambda: match([1e300], [0]),
    "train_truth: a number lies beyond": lambda: strict([0], [0], 1, [1], [-(2**63) - 1]),
    "known: a number lies beyond": lambda: single([0], [0], [10**5000]),
    "known is -1: give the number of known classes, 0 or more": lambda: paper([0], [0], -1),
    "logits: row 1 .* has a NaN": lambda: task_aware([[1, 0], [1, float("nan")]], [0, 0], 2),
    "logits: row 0 .* has a NaN": lambda: protocols(torch.tensor([[float("nan"), 0]]), [0], 2),
    "logits are numbers, and these are of the type <U1": lambda: task_aware([["a", "b"]], [0], 2),
    "logits are numbers, and not all of these are": lambda: task_aware(as_objects([[1, pd.NA]]), [0], 2),
    "logits: .* inhomogeneous": lambda: task_aware([[1, 2], [1]], [0, 0], 2),
    "truth: .* inhomogeneous": lambda: match([0, 1], [[0], [0, 1]]),
    "truth: labels are .* one is <NA>; leave out": lambda: single([0], pd.Series([None], dtype="Int64"), 1),
    "predicted: expected a list .* got a str": lambda: evaluate_unlabelled("ab", ["a", "b"]),
    "truth: expected a list .* got a set": lambda: evaluate_mixed(["a"], {"a"}, ["a"]),
}  # fmt: skip


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_cannot_be_compared_is_a_sentence(sentence):
    with pytest.raises(UserError, match=sentence):
        REFUSED[sentence]()


def test_what_is_public_says_what_it_does():
    assert [name for name in evaluate.__all__ if not inspect.getdoc(getattr(evaluate, name))] == []


def test_the_functions_are_there_after_the_package_is_imported():
    code = "import newfound; print(newfound.evaluate.clustering_accuracy([0, 1], ['b', 'a']), newfound.losses.sinkhorn)"
    printed = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert printed.startswith("1.0 <function sinkhorn at")
