"""Gauges that need no answers, and the warnings they give."""

import numpy as np
import pytest
import torch

import newfound
from newfound.data.collection import Collection, Task
from newfound.data.vectors import VectorStore
from newfound.methods.outcome import Outcome
from newfound.settings import FeatureSettings, KMeansSettings
from newfound.trust import doubts, gauge


def situation(*, apart, known=8, novel=4, each=15, sizes=None):
    """A collection and an outcome whose categories lie ``apart`` deviations from each other, in 16 dimensions."""
    rng = np.random.default_rng(0)
    sizes = sizes or [each] * novel
    labels = np.concatenate([np.repeat(np.arange(known), each), np.full(sum(sizes), -1)])
    truth = np.concatenate([np.repeat(np.arange(known), each), known + np.repeat(np.arange(novel), sizes)])
    centres = apart * rng.normal(size=(known + novel, 16))
    features = torch.from_numpy(centres[truth] + rng.normal(size=(len(truth), 16))).float()
    rows = np.arange(known * each, len(labels))
    collection = Collection(VectorStore(features), labels, tuple(map(str, range(known))), (Task("", novel, rows),))
    outcome = Outcome(None, truth[rows] - known, np.ones(len(rows)), features=features, plain=features)
    return collection, outcome


def judged(settings=None, **how):
    collection, outcome = situation(**how)
    gauges = gauge(collection, outcome, settings or FeatureSettings(), seed=0)
    return gauges, doubts(collection, outcome, gauges, [f"novel-{i}" for i in range(collection.n_novel)])


def test_categories_far_apart_are_not_doubted():
    gauges, warnings = judged(apart=3)
    assert gauges["stability"] > 0.95
    assert gauges["rehearsal"] > 0.95
    assert warnings == []


def test_where_there_is_nothing_to_find_both_gauges_say_so():
    gauges, warnings = judged(apart=0)
    assert gauges["stability"] < 0.3
    assert gauges["rehearsal"] < 0.5
    assert any("known categories that play the novel ones" in warning for warning in warnings)
    assert any("agree little" in warning for warning in warnings)


def test_a_rehearsal_needs_four_categories_and_features_that_no_label_touched():
    assert "rehearsal" not in judged(apart=3, known=3)[0]
    assert "rehearsal" not in judged(KMeansSettings(), apart=3)[0]


def test_few_images_are_told():
    warnings = judged(apart=3, each=4)[1]
    assert warnings[0].startswith("the pile has 16 images for 4 categories")
    assert warnings[1].startswith("8 of the 8 known categories have fewer than 5 images")


def test_strays_and_a_category_that_swallows_the_pile_are_told():
    warnings = judged(apart=3, sizes=[90, 20, 2, 1])[1]
    assert "2 categories have 2 images or fewer: strays rather than a category" in warnings
    assert any(warning.startswith("novel-0 has 80% of the pile") for warning in warnings)


@pytest.mark.parametrize("how", [{"novel": 1}, {"known": 1}, {"each": 1}, {"known": 1, "novel": 1, "each": 1}])
def test_the_smallest_collections_are_judged_without_an_error(how):
    gauges, warnings = judged(apart=1, **how)
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
    assert set(found.result["trust"]) == {"stability", "rehearsal"}
