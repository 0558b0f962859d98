"""Collections of several tasks: an image has only the categories of its own task, in every method."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from methods_tiny import fit, make_stage, one_step

from newfound.data.collection import novel_tasks
from newfound.losses import separation

N_LABELLED = 120
FIRST, SECOND = {0, 1}, {2, 3, 4}


@pytest.fixture
def two(digits):
    """70 unlabelled images of a task with two novel categories, 80 of one with three."""
    tasks = novel_tasks(5, ("A", 2, np.arange(120, 190)), ("B", 3, np.arange(190, 270)))
    return dataclasses.replace(digits, tasks=tasks)


def novel_of(outcome, name):
    """The novel category [n_unlabelled], from 0, that a step of the run gave each image."""
    return outcome.earlier[name] - 5


@pytest.mark.parametrize("changes", [{}, {"selftraining__labels": "online"}, {"classifier": "cosine"}], ids=str)
def test_every_step_gives_an_image_a_category_of_its_own_task(two, changes):
    outcome = fit(two, stage1__epochs=1, **changes)
    assert set(outcome.earlier) == {"stage1", "online", "stage2-1", "stage2-2"}
    for name in outcome.earlier:
        labels = novel_of(outcome, name)
        assert set(labels[:70]) <= FIRST, name
        assert set(labels[70:]) <= SECOND, name
    logits = outcome.model.eval()(two.train.images)[N_LABELLED:, 5:].detach()
    sure = torch.cat([logits[:70, :2].softmax(1).amax(1), logits[70:, 2:].softmax(1).amax(1)])
    np.testing.assert_allclose(outcome.confidence, sure, rtol=1e-3)


def test_prototypes_are_separated_within_their_task_alone(two):
    stage, engine = make_stage(two)
    parts, _ = one_step(stage, engine)
    rows = stage.prototypes.prototypes
    expected = (2 * separation(rows[:2]) + 3 * separation(rows[2:])) / 5
    torch.testing.assert_close(parts["pas"], expected)


def test_an_online_label_is_the_nearest_prototype_of_the_own_task(two):
    stage, engine = make_stage(two)
    features = F.normalize(engine.features(stage.encoder, engine.train_images, title=""))[N_LABELLED:]
    prototypes = stage.prototypes.prototypes
    prototypes[0] = F.normalize(features[70:].mean(0), dim=0)  # every image is nearest to one of the other task
    prototypes[2] = F.normalize(features[:70].mean(0), dim=0)
    labels = stage.online_labels(features)
    expected = [int((prototypes[:2] @ f).argmax()) for f in features[:70]]
    expected += [2 + int((prototypes[2:] @ f).argmax()) for f in features[70:]]
    assert labels.tolist() == expected
