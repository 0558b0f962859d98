"""What each gauge measures, and from which value on a warning is due."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_trust import situation, told

from newfound.cluster.kmeans import kmeans
from newfound.evaluate.accuracy import clustering_accuracy
from newfound.methods.apl_features import FeatureAPL
from newfound.trust import gauges as module
from newfound.trust.gauges import gauge, least_parted
from newfound.trust.warnings import doubts


def warned(gauges, **how):
    """What warnings are about, where gauges show these values."""
    collection, outcome = situation(**{"apart": 3} | how)
    return set(doubts(collection, outcome, gauges))


def measured(collection, outcome):
    """The gauges of the method on frozen features."""
    return gauge(collection, outcome, FeatureAPL(FeatureAPL.Settings()), seed=0)


# Bars


@pytest.mark.parametrize(("gauge", "bar"), [("stability", 0.7), ("rehearsal", 0.7), ("parted", 0.65)])
def test_a_gauge_below_its_bar_is_told_and_one_at_it_is_not(gauge, bar):
    assert warned({gauge: bar - 0.01}) == {gauge}
    assert warned({gauge: bar}) == set()
    assert warned({}) == set()


def test_fewer_than_ten_images_a_category_are_few():
    assert warned({}, sizes=[7, 11, 10, 11]) == {"few"}
    assert warned({}, sizes=[7, 11, 11, 11]) == set()


@pytest.mark.parametrize(("each", "told_of"), [(4, {"few known"}), (5, set())])
def test_known_categories_of_fewer_than_five_images_are_few_where_labels_teach(each, told_of):
    assert told(apart=3, each=each, sizes=[15] * 4, learns=True)[1].keys() - {"stability"} == told_of


def test_up_to_two_images_are_strays():
    assert "strays" not in told(apart=3, sizes=[20, 20, 20, 3])[1]
    one, two = (told(apart=3, sizes=sizes)[1]["strays"] for sizes in ([20, 20, 20, 2], [30, 30, 1, 2]))
    assert one == "1 category has 2 images or fewer: strays rather than a category"
    assert two == "2 categories have 2 images or fewer: strays rather than a category"


def test_empty_categories_are_called_so():
    assert "empty" not in told(apart=3, sizes=[20, 20, 20, 1])[1]
    one, two = (told(apart=3, sizes=sizes)[1] for sizes in ([20, 20, 20, 0], [30, 30, 0, 0]))
    assert one["empty"].startswith("1 novel category is empty: ")
    assert two["empty"].startswith("2 novel categories are empty: ")
    assert "strays" not in one


def test_more_than_half_of_the_pile_is_a_large_category_where_there_are_three_or_more():
    def largest(sizes):
        return told(apart=3, novel=len(sizes), sizes=sizes, learns=True)[1].get("largest")

    assert largest([15, 31, 15]).startswith("novel-1 has 51% of the pile")
    assert largest([15, 30, 15]) is None
    assert largest([15, 45]) is None


# Stability


def compared(monkeypatch, **how):
    """How many images of the pile a second clustering had, and the gauges."""
    counts, real = [], module.adjusted_rand_score
    monkeypatch.setattr(module, "adjusted_rand_score", lambda a, b: counts.append((len(a), len(b))) or real(a, b))
    gauges, _ = told(**{"apart": 3} | how)
    return counts, gauges


def test_stability_compares_with_a_clustering_of_four_fifths_of_the_pile(monkeypatch):
    assert compared(monkeypatch)[0] == [(48, 48)]
    monkeypatch.setattr(module, "MAX_IMAGES", 30)
    assert compared(monkeypatch)[0] == [(30, 30)]
    assert compared(monkeypatch, sizes=[2, 2, 2, 2])[0] == [(6, 6)]
    assert compared(monkeypatch, novel=8, sizes=[2] * 8)[0] == [(12, 12)]


def test_stability_needs_two_categories_and_two_images_for_each():
    assert "stability" not in told(apart=3, novel=1)[0]
    assert "stability" in told(apart=3, novel=2)[0]
    assert "stability" in told(apart=3, sizes=[3, 2, 2, 1])[0]
    assert "stability" not in told(apart=3, sizes=[2, 2, 2, 1])[0]


def test_gauges_look_at_features_from_before_self_training():
    collection, outcome = situation(apart=3)
    noise = torch.randn(outcome.features.shape, generator=torch.Generator().manual_seed(0))
    mixed = replace(outcome, features=noise, features_before_stage2=outcome.features)
    assert least_parted(collection, mixed) == least_parted(collection, outcome)
    assert least_parted(collection, replace(outcome, features_before_stage2=noise))[0] < 0.7
    assert least_parted(collection, replace(outcome, features=None)) is None


# How far categories are parted


def by_hand(features, found, most=40, least=5):
    """The smallest share of own neighbours over categories and their nearest ones, and which two these are."""
    unit = [f / np.linalg.norm(f) for f in features]
    members = {c: [u for u, own in zip(unit, found, strict=True) if own == c][:most] for c in sorted(set(found))}
    members = {c: some for c, some in members.items() if len(some) >= least}
    means = {c: np.mean(some, axis=0) for c, some in members.items()}
    means = {c: mean / np.linalg.norm(mean) for c, mean in means.items()}
    shares = []
    for c in members:
        nearest = max((o for o in members if o != c), key=lambda o: means[c] @ means[o])
        n = min(len(members[c]), len(members[nearest]))
        both = [*members[c][:n], *members[nearest][:n]]
        own = []
        for i, one in enumerate(both):
            order = sorted((j for j in range(2 * n) if j != i), key=lambda j: -(one @ both[j]))[: n - 1]
            own += [(j < n) == (i < n) for j in order]
        shares.append((float(np.mean(own)), *sorted((c, nearest))))
    return min(shares)


@pytest.mark.parametrize("sizes", [[9, 14, 6, 11], [45, 50, 60, 48], [5, 4, 5, 12], [41, 8, 30, 3]])
@pytest.mark.parametrize("apart", [0.3, 0.7])
def test_parted_is_the_least_share_of_own_neighbours_among_a_category_and_the_nearest_one(sizes, apart):
    collection, outcome = situation(apart=apart, sizes=sizes)
    lengths = torch.rand(len(outcome.features), 1, generator=torch.Generator().manual_seed(0)) ** 3 + 0.01
    outcome = replace(outcome, features=outcome.features * lengths)
    pile = outcome.features[collection.n_labelled :].double().numpy()
    share, one, other = by_hand(pile, outcome.assignments)
    assert least_parted(collection, outcome) == (pytest.approx(share, abs=1e-6), one, other)
    gauges, _ = told(apart=apart, sizes=sizes)
    assert 0.3 < gauges["parted"] <= 1


# Rehearsal


def test_a_rehearsal_clusters_half_of_the_known_categories_or_as_many_as_are_looked_for(monkeypatch):
    calls, real = [], FeatureAPL.regroup

    def keep(method, features, labels, k, seed):
        calls.append((len(features), len(labels), len(labels.unique()), k))
        return real(method, features, labels, k, seed)

    monkeypatch.setattr(FeatureAPL, "regroup", keep)
    told(apart=3, known=6, novel=2, each=15)
    told(apart=3, known=6, novel=5, each=15)
    assert calls == [(90, 60, 4, 2)] * 2 + [(90, 45, 3, 3)] * 2
    monkeypatch.setattr(module, "MAX_IMAGES", 50)
    del calls[:]
    told(apart=3, known=4, novel=4, each=30)
    assert [(images, known, hidden) for images, _, known, hidden in calls] == [(50, 2, 2)] * 2


def test_a_rehearsal_is_the_mean_of_its_draws(monkeypatch):
    shares = iter([0.25, 0.75])
    monkeypatch.setattr(module, "clustering_accuracy", lambda found, truth: next(shares))
    assert told(apart=3)[0]["rehearsal"] == 0.5


def test_a_rehearsal_ignores_what_varies_within_known_categories():
    collection, outcome = situation(apart=1.2, known=8, each=30)
    features = outcome.features.clone()
    features[:, :2] += 5 * torch.randn(len(features), 2, generator=torch.Generator().manual_seed(0))
    first = collection.n_labelled
    plain = kmeans(features[first:], 4, starts=5, seed=0).labels.numpy()
    assert clustering_accuracy(plain, outcome.assignments) < 0.7
    assert measured(collection, replace(outcome, features=features, backbone_features=features))["rehearsal"] > 0.85


def test_a_rehearsal_needs_two_categories_to_hide_and_some_to_learn_from():
    assert "rehearsal" not in told(apart=3, known=3)[0]
    assert "rehearsal" not in told(apart=3, novel=1)[0]
    assert "rehearsal" in told(apart=3, known=4, novel=2)[0]
