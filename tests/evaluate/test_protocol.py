import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import matching

from newfound.errors import UserError
from newfound.evaluate.protocol import evaluate_mixed, evaluate_test, evaluate_unlabelled, protocols


def outputs(predicted, among, second=None):
    """Logits whose largest is ``predicted``; where given, ``second`` comes next."""
    logits = np.zeros((len(predicted), among))
    if second is not None:
        logits[np.arange(len(predicted)), second] = 1
    logits[np.arange(len(predicted)), predicted] = 2
    return logits


def test_a_worked_example_by_hand():
    # Two base classes (0, 1), two novel ones (2, 3), three novel outputs (2, 3, 4).
    truth = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    best = np.array([1, 1, 0, 0, 0, 2, 3, 3, 0, 2, 2, 4])
    second = np.array([0, 0, 4, 1, 3, 1, 4, 2, 3, 3, 1, 2])
    train_predicted = np.array([2, 2, 3, 3, 4, 4, 2])
    train_truth = np.array([2, 2, 3, 3, 3, 2, 1])
    found = protocols(outputs(best, 5, second), truth, 2, train_predicted, train_truth)
    # Each its own matching. Old: 1 -> class 0 (2), 0 -> class 1 (2). New: 3 -> 2 (2), 2 -> 3 (2).
    # All: 1 -> 0 (2), 0 -> 1 (2), 3 -> 2 (2), 2 -> 3 (2).
    assert found["paper"] == pytest.approx({"old": 4 / 6, "new": 4 / 6, "all": 8 / 12})
    assert found["single"] == pytest.approx({"old": 4 / 6, "new": 4 / 6, "all": 8 / 12})
    # Base outputs mean themselves: old has one right (0). On training images 2 -> 2 and 3 -> 3, so output 2 means
    # class 2, output 3 class 3, output 4 nothing: no new image is right.
    assert found["strict"] == pytest.approx({"old": 1 / 6, "new": 0.0, "all": 1 / 12})
    # Old among base outputs: 1, 1, 0 | 0, 0, 1 -> 2 right. New among novel: 3, 3, 3 | 2, 2, 4 -> 5 right.
    assert found["task-aware"] == pytest.approx({"old": 2 / 6, "new": 5 / 6, "all": 7 / 12})


def test_the_paper_may_use_an_output_twice_where_one_matching_may_not():
    # Output 0 holds the old class and half of the new one; output 1 is never the largest.
    truth = np.array([0, 0, 0, 1, 1])
    found = protocols(outputs([0, 0, 0, 0, 0], 2), truth, 1, np.array([1]), np.array([1]))
    assert found["paper"] == {"old": 1.0, "new": 1.0, "all": 0.6}
    assert found["single"] == {"old": 1.0, "new": 0.0, "all": 0.6}
    assert found["strict"] == {"old": 1.0, "new": 0.0, "all": 0.6}
    assert found["task-aware"] == {"old": 1.0, "new": 1.0, "all": 1.0}


def test_a_perfect_classifier_is_perfect_in_every_protocol_whatever_its_novel_outputs_are_called():
    truth = np.array([0, 1, 2, 3, 4, 4])
    novel = {2: 4, 3: 2, 4: 3}
    logits = outputs([novel.get(t, t) for t in truth], 5)
    found = protocols(logits, truth, 2, np.array([4, 4, 2, 3]), np.array([2, 2, 3, 4]))
    assert all(figures == {"old": 1, "new": 1, "all": 1} for figures in found.values())


def test_training_images_of_known_classes_have_no_say_in_what_novel_outputs_mean():
    truth = np.array([0, 1, 1])
    train_predicted, train_truth = np.array([1, 1, 1, 1, 2]), np.array([0, 0, 0, 1, 0])
    found = protocols(outputs([0, 1, 2], 3), truth, 1, train_predicted, train_truth)
    assert found["strict"] == {"old": 1.0, "new": 0.5, "all": pytest.approx(2 / 3)}


def test_training_images_in_a_known_category_have_no_say_in_what_novel_outputs_mean():
    truth = np.array([0, 1, 1])
    train_predicted, train_truth = np.array([0, 0, 0, 1]), np.array([1, 1, 1, 1])
    found = protocols(outputs([0, 1, 0], 2), truth, 1, train_predicted, train_truth)
    assert found["strict"] == {"old": 1.0, "new": 0.5, "all": pytest.approx(2 / 3)}


def test_without_novel_training_images_no_novel_output_means_anything():
    none = np.array([], dtype=int)
    found = protocols(outputs([0, 1], 2), np.array([0, 1]), 1, none, none)
    assert found["strict"] == {"old": 1.0, "new": 0.0, "all": 0.5}


@pytest.mark.parametrize(("truth", "empty"), [([0, 1, 1], "new"), ([2, 3, 3], "old")])
def test_a_figure_without_images_is_none(truth, empty):
    found = protocols(outputs([0, 2, 3], 4), np.array(truth), 2, np.array([2]), np.array([2]))
    for figures in found.values():
        assert figures[empty] is None
        assert {name for name, value in figures.items() if value is None} == {empty}


@st.composite
def situations(draw):
    n_base, n_outputs, n_novel = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    n, m = draw(st.integers(1, 20)), draw(st.integers(0, 20))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return (
        rng.normal(size=(n, n_base + n_outputs)),
        rng.integers(0, n_base + n_novel, n),
        n_base,
        n_base + rng.integers(0, n_outputs, m),
        rng.integers(0, n_base + n_novel, m),
    )


@given(situations())
@settings(max_examples=100, deadline=None)
def test_stricter_protocols_never_give_more(situation):
    found = protocols(*situation)
    for name in ("old", "new", "all"):
        if found["paper"][name] is not None:
            assert found["paper"][name] >= found["single"][name]
            assert found["paper"][name] >= found["strict"][name]
    assert found["single"]["all"] == found["paper"]["all"]
    assert found["single"]["all"] >= found["strict"]["all"]
    if found["task-aware"]["old"] is not None:
        assert found["task-aware"]["old"] >= found["strict"]["old"]


@given(situations())
@settings(max_examples=100, deadline=None)
def test_all_is_the_mean_over_images_of_old_and_new_where_one_mapping_serves_both(situation):
    _, truth, n_base, _, _ = situation
    found = protocols(*situation)
    old = int((truth < n_base).sum())
    for name in ("single", "strict", "task-aware"):
        figures = found[name]
        right = old * (figures["old"] or 0) + (len(truth) - old) * (figures["new"] or 0)
        assert figures["all"] == pytest.approx(right / len(truth))


@given(situations())
@settings(max_examples=100, deadline=None)
def test_figures_agree_with_trying_every_mapping(situation):
    logits, truth, n_base, _, _ = situation
    found = protocols(*situation)
    predicted = logits.argmax(1)
    new = truth >= n_base
    for name, chosen in {"old": ~new, "new": new, "all": np.full(len(truth), True)}.items():
        if chosen.any():
            expected = matching.accuracy(predicted[chosen].tolist(), truth[chosen].tolist())
            assert found["paper"][name] == pytest.approx(expected)
    if new.any():
        among_novel = logits[new, n_base:].argmax(1)
        expected = matching.accuracy(among_novel.tolist(), truth[new].tolist())
        assert found["task-aware"]["new"] == pytest.approx(expected)


def test_unlabelled_images_are_evaluated_by_name_and_those_without_truth_left_out():
    found = evaluate_unlabelled(
        ["new-1", "new-1", "new-2", "new-2", "new-1", "new-9"], ["cat", "cat", "dog", "cat", "cat", None]
    )
    assert found["accuracy"] == pytest.approx(4 / 5)
    assert (found["images"], found["classes"]) == (5, 2)
    assert set(found) == {"accuracy", "nmi", "ari", "images", "classes"}


def test_no_truth_at_all_is_said():
    with pytest.raises(UserError, match="none of the 2 unlabelled images has a true category"):
        evaluate_unlabelled(["a", "b"], [None, None])
    with pytest.raises(UserError, match="none of the 1 test images has a true category"):
        evaluate_test(np.zeros((1, 2)), ["cat"], 1, [None], np.array([0]), ["dog"])


def test_test_images_are_evaluated_by_name():
    classes = ["zebra", "ant"]  # base outputs keep their places, whatever the alphabet says
    truth = ["zebra", None, "ant", "bee", "yak", "yak"]
    logits = outputs([0, 0, 1, 3, 2, 1], 4)
    found = evaluate_test(logits, classes, 2, truth, np.array([2, 2, 3, 3, 3]), ["yak", "yak", "bee", None, "ant"])
    assert found["strict"] == {"old": 1.0, "new": pytest.approx(2 / 3), "all": 0.8}
    assert found == protocols(
        logits[[0, 2, 3, 4, 5]],
        np.array([0, 1, 2, 3, 3]),
        2,
        np.array([2, 2, 3, 3]),
        np.array([3, 3, 2, 1]),
    )


def test_logits_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"need logits of shape \(1, 3\), got \(1, 2\)"):
        evaluate_test(np.zeros((1, 2)), ["cat"], 2, ["cat"], np.array([0]), ["dog"])


def test_a_mixed_pile_has_one_matching_over_known_and_novel_categories():
    truth = ["cat", "cat", "cat", "dog", "dog", "x", "x", "y", "y", None]
    found = ["cat", "cat", "novel-1", "dog", "cat", "novel-1", "novel-1", "novel-2", "dog", "cat"]
    # cat means cat, dog dog, novel-1 x, novel-2 y.
    expected = {"old": 3 / 5, "new": 3 / 4, "all": 6 / 9}
    assert evaluate_mixed(found, truth, ("cat", "dog")) == pytest.approx(expected)
    swapped = [{"cat": "dog", "dog": "cat"}.get(name, name) for name in found]
    assert evaluate_mixed(swapped, truth, ("cat", "dog")) == pytest.approx(expected)
    assert evaluate_mixed(["cat"], ["cat"], ("cat",))["new"] is None
