import contextlib
import json
import os
import signal

import pytest
import torch
from torch import nn

from newfound.engine import loop
from newfound.errors import Diverged, Interrupted


def tensors_of(stage):
    return {name: value.clone() for name, value in stage.state_dict().items()}


def assert_equal(first, second):
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def send(number, at):
    return lambda step: os.kill(os.getpid(), number) if step == at else None


@pytest.fixture
def whole(make_engine, make_toy, tmp_path):
    """An uninterrupted run of two stages: its tensors and its metrics."""
    engine = make_engine(tmp_path / "whole")
    stages = [make_toy(), make_toy(name="stage2", optimiser="adamw", lr=0.01)]
    for stage in stages:
        engine.train(stage)
    return [tensors_of(s) for s in stages], (tmp_path / "whole" / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("at", [0, 3, 7, 19])
@pytest.mark.parametrize("victim", ["stage1", "stage2"])
def test_a_run_stopped_by_a_signal_resumes_bit_for_bit(make_engine, make_toy, tmp_path, whole, number, at, victim):
    folder = tmp_path / "broken"
    stop = {victim: send(number, at)}
    more = {"stage1": {}, "stage2": {"optimiser": "adamw", "lr": 0.01}}
    engine = make_engine(folder)

    def train_all():
        for name, plan in more.items():
            engine.train(make_toy(name=name, on_step=stop.get(name), **plan))

    with pytest.raises(Interrupted, match=f"after step {at + 1} of 20 of {victim}"):
        train_all()
    torch.manual_seed(99)
    engine = make_engine(folder)
    stages = [make_toy(name=name, **plan) for name, plan in more.items()]
    for stage in stages:
        engine.train(stage)
    for stage, tensors in zip(stages, whole[0], strict=True):
        assert_equal(tensors_of(stage), tensors)
    assert (folder / "metrics.jsonl").read_bytes() == whole[1]


def test_before_epoch_runs_once_an_epoch_whatever_interrupts(make_engine, make_toy, tmp_path):
    folder = tmp_path / "run"
    for at in (2, 5, 11):
        with pytest.raises(Interrupted):
            make_engine(folder).train(make_toy(on_step=send(signal.SIGINT, at)))
    stage = make_toy()
    make_engine(folder).train(stage)
    assert int(stage.epochs_begun) == 4


def test_metrics_have_each_logged_step_once_and_its_learning_rate(make_engine, make_toy, tmp_path):
    make_engine(tmp_path / "run").train(make_toy(schedule="constant"))
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [3, 5, 6, 9, 10, 12, 15, 18, 20]
    assert [line["epoch"] for line in lines] == [1, 1, 2, 2, 2, 3, 3, 4, 4]
    assert all(line["lr"] == pytest.approx(0.05) and line["loss"] > 0 and line["height"] > 0 for line in lines)


def test_a_full_disk_stops_the_run_and_the_previous_checkpoint_resumes_it(make_engine, make_toy, tmp_path, whole, disk):
    folder = tmp_path / "full"
    engine = make_engine(folder)
    saved, real = [], engine.checkpoints.save

    def third_fails(*arguments, **more):
        saved.append(arguments)
        with disk(room=2000) if len(saved) == 3 else contextlib.nullcontext():
            real(*arguments, **more)

    engine.checkpoints.save = third_fails
    with pytest.raises(OSError, match="too large"):
        engine.train(make_toy())
    assert sorted(p.name for p in (folder / "checkpoint").iterdir()) == ["stage1-000000005", "stage1-000000010"]
    stage = make_toy()
    make_engine(folder).train(stage)
    assert_equal(tensors_of(stage), whole[0][0])


def test_checkpoints_that_cost_much_are_rare_but_the_last_one_is_made(make_engine, make_toy, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "SHARE", 1e-9)
    engine = make_engine(tmp_path / "rare")
    saved, real = [], engine.checkpoints.save
    engine.checkpoints.save = lambda stage, step, *rest, **more: (saved.append(step), real(stage, step, *rest, **more))
    engine.train(make_toy())
    assert saved == [5, 20]


def test_only_many_steps_are_worth_trying_out_algorithms(make_engine, make_toy, monkeypatch):
    tried = set()
    for many in (21, 20):  # a toy has 20 steps
        monkeypatch.setattr(loop, "MANY_STEPS", many)
        make_engine().train(make_toy(on_step=lambda step, many=many: tried.add((many, torch.backends.cudnn.benchmark))))
    assert tried == {(21, False), (20, True)}
    assert not torch.backends.cudnn.benchmark


def test_a_step_never_waits_for_the_device(make_engine, make_toy):
    """Whatever reads a value on the host shows as _local_scalar_dense, on a CPU too."""
    from torch.utils._python_dispatch import TorchDispatchMode

    from newfound.engine.loop import Training

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            assert function is not torch.ops.aten._local_scalar_dense.default, "a value is read on the host"
            return function(*arguments, **keywords or {})

    engine, stage = make_engine(), make_toy(optimiser="adamw", clip=1.0)
    stage.on_step = lambda step: None
    training = Training(engine, stage)
    stage.train()
    index = stage.sampler.epoch(torch.Generator().manual_seed(0))[0]
    stage.step = lambda batch, t: {"loss": nn.functional.cross_entropy(stage.linear(batch.views), batch.labels)}
    training._step(index, engine.train_images.batch(index))
    with Watch():
        training._step(index, engine.train_images.batch(index))


def test_metrics_without_checkpoints_keep_every_stage(make_engine, make_toy, tmp_path):
    engine = make_engine(tmp_path / "run", checkpoints=None)
    for name in ("stage1", "stage2"):
        engine.train(make_toy(name=name))
    stages = [json.loads(line)["stage"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert stages == ["stage1"] * 9 + ["stage2"] * 9


def test_a_damaged_last_checkpoint_makes_its_stage_and_the_next_begin_anew(make_engine, make_toy, tmp_path, whole):
    folder = tmp_path / "run"
    engine = make_engine(folder)
    engine.train(make_toy())
    with pytest.raises(Interrupted):
        engine.train(make_toy(name="stage2", optimiser="adamw", lr=0.01, on_step=send(signal.SIGINT, 7)))
    (folder / "checkpoint" / "stage1-000000020" / "state.json").write_text("{")
    engine = make_engine(folder)
    stages = [make_toy(), make_toy(name="stage2", optimiser="adamw", lr=0.01)]
    for stage in stages:
        engine.train(stage)
    assert_equal(tensors_of(stages[1]), whole[0][1])
    assert (folder / "metrics.jsonl").read_bytes() == whole[1]


def test_a_finished_stage_is_not_trained_again(make_engine, make_toy, tmp_path):
    first = make_toy()
    make_engine(tmp_path / "run").train(first)

    def never(step):
        raise AssertionError("trained again")

    again = make_toy(on_step=never)
    make_engine(tmp_path / "run").train(again)
    assert_equal(tensors_of(again), tensors_of(first))


def test_a_loss_that_is_no_number_stops_with_a_remedy(make_engine, make_toy):
    with pytest.raises(Diverged, match=r"smaller stage1\.lr"):
        make_engine().train(make_toy(lr=1e30))


@pytest.mark.parametrize(
    ("plan", "reference"),
    [
        ({"optimiser": "sgd", "weight_decay": 0.01, "nesterov": True}, torch.optim.SGD),
        ({"optimiser": "adam", "weight_decay": 0.01}, torch.optim.Adam),
        ({"optimiser": "adamw", "weight_decay": 0.1, "clip": 0.05}, torch.optim.AdamW),
    ],
)
def test_the_loop_agrees_with_a_plain_one(make_engine, make_toy, collection, plan, reference):
    """The reference: torch's optimiser with a float learning rate, stepped by hand on the same batches and views."""
    plan |= {"schedule": "constant", "epochs": 2}
    stage, plain, engine = make_toy(**plan), make_toy(**plan), make_engine()
    engine.train(stage)
    keys = {"momentum": 0.9, "nesterov": True} if reference is torch.optim.SGD else {}
    optimiser = reference(plain.parameters(), lr=0.05, weight_decay=plan["weight_decay"], **keys)
    plain.train()
    for epoch in range(2):
        draws = engine.generator("stage1", epoch, "views")
        for index in plain.sampler.epoch(engine.generator("stage1", epoch, "batches")):
            parameters = plain.views.draw(draws, len(index), torch.tensor(0))
            logits = plain.linear(plain.views.apply(collection.train.images[index], parameters))
            optimiser.zero_grad()
            nn.functional.cross_entropy(logits, torch.from_numpy(collection.labels)[index]).backward()
            if "clip" in plan:
                norm = torch.sqrt(sum((p.grad**2).sum() for p in plain.parameters()))
                for p in plain.parameters():
                    p.grad *= min(1.0, plan["clip"] / (float(norm) + 1e-6))
            optimiser.step()
    for (name, value), other in zip(stage.linear.named_parameters(), plain.linear.parameters(), strict=True):
        torch.testing.assert_close(value, other, rtol=1e-4, atol=1e-6, msg=name)


def test_a_group_with_a_scale_learns_at_its_own_rate(make_engine, make_toy):
    stage = make_toy(epochs=1, momentum=0, weight_decay=0)
    before = tensors_of(stage)
    groups = [
        {"params": list(stage.linear[1].parameters()), "lr_scale": 0.0},
        {"params": list(stage.linear[4].parameters())},
    ]
    stage.parameter_groups = lambda: groups
    make_engine().train(stage)
    after = tensors_of(stage)
    assert torch.equal(after["linear.1.weight"], before["linear.1.weight"])
    assert not torch.equal(after["linear.4.weight"], before["linear.4.weight"])


def test_a_frozen_group_wakes_after_its_epochs(make_engine, make_toy):
    for epochs, moved in ((1, False), (2, True)):
        stage = make_toy(epochs=epochs, momentum=0, weight_decay=0)
        before = tensors_of(stage)["linear.1.weight"]
        first, last = list(stage.linear[1].parameters()), list(stage.linear[4].parameters())
        stage.parameter_groups = lambda a=first, b=last: [{"params": a, "frozen_epochs": 1}, {"params": b}]
        make_engine().train(stage)
        assert torch.equal(tensors_of(stage)["linear.1.weight"], before) != moved


def test_a_stage_warns_once(make_engine, make_toy, capsys):
    stage = make_toy()
    stage.warning = lambda figures: "all is one" if figures["loss"] > 0 else None
    make_engine().train(stage)
    assert capsys.readouterr().err == "warning: stage1, step 5: all is one\n"


def test_vectors_escape_weight_decay_when_the_plan_spares_them(make_toy):
    stage = make_toy(decay_vectors=False, weight_decay=0.3)
    matrices, vectors = stage.parameter_groups()
    assert all(p.ndim > 1 for p in matrices["params"])
    assert matrices["weight_decay"] == 0.3
    assert all(p.ndim == 1 for p in vectors["params"])
    assert vectors["weight_decay"] == 0


def test_features_come_in_evaluation_mode_and_leave_the_mode_alone(make_engine, collection):
    engine = make_engine()
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.BatchNorm1d(4))

    class FromBytes(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, images):
            return self.net(images.float())

    module = FromBytes().train()
    got = engine.features(module, collection.train, title="features")
    assert module.training
    torch.testing.assert_close(got, module.eval()(collection.train.images))


@pytest.mark.parametrize(("epochs", "warned"), [(2, True), (3, True), (4, False)])
def test_a_warm_up_that_takes_all_epochs_is_warned_of(make_engine, make_toy, tmp_path, capsys, epochs, warned):
    make_engine(tmp_path / "run").train(make_toy(name="stage2", epochs=epochs, warmup_epochs=3))
    assert ("stage2.warmup_epochs is 3" in capsys.readouterr().err) == warned


@pytest.mark.parametrize(("epochs", "warned"), [(3, True), (4, False)])
def test_milestones_that_never_come_are_warned_of(make_engine, make_toy, tmp_path, capsys, epochs, warned):
    plan = {"epochs": epochs, "schedule": "steps", "milestones": (3, 5)}
    make_engine(tmp_path / "run").train(make_toy(name="stage2", **plan))
    told = "stage2.milestones begin at 3 of 3 epochs, so the learning rate never falls; try stage2.milestones=[1.8,2.4]"
    assert (told in capsys.readouterr().err) == warned
