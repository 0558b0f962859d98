import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from newfound.cluster.pca import principal_components


def features(n, d, seed=0):
    """Features that vary differently in every direction, far from 0."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ np.diag(np.arange(1, d + 1)) @ np.linalg.qr(rng.normal(size=(d, d)))[0] + 50


@pytest.mark.parametrize(("n", "d", "k"), [(60, 8, 3), (60, 8, 8), (5, 8, 4)])
def test_coordinates_are_those_of_scikit_learn_but_for_signs(n, d, k):
    given = features(n, d)
    found = principal_components(torch.from_numpy(given).float(), k).numpy()
    expected = PCA(k, svd_solver="full").fit_transform(given)
    signs = np.sign((found * expected).sum(0))
    np.testing.assert_allclose(found * signs, expected, rtol=1e-3, atol=1e-3)


def test_more_dimensions_than_there_are_stay_0():
    found = principal_components(torch.from_numpy(features(20, 3)).float(), 5)
    assert found.shape == (20, 5)
    assert (found[:, 3:] == 0).all()
    assert found[:, :3].var(0).diff().max() < 0, "the first varies most"
