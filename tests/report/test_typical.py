import numpy as np
import torch

from newfound.report.typical import NEAREST, choose_gallery, closeness, gallery_size


def along(*degrees):
    angle = np.deg2rad(degrees)
    return torch.from_numpy(np.stack([np.cos(angle), np.sin(angle)], 1)).float()


def test_an_image_is_as_typical_as_it_is_near_its_categorys_centre():
    features = along(90, 0, 10, 20, 180)  # one known image, then four of two novel categories
    near = closeness(features, torch.tensor([0]), np.array([1, 1, 1, 2]), 1, 2)
    np.testing.assert_allclose(near.own, np.cos(np.deg2rad([10, 0, 10, 0])), atol=1e-6)
    assert near.other.tolist() == [0, 0, 0, 0]  # the known category
    assert near.nearest.tolist()[1:] == [[2, -1], [1, -1]]


def test_without_labelled_images_novel_categories_are_each_others_neighbours():
    near = closeness(along(0, 10), torch.empty(0, dtype=torch.int64), np.array([0, 1]), 0, 2)
    assert near.nearest.tolist() == [[1, -1], [0, -1]]


def test_an_empty_category_is_nobodys_neighbour():
    near = closeness(along(90, 0, 10), torch.tensor([0]), np.array([1, 1]), 1, 3)
    assert near.nearest.tolist() == [[1, -1], [-1, -1], [-1, -1], [-1, -1]]
    assert near.other.tolist() == [0, 0]


def test_at_most_a_few_neighbours_are_told():
    near = closeness(torch.eye(12), torch.arange(6), 6 + np.arange(6), 6, 6)
    assert near.nearest.shape == (12, NEAREST)


def test_no_image_is_typical_and_doubtful_at_once():
    assignments, typicality = np.array([0, 1, 0, 0, 0, 0]), np.array([0.1, 1, 0.9, 0.5, 0.8, 0.7])
    confidence = np.array([0.9, 0.1, 0.2, 0.6, 0.5, 0.4])
    typical, doubtful = choose_gallery(assignments, confidence, typicality, 0, typical=3, doubtful=2)
    assert typical.tolist() == [2, 4, 5]
    assert doubtful.tolist() == [3, 0]
    typical, doubtful = choose_gallery(assignments, confidence, typicality, 1, typical=3, doubtful=2)
    assert (typical.tolist(), doubtful.tolist()) == ([1], [])


def test_an_image_that_is_shown_as_sure_to_over_99_per_cent_is_not_doubtful():
    confidence = np.array([0.9, 0.992, 0.99, 1.0])
    _, doubtful = choose_gallery(np.zeros(4, int), confidence, np.array([1, 0.9, 0.8, 0.7]), 0, typical=1, doubtful=3)
    assert doubtful.tolist() == [2]


def test_galleries_shrink_as_categories_become_many():
    totals = [sum(gallery_size(n)) for n in (1, 5, 500, 2000)]
    assert totals == [20, 20, 10, 2]
    assert all(n * sum(gallery_size(n)) <= 10_000 for n in range(1, 2001))
