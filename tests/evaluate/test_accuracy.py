import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import information, matching
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from newfound.evaluate.accuracy import clustering_accuracy, clustering_figures, contingency, match


@st.composite
def labellings(draw, clusters=6, classes=6, most=30):
    n = draw(st.integers(1, most))
    predicted = st.lists(st.integers(0, draw(st.integers(1, clusters)) - 1), min_size=n, max_size=n)
    truth = st.lists(st.integers(0, draw(st.integers(1, classes)) - 1), min_size=n, max_size=n)
    return draw(predicted), draw(truth)


@given(labellings())
@settings(max_examples=100, deadline=None)
def test_accuracy_is_the_best_over_all_mappings(labels):
    predicted, truth = labels
    assert clustering_accuracy(predicted, truth) == matching.accuracy(predicted, truth)


@given(labellings())
@settings(max_examples=100, deadline=None)
def test_the_matching_is_one_to_one_and_reaches_the_accuracy(labels):
    predicted, truth = labels
    meaning = match(predicted, truth)
    assert set(meaning) <= set(predicted)
    assert set(meaning.values()) <= set(truth)
    assert len(set(meaning.values())) == len(meaning)
    right = sum(meaning.get(p) == t for p, t in zip(predicted, truth, strict=True))
    assert right == matching.best_matching(predicted, truth)


@given(labellings(clusters=9, classes=9), st.permutations(range(-4, 5)), st.permutations(range(100, 1000, 100)))
@settings(max_examples=100, deadline=None)
def test_figures_do_not_depend_on_what_clusters_and_classes_are_called(labels, clusters, classes):
    predicted, truth = labels
    renamed = clustering_figures([clusters[p] for p in predicted], [classes[t] for t in truth])
    assert renamed == pytest.approx(clustering_figures(predicted, truth), abs=1e-9)


@given(labellings(clusters=9, classes=9))
@settings(max_examples=100, deadline=None)
def test_figures_stay_within_their_bounds(labels):
    predicted, truth = labels
    figures = clustering_figures(predicted, truth)
    groups = max(len(set(predicted)), len(set(truth)))
    assert 1 / groups <= figures["accuracy"] <= 1
    assert -1e-9 <= figures["nmi"] <= 1 + 1e-9
    assert -0.5 - 1e-9 <= figures["ari"] <= 1 + 1e-9
    assert (figures["accuracy"] == 1) == (figures["ari"] == pytest.approx(1))


@given(labellings())
@settings(max_examples=100, deadline=None)
def test_nmi_and_ari_follow_their_definitions(labels):
    predicted, truth = labels
    figures = clustering_figures(predicted, truth)
    assert figures["nmi"] == pytest.approx(information.nmi(predicted, truth), abs=1e-9)
    assert figures["ari"] == pytest.approx(information.ari(predicted, truth), abs=1e-9)
    assert figures["nmi"] == pytest.approx(normalized_mutual_info_score(truth, predicted), abs=1e-9)
    assert figures["ari"] == pytest.approx(adjusted_rand_score(truth, predicted), abs=1e-9)


def test_a_worked_example():
    truth = [0, 0, 0, 1, 1, 1, 2, 2, 2, 2]
    predicted = [7, 7, 5, 5, 5, 5, 7, 9, 9, 9]
    assert match(predicted, truth) == {7: 0, 5: 1, 9: 2}
    assert clustering_accuracy(predicted, truth) == 0.8


def test_the_best_mapping_is_not_the_greedy_one():
    # Cluster 0 holds most of class 0, yet the best total gives it class 1.
    predicted = [0] * 5 + [0] * 4 + [1] * 4
    truth = [0] * 5 + [1] * 4 + [0] * 4
    assert match(predicted, truth) == {0: 1, 1: 0}
    assert clustering_accuracy(predicted, truth) == 8 / 13


def test_a_cluster_that_shares_no_image_with_the_class_left_over_has_no_class():
    assert match([0, 0, 0, 1, 0], [4, 4, 4, 4, 8]) == {0: 4}


def test_spare_clusters_are_wrong():
    assert clustering_accuracy([0, 1, 2, 3], [5, 5, 6, 6]) == 0.5
    assert clustering_accuracy([5, 5, 6, 6], [0, 1, 2, 3]) == 0.5


def test_the_contingency_table_counts_images():
    table = contingency([0, 0, 2, 2, 2], [1, 1, 0, 0, 1], 3, 4)
    np.testing.assert_array_equal(table, [[0, 2, 0, 0], [0, 0, 0, 0], [2, 1, 0, 0]])
    assert np.issubdtype(table.dtype, np.integer)


@pytest.mark.parametrize(
    ("predicted", "truth"), [([0, 3], [0, 0]), ([0, -1], [0, 0]), ([0, 0], [0, 4]), ([0, 0], [0, -1])]
)
def test_labels_outside_the_table_are_refused(predicted, truth):
    with pytest.raises(ValueError, match="clusters must be in 0 to 2 and classes in 0 to 3"):
        contingency(predicted, truth, 3, 4)


@pytest.mark.parametrize("figure", [clustering_accuracy, clustering_figures, match])
def test_nothing_to_compare_is_refused(figure):
    with pytest.raises(ValueError, match="there is no image"):
        figure([], [])
    with pytest.raises(ValueError, match="a cluster and a class for each image"):
        figure([1, 2], [1, 2, 3])


def test_many_classes_of_few_images_give_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clustering_figures(range(50), range(50)) == pytest.approx({"accuracy": 1, "nmi": 1, "ari": 1})
