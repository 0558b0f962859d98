"""How features are read after stage I, and how images are weighed in stage II, beside the usual way."""

import copy

import pytest
import torch
import torch.nn.functional as F
from methods_tiny import NeverWaits, chosen, fit

from newfound.cluster.kmeans import kmeans
from newfound.engine.features import refresh_statistics
from newfound.engine.loop import Engine
from newfound.engine.stage import Batch
from newfound.errors import UserError
from newfound.methods.apl.method import mirror_averaged
from newfound.methods.apl.selftraining import SelfTraining, class_means
from newfound.model import Encoder, Model
from newfound.nets.heads import classifier
from newfound.progress import Reporter
from newfound.views.multiview import Crops


def make_selftraining(digits, **changes):
    """A stage whose prototypes are those of its labels, but for one that lies opposite to its images."""
    torch.manual_seed(0)
    settings = chosen(selftraining__rectify_each="step", **changes)
    encoder = Encoder("tiny", 1, 8, torch.tensor([0.3]), torch.tensor([0.4]))
    labels = torch.cat([torch.from_numpy(digits.labels[:120]), 5 + torch.arange(150) % 5])
    prototypes = class_means(encoder(digits.train.images).detach(), labels, 10)
    prototypes[7] *= -1
    weights = torch.full((270,), 0.123)
    weights[:120] = 1
    head = classifier("linear", encoder.width, 10, 0.1)
    return SelfTraining(1, encoder, head, digits, settings, labels, weights, prototypes).train()


def batch_of(stage, digits):
    index = stage.sampler.epoch(torch.Generator().manual_seed(0))[0]
    drawn = stage.views.draw(torch.Generator().manual_seed(0), len(index), torch.tensor(0))
    return Batch(stage.views.apply(digits.train.images[index], drawn), torch.from_numpy(digits.labels)[index], index)


@pytest.mark.parametrize("views", ["whole", "crop"])
def test_weights_of_each_step_are_the_cosines_of_its_views_without_gradient(digits, views):
    stage = make_selftraining(digits, selftraining__views=views)
    batch = batch_of(stage, digits)
    images = batch.views.whole.flatten(0, 1) if isinstance(batch.views, Crops) else batch.views
    twin = copy.deepcopy(stage)
    features = twin.encoder(images)
    logs = twin.head(features).log_softmax(1)
    weights, total = [], torch.zeros(())
    for row in range(len(images)):
        image = int(batch.index[row % len(batch.index)])
        label = int(stage.labels[image])
        cosine = float(F.cosine_similarity(features[row].detach(), stage.prototypes[label], dim=0))
        weights.append(1.0 if image < 120 else min(max(cosine, 0.0), 1.0))
        total = total - weights[-1] * logs[row, label]
    assert 0.0 in weights
    assert any(0.2 < w < 1 for w in weights)
    parts = stage.step(batch, torch.tensor(0))
    torch.testing.assert_close(parts["loss"], total / len(images))
    assert float(parts["weight"]) == pytest.approx(sum(weights) / len(weights), rel=1e-5)
    parts["loss"].backward()
    (total / len(images)).backward()
    for (name, a), b in zip(stage.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, msg=name, rtol=1e-3, atol=1e-6)


def test_a_step_with_weights_of_its_own_never_waits_for_the_device(digits):
    stage = make_selftraining(digits)
    batch = batch_of(stage, digits)
    with NeverWaits():
        stage.step(batch, torch.tensor(0))["loss"].backward()


@pytest.mark.parametrize("way", ["relative", "none"])
def test_weights_of_each_step_are_plain_cosines(way):
    with pytest.raises(UserError, match=f"selftraining.rectify_each=step needs rectify=cosine, not {way}"):
        chosen(selftraining__rectify_each="step", selftraining__rectify=way)


def test_features_may_be_read_with_the_statistics_of_plain_images(digits):
    def encoder(**changes):
        return fit(digits, stage1__epochs=1, selftraining__iterations=0, **changes).model.encoder

    plain, refreshed = encoder(), encoder(refresh_norm=True)
    refresh_statistics(plain, digits.train, torch.device("cpu"), Reporter(quiet=True))
    for (name, a), b in zip(plain.state_dict().items(), refreshed.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    assert not torch.equal(encoder().net.blocks[1].running_mean, refreshed.net.blocks[1].running_mean)


@pytest.mark.parametrize("unit", [False, True])
def test_features_averaged_over_mirror_images_do_not_know_left_from_right(digits, unit):
    encoder = Encoder("tiny", 1, 8, torch.tensor([0.3]), torch.tensor([0.4]))
    model = Model(encoder, ("a",), ("b",), method="apl", unit_features=unit).eval()
    images = digits.train.images[:20]
    read = mirror_averaged(model)
    assert torch.equal(read(images), read(images.flip(-1)))
    assert not torch.allclose(model.features(images), model.features(images.flip(-1)), atol=1e-3)
    mirrored = torch.stack([image[:, :, [7, 6, 5, 4, 3, 2, 1, 0]] for image in images])
    mean = (encoder(images) + encoder(mirrored)) / 2
    torch.testing.assert_close(read(images), mean / mean.norm(dim=1, keepdim=True) if unit else mean)


@pytest.mark.parametrize("average", [False, True])
def test_clusters_and_the_labels_of_stage_2_come_from_the_features_that_were_asked_for(digits, average):
    engine = Engine(digits, torch.device("cpu"))

    def read(model, averaged):
        of = mirror_averaged(model) if averaged else model.features
        return engine.features(model, digits.train.take(digits.unlabelled), title="", of=of)

    first = fit(digits, stage1__epochs=1, selftraining__iterations=0, flip_average=average)
    clusters = {a: kmeans(read(first.model, a), 5, starts=20, seed=0).labels for a in (False, True)}
    assert first.assignments.tolist() == clusters[average].tolist() != clusters[not average].tolist()
    last = fit(digits, stage1__epochs=1, flip_average=average, classifier__kind="cosine")
    labels = {a: last.model.classifier(read(last.model, a))[:, 5:].argmax(1) for a in (False, True)}
    assert last.assignments.tolist() == labels[average].tolist() != labels[not average].tolist()
