"""WTA-NCD: contrast, pairs by winner-take-all codes, and the threshold from which on images are alike."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from methods_tiny import NeverWaits, one_step, resumes
from reference import matching, pairwise
from reference import supcon as contrast
from reference import wta as hashing

from newfound.data.collection import novel_tasks
from newfound.data.digits import read_digits
from newfound.data.look import Look
from newfound.engine.checkpoint import Checkpoints
from newfound.engine.loop import Engine
from newfound.errors import UserError
from newfound.methods.base import run_method
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.views import make_views
from newfound.methods.wta import WTA, Discovery
from newfound.model.model import load_model
from newfound.plan.recipe import resolve_settings
from newfound.progress import Reporter

TINY = {"discovery.epochs": 2, "discovery.warmup_epochs": 0, "discovery.batch": 32, "hash.codes": 40}


def chosen(**changes):
    return resolve_settings("wta", "wta-digits", TINY | {k.replace("__", "."): v for k, v in changes.items()})


def begin(collection, **changes):
    torch.manual_seed(0)
    settings = chosen(**changes)
    stage = Discovery(make_encoder(settings.network, collection, None), collection, settings)
    return stage, Engine(collection, torch.device("cpu"))


def run(collection, folder=None, seed=0, **changes):
    checkpoints = Checkpoints(folder, Reporter(quiet=True)) if folder else None
    engine = Engine(collection, torch.device("cpu"), seed=seed, checkpoints=checkpoints)
    return run_method(chosen(**changes), collection, engine)


def two_tasks(digits):
    """70 images that may be 5 or 6, and 80 that may be 7, 8 or 9."""
    tasks = novel_tasks(5, ("A", 2, np.arange(120, 190)), ("B", 3, np.arange(190, 270)))
    return dataclasses.replace(digits, tasks=tasks)


@torch.no_grad()
def seen(stage, batch):
    """Features [2, n, D] and outputs for contrast [2, n, O] of both views."""
    features = stage.train().encoder(batch.views.whole.flatten(0, 1))
    return features.unflatten(0, (2, -1)), stage.projection(features).unflatten(0, (2, -1)).double()


# A step


def test_the_loss_is_contrast_cross_entropy_pairs_and_consistency(digits):
    stage, engine = begin(digits, pairwise=0.7, consistency=3.0, discovery__epochs=4, rising=0.5, hash__threshold=22)
    twin, last = copy.deepcopy(stage), 3 * stage.sampler.steps
    parts, batch = one_step(stage, engine, last)
    features, outputs = seen(twin, batch)
    n, labels = batch.n_known, batch.labels
    logits = twin.head(features).detach().double()
    known, novel = logits[..., :5].softmax(-1), logits[..., 5:].softmax(-1)
    codes = hashing.codes(features[0, n:], twin.windows.tolist())
    alike = [[hashing.shared(a, b) >= 22 for b in codes] for a in codes]
    expected = {
        "contrast": contrast.joint_contrast(outputs, labels, 0.1),
        "supervised": sum(-known[v, i, labels[i]].log() for v in range(2) for i in range(n)) / (2 * n),
        "pairwise": pairwise.likelihood(novel[0, n:], novel[1, n:], alike),
        "consistency": (known[0] - known[1]).square().mean() + (novel[0] - novel[1]).square().mean(),
        "pairs_alike": np.mean(alike),
    }
    for name, value in expected.items():
        assert parts[name].item() == pytest.approx(float(value), rel=1e-3), name
    assert 1 / len(codes) < np.mean(alike) < 1, "some pairs are alike and some are not"
    whole = expected["contrast"] + expected["supervised"] + 0.7 * expected["pairwise"] + 3 * expected["consistency"]
    assert parts["loss"].item() == pytest.approx(float(whole), rel=1e-3)


def test_every_term_teaches_the_encoder_and_codes_do_not(digits):
    stage, engine = begin(digits)
    parts, _ = one_step(stage, engine)
    weights = list(stage.encoder.net.parameters())
    for name in ("contrast", "supervised", "pairwise", "consistency"):
        slopes = torch.autograd.grad(parts[name], weights, retain_graph=True)
        assert all(slope.abs().sum() > 0 for slope in slopes), name
    assert not parts["pairs_alike"].requires_grad


def test_pairs_teach_the_novel_part_of_the_head_alone(digits):
    stage, engine = begin(digits)
    parts, _ = one_step(stage, engine)
    (slope,) = torch.autograd.grad(parts["pairwise"], stage.head.weight, retain_graph=True)
    assert slope[:5].eq(0).all()
    assert slope[5:].abs().sum() > 0
    (slope,) = torch.autograd.grad(parts["supervised"], stage.head.weight)
    assert slope[:5].abs().sum() > 0
    assert slope[5:].eq(0).all()


def test_consistency_counts_little_at_first_and_in_full_once_it_has_risen(digits):
    stage, _ = begin(digits, consistency=5.0, rising=0.25, discovery__epochs=8)
    by_epoch = stage.weight[:: stage.sampler.steps]
    assert float(by_epoch[0]) == pytest.approx(5 * np.exp(-5), rel=1e-5)
    assert 0 < float(by_epoch[1]) < 5
    assert by_epoch[2:].eq(5).all()


def test_a_step_never_waits(digits):
    stage, engine = begin(two_tasks(digits))
    _, batch = one_step(stage, engine)
    step = torch.tensor(1)
    with NeverWaits():
        stage.step(batch, step)["loss"].backward()
        stage.after_step(step)


# The threshold


def test_at_first_only_images_that_share_all_codes_are_alike(digits):
    stage, engine = begin(digits)
    stage.before_epoch(0, engine)
    parts, _ = one_step(stage, engine)
    assert int(stage.threshold) == 40
    assert parts["pairs_alike"].item() < 0.1


def test_the_threshold_is_chosen_by_the_labelled_pairs_of_the_epoch_before(digits):
    stage, engine = begin(digits, discovery__batch=64)
    codes, labels = [], []
    for t in range(2):
        twin = copy.deepcopy(stage)
        _, batch = one_step(stage, engine, t)
        features, _ = seen(twin, batch)
        codes.append(hashing.codes(features[0, : batch.n_known], stage.windows.tolist()))
        labels.append(batch.labels[: batch.n_known].tolist())
    pairs = [
        (hashing.shared(own[i], own[j]), true[i] == true[j])
        for own, true in zip(codes, labels, strict=True)
        for i in range(len(own))
        for j in range(len(own))
        if i != j
    ]
    stage.before_epoch(1, engine)
    assert int(stage.threshold) == hashing.best_threshold(pairs, 40, 1 / 5) < 40
    assert stage.labelled_pairs.eq(0).all(), "the next epoch counts anew"


def test_labelled_pairs_count_as_rare_as_those_of_a_tasks_novel_categories(digits):
    assert begin(digits)[0].same_share == pytest.approx(1 / 5)
    assert begin(two_tasks(digits))[0].same_share == pytest.approx(2 / 5), "2 and 3 categories: pairs among 2.5"


def test_a_threshold_that_is_given_stays(digits):
    stage, engine = begin(digits, hash__threshold=17)
    one_step(stage, engine)
    stage.before_epoch(1, engine)
    assert int(stage.threshold) == 17


def test_labelled_images_of_which_no_two_are_of_one_category_leave_the_threshold_alone(digits):
    stage, engine = begin(digits)
    stage.labelled_pairs[0, 3] = 10
    stage.before_epoch(1, engine)
    assert int(stage.threshold) == 40


# Tasks, the outcome, resuming


def test_images_of_a_task_get_no_probability_of_another_tasks_categories(digits):
    stage, engine = begin(two_tasks(digits))
    tasks = set()
    for t in range(6):
        _, batch = one_step(stage, engine, t)
        own = slice(0, 2) if batch.index[batch.n_known] < 190 else slice(2, 5)
        assert ((batch.index[batch.n_known :] < 190) == (own.start == 0)).all(), "a batch is of one task"
        features, _ = seen(stage, batch)
        novel = stage._logits(features.flatten(0, 1), batch)[1].softmax(-1)
        torch.testing.assert_close(novel[:, batch.n_known :, own].sum(-1), torch.ones(2, 32 - batch.n_known))
        assert (novel[:, : batch.n_known] > 0).all(), "labelled images are of no task"
        tasks.add(own.start)
    assert tasks == {0, 2}


def test_every_task_keeps_to_its_own_categories(digits):
    outcome = run(two_tasks(digits))
    assert set(outcome.assignments[:70]) <= {5, 6}
    assert set(outcome.assignments[70:]) <= {7, 8, 9}
    assert outcome.model.classes[5:] == ("A/novel-01", "A/novel-02", "B/novel-01", "B/novel-02", "B/novel-03")


def test_the_saved_model_answers_with_both_parts_of_the_head(digits, tmp_path):
    outcome = run(digits, discovery__epochs=20)
    outcome.model.save(tmp_path / "model")
    model, images = load_model(tmp_path / "model"), digits.train.images
    with torch.no_grad():
        logits = model(images)
    assert torch.equal(5 + logits[120:, 5:].argmax(1), torch.from_numpy(outcome.assignments))
    right = logits[:120, :5].argmax(1) == torch.from_numpy(digits.labels[:120])
    assert right.float().mean() > 0.9, "known categories are learned beside"
    said_known = logits.argmax(1) < 5
    assert said_known[:120].float().mean() > 0.6, "known images are told from novel ones"
    assert (~said_known[120:]).float().mean() > 0.6


def test_a_stopped_run_resumes_bit_for_bit(digits, tmp_path, monkeypatch):
    # Step 6 is in the second epoch: its threshold is from the first, and pairs have been counted.
    def three_epochs(folder):
        return run(digits, folder, discovery__epochs=3, discovery__batch=64)

    assert resumes(three_epochs, Discovery, 6, monkeypatch, tmp_path)


# What it is good for


@pytest.mark.parametrize("seed", [0, 1])
def test_pairs_find_the_novel_categories(seed, digits):
    truth = read_digits(0).answers.unlabelled[:150]

    def accuracy(pairs):
        changes = {"discovery__epochs": 25, "discovery__batch": 64, "hash__codes": 512}
        return matching.accuracy(run(digits, seed=seed, pairwise=pairs, **changes).assignments.tolist(), truth)

    assert accuracy(1.0) > accuracy(0.0) + 0.05


# What is chosen and checked before a run


def test_symbols_of_a_folder_are_neither_cropped_nor_mirrored_nor_solarised():
    look = Look(images=100, side=40, background=250, share=0.8, colour=0.0)
    changes = {key: value for fit in WTA.fitted(look, "symbolic", "cpu", {}) for key, value in fit.changes.items()}
    settings = resolve_settings("wta", "wta-folder", changes)
    views = make_views(settings.views, 32, extra=0)
    assert not views.geometric
    assert views.padded == 0
    assert not any(views.solarise)


def test_settings_that_cannot_be_right_are_refused():
    with pytest.raises(UserError, match=r"hash.threshold is 41, but images have no more than 40 codes"):
        WTA(chosen(hash__threshold=41)).check_settings()
    WTA(chosen(hash__threshold=40)).check_settings()
    with pytest.raises(UserError, match=r"hash.window is 129, but the features have 128 dimensions"):
        WTA(chosen(hash__window=129)).check((1, 8, 8))
    WTA(chosen(hash__window=128)).check((1, 8, 8))
    with pytest.raises(UserError, match="blur_kernel"):
        WTA(chosen(views__blur=[0.5, 0.5, 0.5], views__domain="symbolic")).check((1, 3, 3))
