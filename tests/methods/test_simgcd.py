"""SimGCD: its terms, over features, tuned blocks and a fresh network, in mixed piles and others."""

import copy
import dataclasses
import functools

import embeddings
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from methods_tiny import NeverWaits, one_step, quick
from pretrained_package import coloured_folders, install
from reference import contrastive, distillation, evenness
from reference import supcon as with_labels
from safetensors.torch import load_file
from test_every_method import stop_at

from newfound import Discoverer
from newfound.data.collection import Collection, novel_tasks
from newfound.data.digits import read_digits
from newfound.data.vectors import VectorStore
from newfound.engine.loop import Engine
from newfound.errors import Interrupted, UserError
from newfound.evaluate.accuracy import clustering_accuracy
from newfound.evaluate.protocol import evaluate_mixed
from newfound.methods.base import run_method
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.views import make_views
from newfound.methods.simgcd import Discovery, SimGCD, TeacherSettings, falling
from newfound.model import load_model
from newfound.nets import efficientnet
from newfound.plan.recipe import resolve_settings
from newfound.runs.discovery import discover, resume
from newfound.views.dropout import FeatureDropout
from newfound.views.twice import Twice

SHORT = {"train.epochs": 3, "train.batch": 6, "contrast.hidden": 8, "contrast.out": 4, "log_every": 2}


def begin(collection, **changes):
    torch.manual_seed(0)
    settings = quick("simgcd", **changes)
    encoder = make_encoder(settings.network, collection, None)
    views = make_views(settings.views, encoder.size, extra=0)
    return Discovery(encoder, encoder.width, collection, settings, views), Engine(collection, torch.device("cpu"))


def mixed_pile(digits):
    """The digits' pile of 150, taken to be mixed: labelled digits may be in it."""
    return dataclasses.replace(digits, tasks=novel_tasks(5, ("", 5, np.arange(120, 270)), mixed=True))


def expected_terms(stage, batch, temperature):
    """Each term by its definition, from what the stage's networks say."""
    first, labels = batch.n_known, batch.labels
    with torch.no_grad():
        features = stage.train().encode(batch.views.whole.flatten(0, 1))
        cosines = (F.normalize(features) @ F.normalize(stage.head.weight).T).double().unflatten(0, (2, -1))
        outputs = stage.projection(features).double().unflatten(0, (2, -1))
    picked = -(cosines[:, :first] / 0.1).log_softmax(-1)[:, torch.arange(first), labels[:first]]
    part = cosines if stage.mixed else cosines[:, first:, 5:]
    allowed = torch.ones(part.shape[1:], dtype=torch.bool)
    nothing = torch.zeros(part.shape[-1])
    of_all = contrastive.nt_xent(outputs, 1.0)
    of_known = with_labels.joint_contrast(outputs[:, :first], labels[:first], 0.07)
    return {
        "supervised": picked.mean(),
        "distillation": distillation.self_distillation(part, part, nothing, 0.1, temperature),
        "unevenness": evenness.unevenness(part / 0.1, allowed),
        "contrast": of_all + of_known,
        "loss": 0.35 * (picked.mean() + of_known) + 0.65 * of_all,
    }


@pytest.mark.parametrize("mixed", [True, False])
def test_a_step_has_the_terms_that_were_published(digits, mixed):
    """In a mixed pile all images are distilled and spread over all categories, in another one those of the pile over
    the novel categories alone."""
    stage, engine = begin(mixed_pile(digits) if mixed else digits)
    twin = copy.deepcopy(stage)
    parts, batch = one_step(stage, engine, t=0)
    expected = expected_terms(twin, batch, temperature=0.04)  # of two epochs it falls over none
    whole = expected["loss"] + 0.65 * (expected["distillation"] + stage.chosen.even * expected["unevenness"])
    for name, value in (expected | {"loss": whole}).items():
        assert parts[name].item() == pytest.approx(float(value), rel=1e-3), name


def test_weights_multiply_their_terms(digits):
    changes = {"supervised": 0.2, "distillation": 3.0, "even": 5.0, "contrast.weight": 0.0}
    stage, engine = begin(digits, **changes)
    parts, _ = one_step(stage, engine)
    of_views = 3 * parts["distillation"] + 5 * parts["unevenness"]
    assert parts["loss"].item() == pytest.approx((0.2 * parts["supervised"] + 0.8 * of_views).item(), rel=1e-5)


def test_the_teacher_s_temperature_falls_over_the_first_epochs_as_published():
    found = falling(TeacherSettings(), 200, 2)
    assert found[::2].tolist() == found[1::2].tolist()
    np.testing.assert_allclose(found[:60:2], np.linspace(0.07, 0.04, 30))
    assert (found[60:] == 0.04).all()


def test_an_image_is_spread_over_the_categories_of_its_own_task(digits):
    tasks = novel_tasks(5, ("A", 2, np.arange(120, 190)), ("B", 3, np.arange(190, 270)))
    stage, engine = begin(dataclasses.replace(digits, tasks=tasks))
    assert stage.allowed[:70].float().mean(0).tolist() == [0] * 5 + [1] * 2 + [0] * 3
    assert stage.allowed[70:].float().mean(0).tolist() == [0] * 7 + [1] * 3
    parts, _ = one_step(stage, engine)
    assert all(value.isfinite() for value in parts.values())


def test_a_step_never_waits(digits):
    stage, engine = begin(digits)
    _, batch = one_step(stage, engine)
    step = torch.tensor(1)
    with NeverWaits():
        stage.step(batch, step)


def test_two_views_are_drawn_apart_by_the_same_rule():
    twice = Twice(FeatureDropout(400, 0.5))
    images = torch.ones(3, 400, 1, 1)
    seen = twice.apply(images, twice.draw(torch.Generator().manual_seed(0), 3, torch.tensor(0)))
    assert seen.shape == (2, 3, 400)
    assert seen.unique().tolist() == [0, 2]
    together = (seen[0] == seen[1]).float().mean()
    assert together.item() == pytest.approx(0.5, abs=0.05)


# Over given features


@pytest.mark.parametrize("mixed", [False, True])
def test_it_finds_the_categories_among_features(mixed):
    features, categories = embeddings.vectors()
    hidden = (categories >= embeddings.KNOWN) | (mixed & (np.arange(len(features)) % 3 == 0))
    order = np.argsort(hidden, kind="stable")
    known, truth = int((~hidden).sum()), categories[order]
    labels = np.where(hidden[order], -1, truth)
    tasks = novel_tasks(embeddings.KNOWN, ("", embeddings.NOVEL, np.arange(known, len(order))), mixed=mixed)
    names = tuple(f"c{i:02d}" for i in range(embeddings.KNOWN))
    collection = Collection(VectorStore(features[order]), labels, names, tasks)
    of_few_numbers = {"network": "features", "dropout": 0.5, "train.epochs": 60}  # 24, of which 8 say something
    settings = resolve_settings("simgcd", "simgcd-folder", of_few_numbers)
    outcome = run_method(settings, collection, Engine(collection, torch.device("cpu")))
    found, truth = outcome.assignments, truth[known:]
    assert clustering_accuracy(found, truth) > 0.85
    assert mixed or (found >= embeddings.KNOWN).all()
    assert ((found < embeddings.KNOWN) == (truth < embeddings.KNOWN)).mean() > 0.9


def test_a_frozen_network_stays_and_the_small_layer_over_its_features_learns(digits):
    features = torch.from_numpy(embeddings.vectors()[0])[:270]
    collection = Collection(VectorStore(features), digits.labels, digits.classes, digits.tasks)
    settings = resolve_settings("simgcd", "simgcd-folder", SHORT | {"network": "features"})
    outcome = SimGCD(settings).fit(collection, Engine(collection, torch.device("cpu")))
    assert torch.equal(outcome.backbone_features, features)
    assert outcome.backbone_unchanged
    before, after = outcome.features_before_stage2, outcome.features
    assert before.shape == after.shape
    assert not torch.allclose(before, after, atol=1e-3)
    with torch.no_grad():
        again = F.normalize(outcome.model.features(features[:, :, None, None]))
    torch.testing.assert_close(again, after, rtol=1e-4, atol=1e-5)


def test_the_estimator_takes_it_for_features_and_for_images():
    features, categories = embeddings.vectors()
    labels = np.where(categories < embeddings.KNOWN, categories, -1)
    found = Discoverer("simgcd", n_novel=4, settings={"train.epochs": 40, "dropout": 0.5}, random_state=0).fit(
        features, labels
    )
    assert (
        clustering_accuracy(np.unique(found.labels_[labels < 0], return_inverse=True)[1], categories[labels < 0]) > 0.8
    )


# Over a pretrained network


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Two known colours, three images each; six images of two others; a network for images of 32 pixels."""
    monkeypatch.setitem(efficientnet.SCALES, 0, (1.0, 1.0, 32))
    install(tmp_path / "site", monkeypatch)
    return coloured_folders(tmp_path) | {"threads": 1, "method": "simgcd"}


def weights(folder):
    return load_file(folder / "model" / "model.safetensors")


@pytest.mark.parametrize(("blocks", "mixed"), [(0, True), (2, False)], ids=["frozen", "tuned"])
def test_a_run_over_a_pretrained_network_resumes_bit_for_bit(folders, blocks, mixed, tmp_path, monkeypatch):
    settings = SHORT | {"tune.blocks": blocks}
    whole = discover(**folders, settings=settings, mixed=mixed, out=tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_at(patch, 4)
        with pytest.raises(Interrupted, match="of train"):
            discover(**folders, settings=settings, mixed=mixed, out=tmp_path / "stopped")
    again = resume(tmp_path / "stopped")
    for name in ("metrics.jsonl", "assignments.csv", "model/model.safetensors"):
        assert (again.folder / name).read_bytes() == (whole.folder / name).read_bytes(), name


def test_tuning_changes_the_last_blocks_and_no_statistics(folders, tmp_path):
    frozen = discover(**folders, settings=SHORT, out=tmp_path / "frozen")
    tuned = discover(**folders, settings=SHORT | {"tune.blocks": 2}, out=tmp_path / "tuned")
    before, after = weights(frozen.folder), weights(tuned.folder)
    parts = {n.removeprefix("encoder.net.") for n in before if not torch.equal(before[n], after[n]) and ".net." in n}
    assert parts
    assert all(name.startswith(("blocks.14.", "blocks.15.", "conv_head.", "bn1.")) for name in parts)
    assert not any("running" in name for name in parts)
    assert load_model(frozen.folder / "model").strangeness_of_backbone
    assert not load_model(tuned.folder / "model").strangeness_of_backbone


def test_a_time_is_kept_by_the_tuned_network_and_frozen_features_take_theirs(folders, tmp_path):
    assert SimGCD(resolve_settings("simgcd", "simgcd-folder", {})).stretched == ""
    assert SimGCD(resolve_settings("simgcd", "simgcd-folder", {"tune.blocks": 1})).stretched == "train"
    assert SimGCD(resolve_settings("simgcd", "simgcd-folder", {"network": "tiny"})).stretched == "train"
    short = {name: value for name, value in SHORT.items() if name != "train.epochs"}
    found = discover(**folders, settings=short | {"tune.blocks": 1}, time="8s", out=tmp_path / "run")
    epochs = next(choice for choice in found.result["auto"] if choice["what"] == "epochs")
    assert 1 <= int(epochs["value"]) <= 500


def test_a_fresh_network_is_what_a_network_without_weights_is(folders, tmp_path):
    del folders["backbone"]
    found = discover(**folders, settings=SHORT | {"network": "tiny"}, out=tmp_path / "run")
    model = load_model(found.folder / "model")
    assert model.encoder.network == "tiny"
    assert model.encoder.resized == 0
    assert model.encoder.size <= 32


def test_no_block_of_given_features_can_be_tuned(tmp_path):
    files = embeddings.write(tmp_path / "in") | {"n_novel": 4, "method": "simgcd"}
    with pytest.raises(UserError, match=r"given features .* cannot be tuned"):
        discover(**files, settings={"tune.blocks": 1}, out=tmp_path / "run")


def test_given_features_are_of_no_network_that_settings_name(tmp_path):
    files = embeddings.write(tmp_path / "in") | {"n_novel": 4, "method": "simgcd"}
    with pytest.raises(UserError, match="settings must not name its network"):
        discover(**files, settings={"network": "resnet18"}, out=tmp_path / "run")


# What it is good for


@functools.cache
def on_digits(without=None):
    """The share of a mixed pile's images that are right, over two seeds; with the weight of one term at 0."""
    shares = []
    for seed in (0, 1):
        reading = read_digits(seed, mixed=True)
        settings = resolve_settings("simgcd", "simgcd-digits", {"train.epochs": 15} | ({without: 0} if without else {}))
        outcome = run_method(settings, reading.collection, Engine(reading.collection, torch.device("cpu"), seed=seed))
        names = [outcome.model.classes[i] for i in outcome.assignments]
        shares.append(evaluate_mixed(names, reading.answers.unlabelled, outcome.model.known)["all"])
    return np.mean(shares)


@pytest.mark.slow
@pytest.mark.parametrize("term", ["distillation", "even", "supervised"])
def test_without_a_term_fewer_digits_are_right(term):
    """Five points at least. Contrast is no such term: docs/methods/simgcd.md has figures."""
    assert on_digits() >= on_digits(term) + 0.05
