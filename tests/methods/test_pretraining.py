"""What many methods begin with: RotNet, frozen blocks, supervised training, and a classifier over old and new."""

import numpy as np
import pytest
import torch
from methods_tiny import NeverWaits, one_step

from newfound.engine.loop import Engine
from newfound.errors import UserError
from newfound.losses import prototypical
from newfound.methods import get_method
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.joint import Joint, joint_outcome
from newfound.methods.parts.labels import joint_labels
from newfound.methods.parts.pretraining import Episodes, learn_labels, learn_turns
from newfound.methods.parts.views import make_views
from newfound.nets.heads import LinearClassifier
from newfound.plan.recipe import resolve_settings
from newfound.views.multiview import FirstView

SHORT = {"selfsupervised.epochs": 1, "supervised.epochs": 2, "joint.epochs": 8, "joint.batch": 64}


def begin(digits, **changes):
    torch.manual_seed(0)
    settings = resolve_settings("dtc", "dtc-digits", SHORT | {k.replace("__", "."): v for k, v in changes.items()})
    return settings, make_encoder(settings.network, digits, None), Engine(digits, torch.device("cpu"))


def weights(encoder):
    return [parameter.detach().clone() for parameter in encoder.net.parameters()]


@pytest.mark.parametrize("self_supervision", [True, False])
def test_early_blocks_stay_as_rotnet_left_them_and_learn_where_it_did_not_run(digits, self_supervision):
    settings, encoder, engine = begin(digits, self_supervision=self_supervision, tuned_blocks=1)
    fresh = weights(encoder)
    learn_turns(encoder, digits, settings, engine)
    turned = weights(encoder)
    assert all(torch.equal(a, b) != self_supervision for a, b in zip(fresh, turned, strict=True))
    learn_labels(encoder, digits, settings, engine)
    stayed = [torch.equal(a, b) for a, b in zip(turned, weights(encoder), strict=True)]
    last = len(list(encoder.net.blocks[-1].parameters()))
    early = len(stayed) - last
    assert stayed == [self_supervision] * early + [False] * last


def test_the_classifier_over_known_categories_has_learned_their_labels(digits):
    settings, encoder, engine = begin(digits, supervised__epochs=20)
    head = learn_labels(encoder, digits, settings, engine)
    with torch.no_grad():
        found = head(engine.features(encoder, engine.train_images.take(digits.labelled), title="")).argmax(1)
    assert (found.numpy() == digits.labels[:120]).mean() > 0.9


def test_what_does_not_fit_the_network_stops_before_a_run(digits):
    for name in ("autonovel", "dtc", "kcl", "mcl"):
        blocks = {"tuned_blocks": 4, "network": "tiny"}
        made = get_method(name)(resolve_settings(name, f"{name}-digits", blocks | {"self_supervision": True}))
        with pytest.raises(UserError, match="tuned_blocks is 4, but the network has 3 blocks"):
            made.check((1, 8, 8))
        get_method(name)(resolve_settings(name, f"{name}-digits", blocks | {"self_supervision": False})).check(
            (1, 8, 8)
        )


def test_an_episode_has_the_prototypical_loss_of_its_categories(digits):
    settings, encoder, engine = begin(digits, episodes__classes=4, episodes__images=6, episodes__support=2)
    stage = Episodes(encoder, digits, settings)
    found, batch = one_step(stage, engine)
    labels = batch.labels.view(4, 6)
    assert (labels == labels[:, :1]).all()
    assert len(set(labels[:, 0].tolist())) == 4
    features = stage.encoder(batch.views).view(4, 6, -1)
    torch.testing.assert_close(found["loss"], prototypical(features, 2))
    with NeverWaits():
        stage.step(batch, torch.tensor(0))["loss"].backward()


def test_episodes_without_queries_are_refused():
    with pytest.raises(UserError, match=r"episodes.support is 6; it has to be below images, 6"):
        resolve_settings("dtc", "dtc-digits", {"episodes.images": 6, "episodes.support": 6})


def test_the_joint_classifier_learns_labels_of_known_images_and_what_was_found_for_the_others(digits):
    settings, encoder, engine = begin(digits)
    views = FirstView(make_views(settings.views, encoder.size, extra=0))
    found = 5 + np.arange(150) % 5
    stage = Joint(
        encoder, LinearClassifier(encoder.width, 10), digits, settings.joint, views, joint_labels(engine, found)
    )
    figures, batch = one_step(stage, engine)
    expected = [digits.labels[i] if i < 120 else found[i - 120] for i in batch.index.tolist()]
    logits = stage.head(stage.encoder(batch.views))
    torch.testing.assert_close(figures["loss"], torch.nn.functional.cross_entropy(logits, torch.tensor(expected)))


def test_the_outcome_keeps_what_was_found_and_the_model_answers_for_old_and_new(digits):
    settings, encoder, engine = begin(digits, joint__epochs=30)
    views = FirstView(make_views(settings.views, encoder.size, extra=0))
    found, confidence = 5 + np.arange(150) % 5, np.linspace(0, 1, 150)
    outcome = joint_outcome(encoder, found, confidence, digits, settings.joint, views, engine, method="dtc")
    assert outcome.assignments.tolist() == found.tolist()
    assert outcome.confidence.tolist() == confidence.tolist()
    with torch.no_grad():
        predicted = outcome.model.eval()(digits.train.images[:120]).argmax(1).numpy()
    assert (predicted == digits.labels[:120]).mean() > 0.8
    assert outcome.model.classes[5:] == tuple(f"novel-0{i}" for i in range(1, 6))
