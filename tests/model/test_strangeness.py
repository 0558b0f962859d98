import numpy as np
import pytest
import torch

from newfound.model.strangeness import MAX_EXEMPLARS, NEIGHBOURS, Strangeness, learn_exemplars


def reference(features, categories, image):
    """Strangeness of one image, all by hand."""
    unit = [f / np.linalg.norm(f) for f in features]

    def mean_distance(one, others):
        return np.mean(sorted(1 - one @ other for other in others)[:NEIGHBOURS])

    own = [mean_distance(unit[i], unit[:i] + unit[i + 1 :]) for i in range(len(unit))]
    width = {c: np.mean([o for o, k in zip(own, categories, strict=True) if k == c]) for c in categories}
    image = image / np.linalg.norm(image)
    nearest = sorted(range(len(unit)), key=lambda i: 1 - image @ unit[i])[:NEIGHBOURS]
    return mean_distance(image, unit) / np.mean([width[categories[i]] for i in nearest])


@pytest.fixture
def blobs():
    """Forty features around each of three directions, the third category four times as wide."""
    rng = np.random.default_rng(0)
    categories = np.repeat([0, 1, 2], 40)
    noise = rng.normal(0, 1, (120, 8)) * np.array([0.1, 0.1, 0.4])[categories][:, None]
    return (3 * np.eye(8)[categories] + noise).astype(np.float32), categories


def test_strangeness_is_the_distance_to_neighbours_in_units_of_their_categories(blobs):
    features, categories = blobs
    learned = learn_exemplars(torch.from_numpy(features), categories, seed=0)
    images = np.random.default_rng(1).normal(0, 1, (6, 8)).astype(np.float32)
    expected = [reference(list(features), categories.tolist(), image) for image in images]
    np.testing.assert_allclose(learned(torch.from_numpy(images)), expected, rtol=1e-3)


def test_a_wide_category_is_no_stranger_than_a_narrow_one(blobs):
    features, categories = blobs
    rng = np.random.default_rng(2)
    learned = learn_exemplars(torch.from_numpy(features), categories, seed=0)
    narrow = 3 * np.eye(8)[0] + rng.normal(0, 0.1, (200, 8))
    wide = 3 * np.eye(8)[2] + rng.normal(0, 0.4, (200, 8))
    foreign = 3 * np.eye(8)[5] + rng.normal(0, 0.1, (200, 8))
    median = [float(learned(torch.from_numpy(x).float()).median()) for x in (narrow, wide, foreign)]
    assert 0.5 < median[0] / median[1] < 2
    assert median[2] > 5 * max(median[:2])


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_at_most_the_share_asked_for_has_so_small_a_fit(share):
    rng = np.random.default_rng(0)
    rates = []
    for _ in range(400):
        strange = torch.from_numpy(rng.normal(size=23 + 50))
        learned = Strangeness(1, 1)
        learned.calibrate(strange[:23])
        rates.append((learned.p_value(strange[23:].float()) <= share).float().mean())
    assert share / 2 < np.mean(rates) <= share * 1.1


def test_the_strangest_held_out_image_fits_as_one_in_all_of_them():
    learned = Strangeness(1, 1)
    learned.calibrate(torch.tensor([3.0, 1.0, 2.0]))
    fits = learned.p_value(torch.tensor([0.0, 1.0, 2.5, 3.0, 9.0]))
    torch.testing.assert_close(fits, torch.tensor([1.0, 1.0, 0.5, 0.5, 0.25], dtype=torch.float64))


def test_one_in_twenty_is_not_more_than_the_number_people_write():
    learned = Strangeness(1, 1)
    learned.calibrate(torch.arange(19.0))
    assert float(learned.p_value(torch.tensor([20.0]))) <= 0.05


def test_no_category_has_more_exemplars_than_its_share():
    categories = np.array([0] * 8000 + [1] * 3)
    learned = learn_exemplars(torch.randn(8003, 4, generator=torch.Generator().manual_seed(0)), categories, seed=0)
    assert len(learned.exemplars) == MAX_EXEMPLARS // 2 + 3


def test_copies_of_one_image_do_not_make_everything_else_infinitely_strange(blobs):
    features, categories = blobs
    features[categories == 0] = features[0]
    learned = learn_exemplars(torch.from_numpy(features), categories, seed=0)
    assert torch.isfinite(learned(torch.from_numpy(features) + 0.01)).all()
    assert learned(torch.ones(1, 8)) < 1e4


def test_a_category_of_copies_is_a_hundredth_as_wide_as_categories_are_in_the_mean(blobs):
    features, categories = blobs
    features[categories == 0] = features[0]
    spacing = learn_exemplars(torch.from_numpy(features), categories, seed=0).spacing.numpy()
    widths = [spacing[categories == c].mean() for c in (1, 2)]
    np.testing.assert_allclose(spacing[categories == 0], 0.01 * sum(widths) / 3, rtol=1e-4)


def test_every_category_has_exemplars_enough_for_a_neighbourhood(monkeypatch):
    monkeypatch.setattr("newfound.model.strangeness.MAX_EXEMPLARS", 8)
    features = torch.randn(80, 4, generator=torch.Generator().manual_seed(0))
    learned = learn_exemplars(features, np.arange(80) % 4, seed=0)
    assert len(learned.exemplars) == 4 * (NEIGHBOURS + 1)


def test_one_training_image_alone_has_a_width():
    learned = learn_exemplars(torch.ones(1, 4), np.array([0]), seed=0)
    assert learned(torch.randn(3, 4)).isfinite().all()


def test_before_it_is_calibrated_it_knows_no_held_out_image():
    assert len(Strangeness(3, 2).held_out) == 0
