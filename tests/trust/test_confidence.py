"""What confidence is calibrated on, and which categories are told to be two."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_trust import situation

from newfound.methods.apl_features import FeatureAPL
from newfound.report.text import LENGTHS
from newfound.trust.confidence import calibrated
from newfound.trust.merged import merged
from newfound.trust.rehearsal import Rehearsal, margin, rehearse, spread
from newfound.trust.warnings import doubts

METHOD = FeatureAPL(FeatureAPL.Settings())


def rehearsed(margins, right, spreads=()):
    return Rehearsal(np.array(margins, float), np.array(right, bool), 0.5, np.array(spreads))


def test_a_margin_is_the_cosine_with_the_others_of_the_group_less_that_with_the_next_group():
    features = F.normalize(torch.randn(12, 4, generator=torch.Generator().manual_seed(0)))
    groups = np.array([0] * 5 + [1] * 4 + [3] * 2 + [4])
    found = margin(features * 3, groups)
    for i, group in enumerate(groups[:-1]):
        others = [j for j in range(12) if groups[j] == group and j != i]
        own = float(features[i] @ F.normalize(features[others].sum(0), dim=0))
        next_one = max(
            float(features[i] @ F.normalize(features[groups == g].sum(0), dim=0)) for g in {0, 1, 3, 4} - {group}
        )
        assert found[i] == pytest.approx(own - next_one, abs=1e-5)
    assert found[-1] == -2


def test_confidence_follows_what_became_of_known_images_with_that_margin():
    collection, outcome = situation(apart=3)
    low, high = np.linspace(0, 0.5, 200), np.linspace(0.5, 1, 200)
    rng = np.random.default_rng(0)
    right = np.concatenate([rng.random(200) < 0.3, rng.random(200) < 0.9])
    after = calibrated(collection, outcome, rehearsed([*low, *high], right))
    margins = margin(outcome.features[collection.n_labelled :], outcome.assignments)
    assert after.calibrated
    order = np.argsort(margins)
    assert (np.diff(after.confidence[order]) >= -1e-9).all()
    between = after.confidence[(margins > 0.6) & (margins < 1)]
    assert 0.75 < between.mean() < 1


def test_confidence_is_never_certain_even_if_all_known_images_are_found_again():
    collection, outcome = situation(apart=3)
    after = calibrated(collection, outcome, rehearsed(np.linspace(0.1, 1, 50), [True] * 50))
    assert after.confidence.min() > 0.5
    assert after.confidence.max() < 0.9995


def test_where_clear_images_are_not_the_right_ones_all_have_the_share_of_right_ones():
    collection, outcome = situation(apart=3)
    after = calibrated(collection, outcome, rehearsed(np.linspace(0, 1, 50), [True] * 25 + [False] * 25))
    np.testing.assert_allclose(after.confidence, 0.5)


@pytest.mark.parametrize("rehearsal", [None, rehearsed([0.5] * 19, [True] * 19)])
def test_without_a_rehearsal_or_with_few_images_the_models_own_confidence_stays_and_is_not_called_calibrated(rehearsal):
    collection, outcome = situation(apart=3)
    after = calibrated(collection, outcome, rehearsal)
    assert not after.calibrated
    assert (after.confidence == outcome.confidence).all()


@pytest.mark.parametrize("rehearsal", [None, rehearsed(np.linspace(0, 1, 40), [True, False] * 20)])
def test_an_image_alone_in_its_category_has_no_confidence(rehearsal):
    collection, outcome = situation(apart=3, sizes=[20, 20, 20, 1])
    after = calibrated(collection, outcome, rehearsal)
    alone = np.bincount(outcome.assignments)[outcome.assignments] == 1
    assert alone.sum() == 1
    assert after.confidence[alone] == 0
    assert (after.confidence[~alone] > 0).all()


def test_every_known_category_is_hidden_once_and_found_again_where_categories_are_clear():
    collection, outcome = situation(apart=5)
    outcome = replace(outcome, backbone_features=outcome.features)
    found = rehearse(collection, outcome, METHOD, seed=0)
    size = min(collection.n_labelled // len(collection.classes), collection.n_unlabelled // 4)
    assert len(found.right) == len(found.margin) == size * len(collection.classes)
    assert found.right.mean() > 0.9


def test_without_features_that_labels_have_not_touched_there_is_no_rehearsal():
    collection, outcome = situation(apart=3)
    assert rehearse(collection, replace(outcome, backbone_features=None), METHOD, seed=0) is None


def test_the_spread_is_one_less_the_mean_cosine_of_two_images():
    features = torch.randn(9, 5, generator=torch.Generator().manual_seed(0))
    unit = F.normalize(features).numpy()
    pairs = [unit[i] @ unit[j] for i in range(9) for j in range(9) if i != j]
    assert spread(features) == pytest.approx(1 - np.mean(pairs), abs=1e-5)
    assert spread(features[:7]) is None


def test_a_category_of_two_is_named_in_a_warning_and_those_of_one_are_not():
    collection, outcome = situation(apart=3, novel=4, sizes=[20] * 4)
    first = len(collection.classes)
    known = rehearse(collection, outcome, METHOD, seed=0)
    assert merged(collection, outcome, known) == []
    joined = np.where(outcome.assignments == first + 1, first, outcome.assignments)
    outcome = replace(outcome, assignments=joined)
    assert merged(collection, outcome, known) == [first]
    told = doubts(collection, outcome, {}, known)["merged"]
    assert told.startswith("novel-0 looks like two categories in one")


def test_spreads_of_three_known_categories_are_too_few_to_tell():
    collection, outcome = situation(apart=3)
    assert len(merged(collection, outcome, rehearsed([], [], [-1.0] * 4))) == 4
    assert merged(collection, outcome, rehearsed([], [], [-1.0] * 3)) == []


def test_a_warning_of_many_merged_categories_names_three_and_fits_the_page():
    collection, outcome = situation(apart=3, novel=7)
    told = doubts(collection, outcome, {}, rehearsed([], [], [-1.0] * 4))["merged"]
    assert told.startswith("novel-0, novel-1, novel-2 and 4 others look like two")
    assert len(told) <= LENGTHS[0]
