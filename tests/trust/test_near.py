import numpy as np
import pytest
import torch
from reference.near import near_known as slow

from newfound.trust.near import MOST, NEAR, near_known


def along(*degrees):
    angle = np.deg2rad(degrees)
    return torch.from_numpy(np.stack([np.cos(angle), np.sin(angle)], 1)).float()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bar", [0.3, NEAR, 1.0])
def test_names_are_those_of_the_reference(seed, bar):
    rng = np.random.default_rng(seed)
    labels, found = rng.integers(0, 9, 80), 9 + rng.integers(0, 6, 60)  # the last novel category has no image
    features = rng.normal(size=(15, 4))[np.concatenate([labels, found])] + 0.3 * rng.normal(size=(140, 4))
    names = near_known(torch.from_numpy(features).float(), torch.from_numpy(labels), found, 9, 7, bar)
    assert names == slow(features.tolist(), [*labels, *found], 9, 7, bar, MOST)
    assert names[-1] == []


def test_a_category_between_known_ones_is_near_both_and_one_far_from_all_is_near_none():
    known = along(0, 20, 90, 110)
    names = near_known(torch.cat([known, along(8, 200)]), torch.arange(4), np.array([4, 5]), 4, 2)
    assert names == [[0, 1], []]


def test_of_two_known_categories_none_is_named():
    assert near_known(along(0, 10, 1), torch.arange(2), np.array([2]), 2, 1) == [[]]


def test_old_images_in_the_pile_do_not_move_a_known_category():
    known = along(0, 20, 90, 110)
    labels = torch.arange(4)
    alone = near_known(torch.cat([known, along(8)]), labels, np.array([4]), 4, 1)
    mixed = near_known(torch.cat([known, along(8), along(250, 250)]), labels, np.array([4, 0, 1]), 4, 1)
    assert alone == mixed
