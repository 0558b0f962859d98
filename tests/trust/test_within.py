"""Known categories in a pile that is taken for novel: what says so, and when it is told."""

import dataclasses

import numpy as np
import pytest
import torch
from test_trust import situation

from newfound.data.collection import novel_tasks
from newfound.methods.apl_features import FeatureAPL
from newfound.trust.gauges import gauge
from newfound.trust.rehearsal import rehearse
from newfound.trust.warnings import WITHIN, WITHIN_LEARNED, doubts
from newfound.trust.within import share_within


def hiding(share, *, apart=3, learns=False):
    """A situation in whose pile that share of the images is of known categories."""
    collection, outcome = situation(apart=apart, each=30)
    rng = np.random.default_rng(1)
    features, first = outcome.features.clone(), collection.n_labelled
    n = round(share * collection.n_unlabelled)
    places = first + rng.permutation(collection.n_unlabelled)[:n]
    noise = torch.from_numpy(rng.normal(size=(n, 16))).float()
    means = torch.stack([features[:first][collection.labels[:first] == c].mean(0) for c in range(8)])
    features[places] = means[rng.integers(0, 8, n)] + noise
    return collection, dataclasses.replace(outcome, features=features, backbone_features=None if learns else features)


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("share", [0, 0.1, 0.3, 0.6])
def test_the_gauge_is_about_the_share_of_known_images_in_the_pile(share, learns):
    assert share_within(*hiding(share, learns=learns), seed=0) == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize(("learns", "bar"), [(False, WITHIN), (True, WITHIN_LEARNED)])
def test_it_is_told_from_the_bar_on_and_names_the_option(learns, bar):
    collection, outcome = situation(apart=3)
    outcome = dataclasses.replace(outcome, backbone_features=None) if learns else outcome
    told = doubts(collection, outcome, {"within": bar})["within"]
    assert told.startswith(f"about {bar:.0%} of the pile lies within known categories")
    assert told.endswith("look for them there with --mixed")
    assert "within" not in doubts(collection, outcome, {"within": bar - 0.01})


def as_mixed(collection):
    rows = collection.unlabelled
    tasks = novel_tasks(len(collection.classes), ("", collection.n_novel, rows), mixed=True)
    return dataclasses.replace(collection, tasks=tasks)


def test_a_mixed_pile_is_not_told_and_has_no_rehearsal_but_is_as_stable():
    collection, outcome = situation(apart=3)
    method = FeatureAPL(FeatureAPL.Settings())
    assert rehearse(collection, outcome, method, 0) is not None
    assert rehearse(as_mixed(collection), outcome, method, 0) is None
    assert "within" not in doubts(as_mixed(collection), outcome, {"within": 1.0})
    assert gauge(as_mixed(collection), outcome, method, 0)["stability"] > 0.95


def test_features_are_needed_and_one_task():
    collection, outcome = situation(apart=3)
    assert share_within(collection, dataclasses.replace(outcome, features=None, backbone_features=None), 0) is None
    rows = collection.unlabelled
    two = novel_tasks(8, ("A", 2, rows[:30]), ("B", 2, rows[30:]))
    assert share_within(dataclasses.replace(collection, tasks=two), outcome, 0) is None
