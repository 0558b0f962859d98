"""Steps captured as a graph do what steps launched kernel by kernel do."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

from newfound.data.collection import Collection
from newfound.data.digits import read_digits
from newfound.engine import loop
from newfound.engine.capture import WARM_UP, Captured
from newfound.engine.loop import Engine, Training
from newfound.engine.snapshots import make_snapshots
from newfound.engine.stage import Stage
from newfound.methods.parts.representation import Representation
from newfound.methods.parts.swapped import SwappedPrediction
from newfound.methods.parts.views import make_views
from newfound.model import Encoder
from newfound.nets.heads import CosineClassifier
from newfound.plan.recipe import resolve_settings
from newfound.progress import Reporter

pytestmark = pytest.mark.gpu
STEPS = 50


@pytest.fixture
def exact(monkeypatch):
    """float32 throughout, and the same algorithms each time."""
    monkeypatch.setattr(loop, "precision", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)


SWAPPED = {"prototypes.labels_from": "swapped", "prototypes.balance": "batch"}
FIRST = {"prototypes.balance": "first_of_epoch"}


def representation(encoder: Encoder, collection: Collection, **changes: Any) -> Representation:
    return Representation(encoder, collection, resolve_settings("apl", "apl-digits", changes))


def swapped_prediction(encoder: Encoder, collection: Collection, **changes: Any) -> SwappedPrediction:
    """With everything that UNO and IIC have."""
    more = {"views.padded": 0.5, "views.solarise": [0.5, 0.5, 0.5], "views.equalise": [0.5, 0.5, 0.5]}
    settings = resolve_settings("iic", "iic-digits", changes | more)
    known = CosineClassifier(encoder.width, len(collection.classes))
    return SwappedPrediction(encoder, known, collection, settings, make_views(settings.views, encoder.size))


def losses_of(
    make: Callable[..., Stage], network: str, domain: str, capture: bool, labels: dict[str, Any]
) -> tuple[list[dict[str, float]], bool]:
    collection = read_digits(0).collection
    torch.manual_seed(0)
    engine = Engine(collection, torch.device("cuda"), capture=capture)
    encoder = Encoder(network, 1, 8, torch.tensor([0.3]), torch.tensor([0.4]))
    stage = make(encoder, collection, network=network, **{"views.domain": domain, **labels})
    stage.cuda()
    training = Training(engine, stage)
    training.generator.manual_seed(1)
    stage.before_epoch(0, engine)
    stage.train()
    order = torch.cat([stage.sampler.epoch(torch.Generator().manual_seed(epoch)) for epoch in range(30)])
    found = []
    for index, images in engine.train_images.batches(order[:STEPS]):
        training.step(index, images)
        found.append({name: float(total) for name, total in training.sums.items()})
        for total in training.sums.values():
            total.zero_()
        if len(found) == STEPS // 2:
            training.generator.manual_seed(2)  # as a new epoch does
    captured = isinstance(training.step, Captured) and training.step.graph is not None
    return found, captured


@pytest.mark.parametrize(
    ("make", "network", "domain", "labels"),
    [
        pytest.param(representation, "tiny", "symbolic", {}, id="tiny"),
        pytest.param(representation, "resnet18", "natural", {}, id="resnet18"),
        pytest.param(representation, "resnet18", "natural", SWAPPED, id="swapped"),
        pytest.param(representation, "resnet18", "natural", FIRST, id="first of epoch"),
        pytest.param(swapped_prediction, "resnet18", "natural", {}, id="several heads"),
    ],
)
def test_captured_and_eager_steps_agree_over_fifty_steps(exact, make, network, domain, labels):
    eager, was_captured = losses_of(make, network, domain, capture=False, labels=labels)
    assert not was_captured
    captured, was_captured = losses_of(make, network, domain, capture=True, labels=labels)
    assert was_captured
    print(network, eager[0]["loss"], captured[0]["loss"], eager[-1]["loss"], captured[-1]["loss"])
    for t in range(STEPS):
        tolerance = 1e-4 if t < 10 else 2e-2
        assert captured[t]["loss"] == pytest.approx(eager[t]["loss"], rel=tolerance), t


def test_draws_continue_and_restart_as_they_do_without_a_graph():
    sequences = []
    for capture in (False, True):
        generator = torch.Generator("cuda").manual_seed(3)
        drawn = torch.zeros(4, device="cuda")

        def draw(_, drawn=drawn, generator=generator):
            drawn.copy_(torch.rand(4, generator=generator, device="cuda"))

        step = Captured(draw, generator, Reporter(quiet=True)) if capture else draw
        found = []
        for i in range(12):
            if i == 8:
                generator.manual_seed(5)
            step(torch.zeros(1, device="cuda"))
            found.append(drawn.tolist())
        sequences.append((found, generator.get_state().tolist()))
    assert sequences[0] == sequences[1]


def test_a_step_that_waits_for_the_device_goes_on_kernel_by_kernel(capsys):
    torch.cuda.manual_seed(7)
    usual = torch.rand(2, device="cuda").tolist()
    torch.cuda.manual_seed(7)
    total, drawn = torch.zeros((), device="cuda"), []
    generator = torch.Generator("cuda").manual_seed(3)

    def step(value):
        drawn.append(torch.rand(2, generator=generator, device="cuda"))
        total.add_(float(value.sum()))

    captured = Captured(step, generator, Reporter())
    for _ in range(WARM_UP + 3):
        captured(torch.ones(2, device="cuda"))
    assert float(total) == 2 * (WARM_UP + 3)
    assert captured.graph is None
    assert "kernel by kernel" in capsys.readouterr().err
    plain = torch.Generator("cuda").manual_seed(3)
    expected = [torch.rand(2, generator=plain, device="cuda").tolist() for _ in range(WARM_UP + 3)]
    attempt = drawn.pop(WARM_UP)  # drawn while it was to be captured: no numbers at all
    assert attempt.shape == (2,)
    assert [values.tolist() for values in drawn] == expected
    assert torch.rand(2, device="cuda").tolist() == usual  # torch's own draws were not touched either


def test_snapshots_leave_captured_steps_as_they_are(exact, tmp_path):
    def trained(wanted: list[tuple[str, int]]) -> dict[str, torch.Tensor]:
        collection = read_digits(0).collection
        torch.manual_seed(0)
        engine = Engine(collection, torch.device("cuda"))
        names = [f"{row:04d}" for row in range(collection.n_unlabelled)]
        engine.snapshots = make_snapshots(tmp_path / "snapshots", wanted, collection, names, 0)
        encoder = Encoder("tiny", 1, 8, torch.tensor([0.3]), torch.tensor([0.4]))
        stage = representation(encoder, collection, **{"stage1.epochs": 3})
        engine.train(stage)
        return stage.state_dict()

    plain, watched = trained([]), trained([("stage1", 1), ("stage1", 2)])
    assert len(list((tmp_path / "snapshots").iterdir())) == 2
    assert all(torch.equal(value, watched[name]) for name, value in plain.items())
