"""Views of features: some numbers are forgotten."""

import pytest
import torch

from newfound.views.dropout import FeatureDropout


def test_forgotten_numbers_are_zero_and_the_mean_stays():
    views = FeatureDropout(2000, 0.3)
    parameters = views.draw(torch.Generator().manual_seed(0), 4, torch.tensor(0))
    seen = views.apply(torch.ones(4, 2000, 1, 1), parameters)
    assert seen.shape == (4, 2000)
    assert seen.unique().tolist() == pytest.approx([0, 1 / 0.7])
    assert (seen == 0).float().mean() == pytest.approx(0.3, abs=0.02)
    assert seen.mean() == pytest.approx(1, abs=0.03)


def test_nothing_is_forgotten_at_a_rate_of_zero():
    views, images = FeatureDropout(5, 0.0), torch.randn(3, 5, 1, 1)
    seen = views.apply(images, views.draw(torch.Generator().manual_seed(0), 3, torch.tensor(0)))
    assert torch.equal(seen, images.flatten(1))
