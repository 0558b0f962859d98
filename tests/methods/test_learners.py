"""What each self-supervised learner does in a step, against slow references."""

import copy

import pytest
import torch
import torch.nn.functional as F
from methods_tiny import NeverWaits, make_stage, one_step
from reference import contrastive as reference

from newfound.engine.loop import Engine
from newfound.methods.instance.moco import MoCo, MoCoSettings, MoCoV2Settings
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.selfsupervised import SelfSupervised
from newfound.plan.recipe import resolve_settings
from newfound.views.multiview import Crops

OTHERS = ("simclr", "moco", "mocov2", "rotation")
SMALL = {
    "simclr__temperature": 0.3,
    "moco__temperature": 0.3,
    "mocov2__temperature": 0.3,
    "moco__queue": 96,
    "mocov2__queue": 96,
}


def begin(digits, learner, **changes):
    return make_stage(digits, instance__learner=learner, **SMALL | changes)


@torch.no_grad()
def outputs(stage, batch, network=None):
    """What encoder and head, or those of ``network``, make of the whole views: [2, n, O]."""
    encoder, head = network or (stage.encoder, stage.learner.head)
    return head.train()(encoder.train()(batch.views.whole.flatten(0, 1))).unflatten(0, (2, -1)).double()


def test_simclr_contrasts_the_two_whole_views_of_a_batch(digits):
    stage, engine = begin(digits, "simclr")
    twin = copy.deepcopy(stage)
    parts, batch = one_step(stage, engine)
    some = outputs(twin, batch)
    assert parts["ins"].item() == pytest.approx(float(reference.nt_xent(some, 0.3)), rel=1e-4)
    assert parts["ins_of_uniform"].item() == pytest.approx(parts["ins"].item() / torch.tensor(63.0).log().item())


@pytest.mark.parametrize("learner", ["moco", "mocov2"])
def test_moco_holds_each_view_against_the_other_ones_key_and_the_queue(digits, learner):
    stage, engine = begin(digits, learner)
    for parameter in stage.learner.keys.parameters():
        parameter += 0.05 * torch.randn_like(parameter)  # keys and queries differ
    twin = copy.deepcopy(stage)
    parts, batch = one_step(stage, engine)
    queries, keys = outputs(twin, batch), outputs(twin, batch, twin.learner.keys)
    each = [reference.info_nce(queries[v], keys[1 - v], twin.learner.queue.double(), 0.3) for v in range(2)]
    assert parts["ins"].item() == pytest.approx(float(sum(each)) / 2, rel=1e-4)
    assert parts["ins_of_uniform"].item() == pytest.approx(parts["ins"].item() / torch.tensor(97.0).log().item())
    parts["loss"].backward()
    assert all(parameter.grad is None for parameter in stage.learner.keys.parameters())
    assert all(parameter.grad is not None for parameter in stage.learner.head.parameters())


def test_keys_take_the_places_of_the_oldest_and_the_queue_goes_round(digits):
    stage, engine = begin(digits, "moco")
    expected, place = stage.learner.queue.clone(), 0
    for t in range(3):
        twin = copy.deepcopy(stage)
        _, batch = one_step(stage, engine, t)
        keys = F.normalize(outputs(twin, batch, twin.learner.keys).float(), dim=-1)
        for key in [*keys[0], *keys[1]]:
            expected[place] = key
            place = (place + 1) % 96
        torch.testing.assert_close(stage.learner.queue, expected)
        assert int(stage.learner.pointer) == place
    assert place == 0, "3 times 64 keys went twice round 96 places"


def test_a_queue_shorter_than_a_batch_holds_what_it_can(digits):
    stage, engine = begin(digits, "moco", moco__queue=10)
    twin = copy.deepcopy(stage)
    _, batch = one_step(stage, engine)
    keys = F.normalize(outputs(twin, batch, twin.learner.keys).float(), dim=-1)
    torch.testing.assert_close(stage.learner.queue, keys[0, :10])


def test_the_key_encoder_follows_by_a_momentum_that_goes_to_its_last_value(digits):
    stage, engine = begin(digits, "moco", moco__momentum=0.5, moco__final_momentum=0.9)
    momentum = stage.learner.momentum
    assert momentum[0] == 0.5
    assert (momentum.diff() > 0).all()
    assert float(momentum[-1]) == pytest.approx(0.9, abs=0.02)
    parts, _ = one_step(stage, engine)
    before = [parameter.clone() for parameter in stage.learner.keys.parameters()]
    parts["loss"].backward()
    torch.optim.SGD([p for p in stage.parameters() if p.requires_grad], lr=0.5).step()
    stage.after_step(torch.tensor(3))
    student = [*stage.encoder.parameters(), *stage.learner.head.parameters()]
    for old, new, followed in zip(before, stage.learner.keys.parameters(), student, strict=True):
        torch.testing.assert_close(new, momentum[3] * old + (1 - momentum[3]) * followed)
    assert any(not torch.equal(old, new) for old, new in zip(before, stage.learner.keys.parameters(), strict=True))


def test_the_key_encoder_has_statistics_of_its_own(digits):
    stage, engine = begin(digits, "moco")
    for parameter in stage.learner.keys.parameters():
        parameter *= 1.5
    one_step(stage, engine)
    own = {name: value for name, value in stage.learner.keys[0].named_buffers() if name.endswith("running_mean")}
    encoder = dict(stage.encoder.named_buffers())
    assert own
    assert all(not torch.allclose(value, encoder[name], rtol=0.01) for name, value in own.items())
    assert all(value.abs().sum() > 0 for value in own.values())


def test_the_versions_of_moco_differ_in_head_and_temperature():
    linear = MoCo(torch.nn.Identity(), 8, MoCoSettings(), 10).head
    assert isinstance(linear, torch.nn.Linear)
    assert linear.out_features == 128
    mlp = MoCo(torch.nn.Identity(), 8, MoCoV2Settings(), 10).head
    assert [type(layer) for layer in mlp] == [torch.nn.Linear, torch.nn.ReLU, torch.nn.Linear]
    assert (MoCoSettings().temperature, MoCoV2Settings().temperature) == (0.07, 0.2)


def test_rotation_tells_the_quarter_turns_of_the_first_view(digits):
    stage, engine = begin(digits, "rotation")
    twin = copy.deepcopy(stage).train()
    parts, batch = one_step(stage, engine)
    first = batch.views.whole[0]
    turned = [first, first.transpose(2, 3).flip(2), first.flip((2, 3)), first.transpose(2, 3).flip(3)]
    with torch.no_grad():
        logs = twin.learner.head(twin.encoder(torch.cat(turned))).log_softmax(1)
    rows = [(turns, turns * 32 + image) for turns in range(4) for image in range(32)]
    expected = sum(-float(logs[row, turns]) for turns, row in rows) / 128
    assert parts["ins"].item() == pytest.approx(expected, rel=1e-4)
    told = sum(int(logs[row].argmax()) == turns for turns, row in rows) / 128
    assert parts["turns_told"].item() == pytest.approx(told)


def test_rotation_by_itself_passes_no_other_images_through_the_encoder(digits):
    settings = resolve_settings("rotation", "rotation-digits", {"stage1.batch": 32})
    stage = SelfSupervised("stage1", make_encoder("tiny", digits, None), "rotation", digits, settings)
    passed = []
    stage.encoder.register_forward_hook(lambda _, images, __: passed.append(len(images[0])))
    one_step(stage, Engine(digits, torch.device("cpu")))
    assert passed == [4 * 32]


def test_turned_views_do_not_move_the_statistics_of_an_encoder_that_has_a_pass_of_its_own(digits):
    stage, engine = begin(digits, "rotation")
    twin = copy.deepcopy(stage).train()
    _, batch = one_step(stage, engine)
    with torch.no_grad():
        twin.encoder(batch.views.whole.flatten(0, 1))
    moved = dict(twin.encoder.named_buffers())
    for name, value in stage.encoder.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            torch.testing.assert_close(value, moved[name])


@pytest.mark.parametrize("learner", OTHERS)
def test_a_learner_teaches_the_encoder_and_its_step_never_waits(digits, learner):
    stage, engine = begin(digits, learner)
    parts, batch = one_step(stage, engine)
    slopes = torch.autograd.grad(parts["ins"], list(stage.encoder.net.parameters()))
    assert all(slope.abs().sum() > 0 for slope in slopes)
    step = torch.tensor(1)
    with NeverWaits():
        stage.step(batch, step)["loss"].backward()
        stage.after_step(step)


@pytest.mark.parametrize(("learner", "extra"), [("dino", 2), ("none", 0), *((name, 0) for name in OTHERS)])
def test_extra_views_are_made_for_those_who_look_at_them(digits, learner, extra):
    stage, engine = begin(digits, learner, views__extra=2)
    _, batch = one_step(stage, engine)
    assert isinstance(batch.views, Crops)
    assert (len(batch.views.whole), len(batch.views.extra)) == (2, extra)
