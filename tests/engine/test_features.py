import copy

import numpy as np
import pytest
import torch
from torch import nn

from newfound.data.store import ImageStore
from newfound.engine import features
from newfound.engine.features import refresh_statistics
from newfound.progress import Reporter

CPU, QUIET = torch.device("cpu"), Reporter(quiet=True)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3)

    def forward(self, images):
        return self.norm(self.first(images.float() / 255)).mean((2, 3))


@pytest.fixture
def images():
    """200 images, the dark ones first."""
    levels = np.sort(np.random.default_rng(0).integers(0, 200, 200))
    noise = np.random.default_rng(1).integers(0, 56, (200, 1, 8, 8))
    return ImageStore((levels[:, None, None, None] + noise).astype(np.uint8))


@pytest.mark.parametrize("batch", [512, 30])
def test_statistics_are_those_of_the_images_whatever_they_were_before(images, monkeypatch, batch):
    monkeypatch.setattr(features, "BATCH", batch)
    network = Small().eval()
    network.norm.running_mean.fill_(7.0)
    network.norm.running_var.fill_(7.0)
    network.norm.num_batches_tracked.fill_(7)
    weights = copy.deepcopy(dict(network.named_parameters()))
    refresh_statistics(network, images, CPU, QUIET)
    inside = network.first(images.images.float() / 255).detach().transpose(0, 1).flatten(1)
    # Batches of 28 or 29 images leave the spread between their means out; in the order given that would be most of it.
    close = 1e-5 if batch == 512 else 0.1
    torch.testing.assert_close(network.norm.running_mean, inside.mean(1), rtol=close, atol=1e-6)
    torch.testing.assert_close(network.norm.running_var, inside.var(1), rtol=close, atol=1e-6)
    assert (network.norm.momentum, network.training, int(network.norm.num_batches_tracked)) == (
        0.1,
        False,
        -(-200 // batch),
    )
    assert all(torch.equal(weights[name], p) and p.grad is None for name, p in network.named_parameters())


def test_every_batch_counts_the_same(images, monkeypatch):
    monkeypatch.setattr(features, "BATCH", 30)
    network, seen = Small().train(), []
    network.first.register_forward_hook(lambda module, inputs, output: seen.append(output))
    refresh_statistics(network, images, CPU, QUIET)
    assert sorted(map(len, seen)) == [28] * 3 + [29] * 4
    per_batch = [output.transpose(0, 1).flatten(1) for output in seen]
    torch.testing.assert_close(network.norm.running_mean, sum(x.mean(1) for x in per_batch) / 7)
    torch.testing.assert_close(network.norm.running_var, sum(x.var(1) for x in per_batch) / 7)
    assert network.training
