"""apl-plus: what goes on from stage to stage, and what labels stage II."""

import numpy as np
import pytest
import torch
from methods_tiny import one_step, quick

from newfound.engine.loop import Engine
from newfound.methods.base import run_method
from newfound.methods.parts.representation import Representation
from newfound.methods.parts.selftraining import SelfTraining
from newfound.methods.parts.swapped import SwappedPrediction


class Watching(Engine):
    """Notes each stage that is to be trained, and the state it begins with."""

    def __init__(self, collection):
        super().__init__(collection, torch.device("cpu"))
        self.began = {}

    def train(self, stage):
        state = {name: value.clone() for name, value in stage.state_dict().items()}
        self.began[stage.name] = stage, state
        super().train(stage)


def run(collection, **changes):
    engine = Watching(collection)
    return run_method(quick("apl-plus", **changes), collection, engine), engine.began


def test_discovery_stands_between_the_papers_stages(digits):
    outcome, began = run(digits)
    stages = [type(stage) for stage, _ in began.values()]
    assert stages == [Representation, SwappedPrediction, SelfTraining, SelfTraining]
    assert set(outcome.earlier) == {"heads", "votes", "clusters", "stage2-1", "stage2-2"}
    assert np.array_equal(outcome.assignments, outcome.earlier["stage2-2"])


def test_encoder_and_learner_go_on_as_stage_1_left_them(digits):
    _, began = run(digits)
    (stage1, _), (_, state) = began["stage1"], began["discovery"]
    ended = {f"learner.{name}": value for name, value in stage1.learner.state_dict().items()}
    assert ended
    assert all(torch.equal(state[name], value) for name, value in ended.items())
    assert "known.weight" in state
    assert not any(name.startswith(("classifier", "prototypes", "bank")) for name in state)


@pytest.mark.parametrize("changes", [{"discovery_instance": 0}, {"instance.learner": "none"}])
def test_without_its_weight_or_a_learner_discovery_tells_no_instances_apart(digits, changes):
    _, began = run(digits, **changes)
    stage, _ = began["discovery"]
    assert stage.learner is None
    assert "ins" not in one_step(stage, Engine(digits, torch.device("cpu")))[0]


def test_the_learners_loss_counts_by_its_weight(digits):
    _, began = run(digits, **{"inter": 0.1, "intra": 0.2})
    stage, _ = began["discovery"]
    parts, _ = one_step(stage, Engine(digits, torch.device("cpu")))
    rest = (parts["cluster"] + parts["over"]) / 2 - 0.1 * parts["inter"] + 0.2 * parts["intra"]
    assert torch.allclose(parts["loss"], rest + 0.5 * parts["ins"])


def test_the_learner_takes_the_features_of_extra_views_that_are_there(digits):
    """The loss and its gradient are those of a learner that computes them itself."""
    _, began = run(digits)
    stage, engine = began["discovery"][0], Engine(digits, torch.device("cpu"))
    _, batch = one_step(stage, engine)
    crops, t, found = batch.views, torch.tensor(0), []
    for given in (False, True):
        stage.zero_grad()
        centre = stage.learner.centre.clone()
        whole = stage.encoder(crops.whole.flatten(0, 1))
        extra = stage.encoder(crops.extra.flatten(0, 1)) if given else None
        looked = stage.learner.look(crops, t)[0]
        loss = stage.learner.loss(stage.encoder, whole, crops, lambda looked=looked: looked, t, extra)["ins"]
        loss.backward()
        found.append([loss.detach(), *(p.grad.clone() for p in stage.encoder.parameters())])
        stage.learner.centre.copy_(centre)
    assert len(found[0]) > 5
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(*found, strict=True))


@pytest.mark.usefixtures("as_found")
@pytest.mark.parametrize(("labels", "source"), [("online", "heads"), ("offline", "clusters")])
def test_stage_2_begins_with_the_labels_that_are_asked_for(digits, labels, source):
    outcome, began = run(digits, **{"selftraining.labels": labels})
    stage, _ = began["stage2-1"]
    assert np.array_equal(stage.labels[digits.n_labelled :].numpy(), outcome.earlier[source])


@pytest.mark.parametrize(("labels", "source"), [("online", "heads"), ("offline", "clusters")])
def test_without_stage_2_the_same_labels_are_the_answer(digits, labels, source):
    outcome, _ = run(digits, **{"selftraining.labels": labels, "selftraining.iterations": 0})
    assert np.array_equal(outcome.assignments, outcome.earlier[source])
