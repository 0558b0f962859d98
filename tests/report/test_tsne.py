import io

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from newfound.progress import Reporter
from newfound.report.tsne import draw_map, sample_points

QUIET = Reporter(quiet=True)


def test_all_points_are_taken_where_they_are_few():
    assert sample_points(np.zeros(7, int), 7, 0).tolist() == list(range(7))


def test_a_sample_has_every_category_and_follows_from_the_seed():
    assignments = np.repeat([0, 1, 2, 3], [9000, 900, 90, 1])
    points = sample_points(assignments, 500, seed=0)
    assert len(points) == len(set(points.tolist())) == 500
    shares = np.bincount(assignments[points])
    assert shares[3] == 1
    assert shares[0] > shares[1] > shares[2] > 20
    assert np.array_equal(points, sample_points(assignments, 500, seed=0))
    assert not np.array_equal(points, sample_points(assignments, 500, seed=1))


def test_what_is_alike_lies_together_on_the_map(monkeypatch):
    monkeypatch.setattr("newfound.report.tsne.ITERATIONS", 500)
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 40)
    features = torch.from_numpy(rng.normal(size=(3, 100))[labels] + 0.3 * rng.normal(size=(120, 100)))
    positions = draw_map(features, 0, QUIET)
    assert positions.shape == (120, 2)
    assert positions.dtype == np.float32
    assert KNeighborsClassifier(5).fit(positions, labels).score(positions, labels) == 1
    assert np.array_equal(positions, draw_map(features, 0, QUIET))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 12])
@pytest.mark.parametrize("dimension", [1, 2, 40])
def test_a_handful_of_points_has_a_map_too(n, dimension):
    features = torch.from_numpy(np.random.default_rng(0).normal(size=(n, dimension)))
    positions = draw_map(features, 0, QUIET)
    assert positions.shape == (n, 2)
    assert np.isfinite(positions).all()


def test_images_that_are_all_the_same_do_not_stop_the_map():
    positions = draw_map(torch.ones(20, 8), 0, QUIET)
    assert len(np.unique(positions, axis=0)) == 20


def test_progress_is_shown_and_nothing_is_printed(capsys):
    said = io.StringIO()
    draw_map(torch.from_numpy(np.random.default_rng(0).normal(size=(60, 5))), 0, Reporter(stream=said))
    assert said.getvalue().startswith("drawing the map: ")
    assert capsys.readouterr().out == ""
