"""Gauges that need no answers, and the warnings they give."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import newfound
from newfound.data.collection import Collection, novel_tasks
from newfound.data.vectors import VectorStore
from newfound.methods.apl_features import FeatureAPL
from newfound.methods.base import Outcome
from newfound.methods.simgcd import SimGCD
from newfound.report.text import LENGTHS
from newfound.trust.confidence import calibrated
from newfound.trust.gauges import gauge, least_parted
from newfound.trust.rehearsal import rehearse
from newfound.trust.warnings import doubts


def situation(*, apart, known=8, novel=4, each=15, sizes=None):
    """A collection and an outcome whose categories lie ``apart`` deviations from each other, in 16 dimensions."""
    rng = np.random.default_rng(0)
    sizes = sizes or [each] * novel
    labels = np.concatenate([np.repeat(np.arange(known), each), np.full(sum(sizes), -1)])
    truth = np.concatenate([np.repeat(np.arange(known), each), known + np.repeat(np.arange(novel), sizes)])
    centres = apart * rng.normal(size=(known + novel, 16))
    features = torch.from_numpy(centres[truth] + rng.normal(size=(len(truth), 16))).float()
    rows = np.arange(known * each, len(labels))
    collection = Collection(
        VectorStore(features), labels, tuple(map(str, range(known))), novel_tasks(known, ("", novel, rows))
    )
    names = tuple(map(str, range(known))), tuple(f"novel-{i}" for i in range(novel))
    model = SimpleNamespace(classes=names[0] + names[1])
    outcome = Outcome(model, truth[rows], np.ones(len(rows)), features=features, backbone_features=features)
    return collection, outcome


def told(method=None, assigned=None, learns=False, taught=True, **how):
    """The gauges and the warnings of a situation, by what they are about; ``assigned`` changes what was found, and
    where the network ``learns`` there are no features that no label has touched. Labels have ``taught`` it or not."""
    collection, outcome = situation(**how)
    outcome = replace(outcome, assignments=assigned(collection, outcome)) if assigned else outcome
    outcome = replace(outcome, backbone_features=None) if learns else outcome
    outcome = replace(outcome, taught=taught)
    gauges = gauge(collection, outcome, method or FeatureAPL(FeatureAPL.Settings()), seed=0)
    return gauges, doubts(collection, outcome, gauges)


def judged(method=None, **how):
    gauges, warnings = told(method, **how)
    return gauges, list(warnings.values())


def cut_in_two(collection, outcome):
    """The first category as the first two, cut across its widest direction; the last two as one."""
    first = len(collection.classes)
    found = np.array([0, 2, 3, 3])[outcome.assignments - first]
    members = outcome.features[collection.n_labelled :][found == 0].numpy()
    widest = np.linalg.svd(members - members.mean(0))[2][0]
    found[found == 0] = (members - members.mean(0)) @ widest > 0
    return first + found


def test_categories_far_apart_are_not_doubted():
    gauges, warnings = judged(apart=3)
    assert gauges["stability"] > 0.95
    assert gauges["rehearsal"] > 0.95
    assert gauges["parted"] > 0.95
    assert warnings == []


def test_where_there_is_nothing_to_find_both_gauges_say_so():
    gauges, warnings = judged(apart=0)
    assert gauges["stability"] < 0.3
    assert gauges["rehearsal"] < 0.5
    assert any("known categories that play the novel ones" in warning for warning in warnings)
    assert any("agrees little" in warning for warning in warnings)


def test_a_rehearsal_needs_four_categories_and_features_that_no_label_touched():
    assert "rehearsal" not in judged(apart=3, known=3)[0]
    assert "rehearsal" not in judged(apart=3, learns=True)[0]
    assert "rehearsal" not in judged(SimGCD(SimGCD.Settings()), apart=3)[0], "it has none"


def test_few_images_are_told():
    warnings = judged(apart=3, each=4, learns=True)[1]
    assert warnings[0].startswith("the pile has 16 images for 4 categories")
    assert warnings[1].startswith("8 of the 8 known categories have fewer than 5 images")


def test_strays_and_a_category_that_swallows_the_pile_are_told():
    warnings = judged(apart=3, sizes=[90, 20, 2, 1], learns=True)[1]
    assert "2 categories have 2 images or fewer: strays rather than a category" in warnings
    assert any(warning.startswith("novel-0 has 80% of the pile") for warning in warnings)


def test_a_large_category_cut_in_two_is_told_by_the_names_of_its_halves():
    gauges, warnings = judged(apart=2, sizes=[120, 12, 12, 12], assigned=cut_in_two)
    assert gauges["parted"] < 0.65
    assert [warning for warning in warnings if warning.startswith("novel-0 and novel-1 run into each other")]
    assert judged(apart=2, sizes=[120, 12, 12, 12])[0]["parted"] > 0.9


def test_a_network_that_no_label_taught_is_not_doubted_for_few_known_images_or_a_large_category():
    assert "few known" not in told(apart=3, each=4)[1]
    assert "largest" not in told(apart=3, sizes=[90, 20, 2, 1])[1]


def test_one_known_category_and_few_known_images_are_told_where_labels_teach():
    assert told(apart=3, known=1)[1]["one known"].startswith("only one category is known")
    assert "one known" not in told(apart=3, known=2)[1]
    assert "one known" not in told(apart=3, known=1, learns=True, taught=False)[1]
    assert "few known" not in told(apart=3, each=4, learns=True, taught=False)[1]


def test_parted_is_the_share_of_the_nearest_images_that_are_of_the_same_category():
    collection, outcome = situation(apart=0.5, novel=2, each=9)
    pile = F.normalize(outcome.features[collection.n_labelled :]).numpy()
    own = []
    for i, image in enumerate(pile):
        others = sorted((-(image @ other), j) for j, other in enumerate(pile) if j != i)[:8]
        own += [outcome.assignments[j] == outcome.assignments[i] for _, j in others]
    assert least_parted(collection, outcome) == (pytest.approx(np.mean(own), abs=1e-6), 8, 9)


def test_categories_of_a_few_images_are_not_held_against_each_other():
    assert "parted" not in judged(apart=3, each=4)[0]
    assert "parted" in judged(apart=3, each=5)[0]


def test_every_warning_fits_the_page_whole():
    found = (
        told(apart=0, known=12, novel=30, each=2, learns=True)[1] | told(apart=0, sizes=[90, 3, 3, 2], learns=True)[1]
    )
    found |= told(apart=0.1, novel=12)[1]
    assert set(found) == {"few", "few known", "rehearsal", "stability", "parted", "strays", "largest"}
    assert max(map(len, found.values())) <= LENGTHS[0]


@pytest.mark.parametrize("how", [{"novel": 1}, {"known": 1}, {"each": 1}, {"known": 1, "novel": 1, "each": 1}])
def test_the_smallest_collections_are_judged_without_an_error(how):
    gauges, warnings = judged(apart=1, **how)
    collection, outcome = situation(apart=1, **how)
    rehearsal = rehearse(collection, outcome, FeatureAPL(FeatureAPL.Settings()), seed=0)
    assert (rehearsal is None) == (how.get("known") == 1)
    assert np.isfinite(calibrated(collection, outcome, rehearsal).confidence).all()
    assert all(-1 <= value <= 1 for value in gauges.values())
    assert isinstance(warnings, list)


def test_a_run_with_few_and_unequal_images_ends_with_its_warnings(tmp_path, capsys):
    import embeddings

    files = embeddings.write(tmp_path / "in")
    found = newfound.discover(**files, n_novel=40, out=tmp_path / "run")
    told = capsys.readouterr().err
    assert found.result["warnings"]
    for warning in found.result["warnings"]:
        assert f"warning: {warning}" in told
        assert warning in (tmp_path / "run" / "report.html").read_text()
    assert set(found.result["trust"]) >= {"stability", "rehearsal"}
