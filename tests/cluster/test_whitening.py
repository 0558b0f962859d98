"""The known categories say which variation to ignore."""

import pytest
import torch

from newfound.cluster.whitening import whitening


def centred(*shape: int, seed: int = 0) -> torch.Tensor:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return values - values.mean(0)


def within(features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The covariance inside categories, counted one by one."""
    total = torch.zeros(features.shape[1], features.shape[1], dtype=torch.float64)
    for label in labels.unique():
        own = features[labels == label].double()
        for vector in own - own.mean(0):
            total += torch.outer(vector, vector)
    return total / (len(labels) - len(labels.unique()))


def test_without_shrinkage_known_categories_become_round():
    features = centred(400, 6) @ torch.diag(torch.tensor([9.0, 3, 1, 1, 0.3, 0.1]))
    labels = torch.arange(300) % 5
    weight = whitening(features, labels, shrinkage=0, dimension=6)
    covariance = within(features[:300] @ weight.T, labels)
    assert torch.allclose(covariance, covariance[0, 0] * torch.eye(6).double(), atol=1e-4 * float(covariance[0, 0]))


def test_half_shrunk_is_half_the_identity_of_the_mean_eigenvalue():
    features, labels = centred(200, 4) @ torch.diag(torch.tensor([5.0, 2, 1, 0.5])), torch.arange(150) % 3
    weight = whitening(features, labels, shrinkage=0.5, dimension=4).double()
    covariance = within(features[:150], labels)
    shrunk = (covariance + covariance.diagonal().mean() * torch.eye(4)) / 2
    found = weight @ shrunk @ weight.T
    assert torch.allclose(found / found[0, 0], torch.eye(4).double(), atol=1e-5)


def test_with_all_shrinkage_it_is_a_plain_pca():
    features, labels = centred(100, 5) * torch.tensor([1.0, 7, 2, 3, 0.1]), torch.arange(60) % 4
    found = features @ whitening(features, labels, shrinkage=1, dimension=2).T
    _, _, components = torch.pca_lowrank(features, q=5, center=False)
    expected = features @ components[:, :2]
    assert torch.allclose((found / found.norm()).abs(), (expected / expected.norm()).abs(), atol=1e-4)


def test_what_varies_within_known_categories_counts_less():
    loud, quiet = torch.tensor([10.0, 1]), torch.tensor([1.0, 1])
    features = torch.cat([centred(500, 2) * loud, centred(500, 2, seed=1) * quiet])
    weight = whitening(features, torch.zeros(500, dtype=torch.int64), shrinkage=0, dimension=2)
    lengths = weight.norm(dim=0)
    assert lengths[1] / lengths[0] == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize("labels", [[0], [0, 1, 2], [0, 0, 0]])
def test_known_categories_that_do_not_vary_leave_a_plain_pca(labels):
    features = torch.cat([torch.zeros(len(labels), 3), centred(50, 3)])
    weight = whitening(features, torch.tensor(labels), shrinkage=0.5, dimension=3)
    assert torch.allclose(weight @ weight.T / weight[0].square().sum(), torch.eye(3), atol=1e-5)


@pytest.mark.parametrize(("n", "width", "d"), [(3, 10, 2), (50, 4, 4), (50, 10, 6)])
def test_dimensions_are_no_more_than_there_are(n, width, d):
    weight = whitening(centred(n, width), torch.tensor([0, 0]), shrinkage=0.5, dimension=6)
    assert weight.shape == (d, width)
    assert weight.isfinite().all()
