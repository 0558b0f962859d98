"""The last blocks of a pretrained network learn with head and classifier."""

import contextlib
from types import SimpleNamespace

import embeddings
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from methods_tiny import NeverWaits
from pretrained_package import NAME, coloured_folders, install
from reference import rectified as reference
from safetensors.torch import load_file

from newfound.data.collection import Collection, novel_tasks
from newfound.data.store import ImageStore
from newfound.data.vectors import VectorStore
from newfound.engine import loop
from newfound.engine.stage import Batch
from newfound.errors import Interrupted, UserError
from newfound.methods.apl_features.tuning import Tuning
from newfound.model import Encoder
from newfound.nets import efficientnet
from newfound.nets.heads import CosineClassifier
from newfound.nets.thaw import thaw
from newfound.plan.budget import Clock, plan_epochs
from newfound.plan.recipe import resolve_settings
from newfound.progress import Reporter
from newfound.runs.discovery import discover, resume
from newfound.runs.predict import Predictor

TUNE = {"stage2.epochs": 2, "tune.blocks": 2, "tune.epochs": 3, "tune.batch": 5, "log_every": 2}


@pytest.fixture
def stage():
    """Before its first step: 6 labelled images of two categories, 9 unlabelled ones of two others."""
    torch.manual_seed(0)
    images = ImageStore(torch.randint(0, 256, (15, 3, 32, 32), dtype=torch.uint8))
    labels = np.array([0, 0, 0, 1, 1, 1, *[-1] * 9])
    collection = Collection(images, labels, ("a", "b"), novel_tasks(2, ("", 2, np.arange(6, 15))))
    chosen = resolve_settings("apl-features", "apl-features", TUNE)
    grey = torch.full((3,), 0.5)
    encoder = Encoder(NAME, 3, 32, grey, grey, dimension=4, resized=32, whitened=True).eval()
    thaw(encoder.net, 2)
    with torch.no_grad():
        inputs = encoder.project.directions(encoder.backbone_features(images.images))
    head = CosineClassifier(4, 4)
    made = Tuning(encoder, head, VectorStore(inputs), torch.arange(9) % 2, collection, chosen)
    made.whole, made.collection = [encoder], collection
    return made


def step(stage, t=0):
    engine = loop.Engine(stage.collection, torch.device("cpu"))
    index = stage.sampler.epoch(torch.Generator().manual_seed(t))[0]
    drawn = stage.views.draw(torch.Generator().manual_seed(t), len(index), torch.tensor(t))
    batch = Batch(
        stage.views.apply(engine.train_images.batch(index), drawn), engine.labels[index], index, stage.sampler.n_known
    )
    with NeverWaits():
        return stage.step(batch, torch.tensor(t)), batch


def test_a_step_has_the_rectified_loss_of_the_views(stage):
    stage.train()
    stage.before_epoch(0, None)
    losses, batch = step(stage)
    encoder = stage.whole[0]
    logits = 10 * F.normalize(encoder(batch.views)) @ F.normalize(stage.head.weight).T
    expected = reference.rectified_cross_entropy(logits, stage.targets[batch.index], stage.weights[batch.index])
    torch.testing.assert_close(losses["loss"], expected)


def test_labels_come_from_the_features_that_were_seen_last(stage):
    stage.train()
    _, batch = step(stage)
    features = stage.features()[6:].clone()
    seen = [int(row) for row in batch.index if row >= 6]
    now = F.normalize(stage.whole[0](batch.views)).detach()
    for row in range(6, 15):
        if row in seen:
            torch.testing.assert_close(features[row - 6], now[batch.index.tolist().index(row)])
        else:
            first = F.normalize(stage.whole[0](stage.collection.train.images[row : row + 1])).detach()[0]
            torch.testing.assert_close(features[row - 6], first)
    stage.before_epoch(0, None)
    old = torch.arange(9) % 2
    prototypes = F.normalize(torch.stack([features[old == c].sum(0) for c in range(2)]))
    soft = (features @ prototypes.T / 0.1).softmax(1)
    torch.testing.assert_close(stage.targets[6:, 2:], soft)


def test_batch_norms_keep_their_statistics_in_training(stage):
    before = {name: value.clone() for name, value in stage.net.named_buffers()}
    stage.train()
    step(stage)
    assert not stage.training
    for name, value in stage.net.named_buffers():
        assert torch.equal(value, before[name]), name


def test_views_are_shifted_by_an_eighth_at_most_into_grey(stage):
    drawn = stage.views.draw(torch.Generator().manual_seed(0), 200, torch.tensor(0))
    views = 255 * stage.views.apply(torch.full((200, 3, 32, 32), 255, dtype=torch.uint8), drawn)
    assert views.unique().tolist() == [127, 255]
    for direction in (2, 3):  # of the rows, or columns, that are grey throughout
        assert (views == 127).all(direction).sum(-1).unique().tolist() == [0, 1, 2, 3, 4]


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Two known colours, three images each; six images of two others; a network for images of 32 pixels."""
    monkeypatch.setitem(efficientnet.SCALES, 0, (1.0, 1.0, 32))
    install(tmp_path / "site", monkeypatch)
    return coloured_folders(tmp_path) | {"threads": 1}


def weights(found):
    return load_file(found.folder / "model" / "model.safetensors")


def test_the_model_holds_what_was_tuned_and_the_cache_what_was_not(folders, tmp_path):
    plain = discover(**folders, out=tmp_path / "plain")
    kept = {path: path.read_bytes() for path in (tmp_path / "user-cache").rglob("features-*/*")}
    tuned = discover(**folders, settings=TUNE, out=tmp_path / "tuned")
    assert kept
    assert kept == {path: path.read_bytes() for path in (tmp_path / "user-cache").rglob("features-*/*")}
    before, after = weights(plain), weights(tuned)
    parts = {n.removeprefix("encoder.net.") for n in before if not torch.equal(before[n], after[n]) and ".net." in n}
    assert parts
    assert all(name.startswith(("blocks.14.", "blocks.15.", "conv_head.", "bn1.")) for name in parts)
    assert not any("running" in name for name in parts)
    predictor = Predictor(tuned.folder, device="cpu", reporter=Reporter(quiet=True))
    assert not predictor.model.strangeness_of_backbone  # of the network before it was tuned, the model knows nothing
    assert Predictor(plain.folder, device="cpu", reporter=Reporter(quiet=True)).model.strangeness_of_backbone
    assert predictor._kept is None
    category = dict(zip(tuned.images, zip(tuned.categories, tuned.confidence, strict=True), strict=True))
    for row in predictor.predict([tmp_path / "pile"]):
        name, confidence = category[row.image.removeprefix(f"{tmp_path}/pile/")]
        assert row.category in (name, "red", "blue")
        assert row.category != name or row.confidence <= confidence + 1e-4


def test_predicting_looks_up_what_the_run_has_kept_of_a_frozen_network(folders, tmp_path, monkeypatch):
    found = discover(**folders, out=tmp_path / "run")

    def predict(*paths):
        rows = Predictor(found.folder, device="cpu", reporter=Reporter(quiet=True)).predict(paths)
        return [(row.image, row.category, row.confidence) for row in rows]

    with monkeypatch.context() as patch:
        patch.setattr("newfound.engine.frozen._compute", lambda *_: pytest.fail("what is kept was computed anew"))
        recalled = predict(tmp_path / "pile")
    kept = {path: path.read_bytes() for path in (tmp_path / "user-cache").rglob("features-*/*")}
    for path in kept:
        path.unlink()
    for one, other in zip(recalled, predict(tmp_path / "pile"), strict=True):
        assert one[:2] == other[:2]
        assert one[2] == pytest.approx(other[2], abs=1e-5)
    assert not any((tmp_path / "user-cache").rglob("features-*/*")), "predicting keeps nothing"
    for path, content in kept.items():
        path.write_bytes(content[:-1])
    assert [row[:2] for row in predict(tmp_path / "pile")] == [row[:2] for row in recalled]


def test_a_run_stopped_while_it_tunes_resumes_bit_for_bit(folders, tmp_path, monkeypatch):
    """Stopped with a checkpoint inside an epoch of three steps, or killed in the second one."""
    whole = discover(**folders, settings=TUNE, out=tmp_path / "whole")
    for stop, killed in ((2, False), (5, True)):
        run = tmp_path / f"stopped-{stop}"
        with monkeypatch.context() as patch:
            stop_tuning(patch, stop, killed)
            with pytest.raises(Interrupted):
                discover(**folders, settings=TUNE, out=run)
        assert [int(path.name[-9:]) for path in run.glob("checkpoint/tune-*")] == [3 if killed else stop]
        again = resume(run)
        for name in ("metrics.jsonl", "assignments.csv", "model/model.safetensors"):
            assert (again.folder / name).read_bytes() == (whole.folder / name).read_bytes(), name


def stop_tuning(patch, stop, killed):
    """Ask to stop after so many steps of tuning, or be killed there."""
    asked, ordinary = [False], loop.Training._step

    class Signals(contextlib.nullcontext):
        asked = property(lambda self: asked[0])

    def step(self, index, images):
        ordinary(self, index, images)
        asked[0] = self.stage.name == "tune" and self.done + 1 == stop
        if asked[0] and killed:
            raise Interrupted("killed")

    patch.setattr(loop, "StopSignals", lambda active: Signals())
    patch.setattr(loop.Training, "_step", step)


@pytest.mark.parametrize(
    ("backbone", "blocks", "complaint"),
    [(NAME, 17, "tune.blocks is 17, but the network has 16 blocks"), (None, 1, "given features .* cannot be tuned")],
)
def test_what_cannot_be_tuned_is_said_before_anything_is_made(tmp_path, folders, backbone, blocks, complaint):
    files = folders | {"backbone": backbone} if backbone else embeddings.write(tmp_path / "in") | {"n_novel": 4}
    with pytest.raises(UserError, match=complaint):
        discover(**files, settings={"tune.blocks": blocks}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_estimator_tunes_no_features():
    from newfound import Discoverer

    features, categories = embeddings.vectors()
    model = Discoverer("apl-features", n_novel=4, settings={"tune.blocks": 1})
    with pytest.raises(UserError, match=r"given features .* cannot be tuned"):
        model.fit(features, np.where(categories < 12, categories, -1))


def test_time_counts_what_tuning_takes(stage, tmp_path, monkeypatch):
    install(tmp_path / "site", monkeypatch)
    monkeypatch.setattr("newfound.methods.parts.backbone.seconds_per_image", lambda *_, **__: 60.0)
    call = SimpleNamespace(device="cpu", seed=0, cache=str(tmp_path / "cache"))
    planned = plan_epochs(stage.chosen, stage.collection, call, Clock(300, 0.0), (), free=True)
    # 15 images whose features are new, three epochs of 15 that count twice, and their features once more.
    assert planned.warnings[0].startswith("reading features and tuning takes about 2:00:00, more than 5:00 hold")
