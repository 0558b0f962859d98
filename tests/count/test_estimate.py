import numpy as np
import pytest
import torch
from test_ways import blobs

from newfound import UserError
from newfound.count import estimate
from newfound.count.auto import choice_of, number_given, to_look_for
from newfound.count.estimate import count
from newfound.count.known import outside_known, within_known
from newfound.count.owned import Owned
from newfound.count.sample import limited


def test_well_separated_blobs_are_counted_and_the_known_ones_can_tell():
    found = count(*blobs(8, 6))
    assert found.estimate == 6
    assert found.interval[0] <= 6 <= found.interval[1]
    assert found.interval[1] - found.interval[0] <= 4
    assert [one.true for one in found.rehearsed] == [4, 4]
    assert all(abs(one.found - one.true) <= 1 for one in found.rehearsed), found
    assert not found.nothing_new
    assert "rehearsal" in found.statement
    assert found.images == (240, 180)


def test_features_that_the_labels_have_taught_say_nothing_by_a_rehearsal():
    free, taught = count(*blobs(8, 6)), count(*blobs(8, 6), taught=True)
    assert (taught.estimate, taught.curve) == (free.estimate, free.curve)
    assert taught.rehearsed == ()
    assert taught.interval == (5, 7), "30 % of 6"
    assert taught.statement.startswith("hardly more than a guess: these features were learned from the labels")
    assert (free.likely, taught.likely) == ("probably", "perhaps")
    assert choice_of(taught).why.startswith("perhaps 5 to 7; hardly more than a guess")


def test_the_same_seed_gives_the_same_count():
    features, labels = blobs(4, 3)
    assert count(features, labels, seed=3) == count(features, labels, seed=3)


def test_the_curve_passes_one_at_the_estimate():
    found = count(*blobs(8, 6))
    below = [owned for number, owned in found.curve if number < found.estimate - 1]
    above = [owned for number, owned in found.curve if number > found.estimate + 1]
    assert max(below) < 1.05
    assert min(above) > 1


@pytest.mark.parametrize(("known", "sentence"), [(1, "a single known category says"), (2, "2 known categories say")])
def test_few_known_categories_are_said_to_tell_little(known, sentence):
    found = count(*blobs(known, 4))
    assert sentence in found.statement
    assert found.rehearsed == ()
    assert 3 <= found.estimate <= 5


def test_a_pile_of_known_categories_alone_has_probably_nothing_new():
    features, labels = blobs(6, 0, each=60)
    mixed = np.random.default_rng(0).permutation(len(labels))
    known, pile = np.sort(mixed[:180]), mixed[180:]
    found = count(features[np.concatenate([known, pile])], labels[known])
    assert found.nothing_new
    assert "probably nothing new" in found.statement
    with pytest.raises(UserError, match=r"n_novel auto: .* probably nothing new"):
        to_look_for(found)


def test_known_images_in_the_pile_are_told_and_most_are_not_counted():
    features, labels = blobs(6, 4, each=60)
    known = np.arange(360).reshape(6, 60)
    rows = np.concatenate([known[:, :40].ravel(), known[:, 40:].ravel(), np.arange(360, len(features))])
    found = count(features[rows], labels[known[:, :40].ravel()], mixed=True)
    assert found.known_share == pytest.approx(0.5, abs=0.02)
    assert found.statement.startswith("50% of the pile joined known categories and was left out of the count; ")
    assert found.estimate == 4
    assert found.interval == (3, 5), "30 %, whatever a rehearsal says"
    assert "fairly sure" not in found.statement


def test_what_joins_a_known_category_is_left_out_and_novel_images_stay():
    features, labels = blobs(6, 4, each=60)
    known = np.arange(360).reshape(6, 60)
    rows = np.concatenate([known[:, :40].ravel(), known[:, 40:].ravel(), np.arange(360, len(features))])
    sample = limited(features[rows], labels[known[:, :40].ravel()], 0)
    rest = outside_known(sample, 10, 0)
    assert torch.equal(rest.labels, sample.labels)
    assert torch.equal(rest.pile, sample.pile[120:])


def test_a_rehearsal_of_a_mixed_pile_hides_a_third_of_each_known_category():
    sample = limited(*blobs(4, 2), 0)
    mixed = sample.mixed(np.random.default_rng(0))
    assert torch.bincount(mixed.labels).tolist() == [20] * 4
    assert len(mixed.pile) == len(sample.pile) + 40
    rows = {tuple(row) for row in sample.features.tolist()}
    assert {tuple(row) for row in mixed.features.tolist()} == rows
    for category in range(4):
        own = {tuple(row) for row in sample.features[: len(sample.labels)][sample.labels == category].tolist()}
        assert {tuple(row) for row in mixed.features[: len(mixed.labels)][mixed.labels == category].tolist()} < own


def test_a_count_that_collapses_where_images_were_left_out_is_held_up(monkeypatch):
    features, labels = blobs(6, 8, each=30)
    found = iter([6.0, 1.0])

    def owned(*_):
        return Owned(next(found), 0.1, np.array([1]), np.array([1.0]))

    monkeypatch.setattr(estimate, "by_owned", owned)
    sample = limited(features, labels, 0)
    number, rest, joined = estimate._novel(sample, True, 0)
    assert joined == 1 - len(rest.pile) / len(sample.pile)
    assert number.estimate == pytest.approx(0.5 * 6.0 * (1 - joined))


def test_unless_the_pile_is_mixed_every_image_counts():
    features, labels = blobs(6, 4, each=60)
    known = np.arange(360).reshape(6, 60)
    rows = np.concatenate([known[:, :40].ravel(), known[:, 40:].ravel(), np.arange(360, len(features))])
    found = count(features[rows], labels[known[:, :40].ravel()])
    assert found.estimate >= 9  # the six known categories in the pile and the four novel ones, more or less
    assert "joined known" not in found.statement


def test_a_pile_of_new_categories_is_not_taken_for_known_ones():
    assert within_known(limited(*blobs(6, 4), 0), 0) == 0


@pytest.mark.parametrize(("images", "sentence"), [(5, "the pile has 5 images, too few"), (1, "the pile has 1 image,")])
def test_a_tiny_pile_is_refused(images, sentence):
    features, labels = blobs(3, 1, pile=images)
    with pytest.raises(UserError, match=sentence):
        count(features, labels)


def test_features_that_are_all_the_same_are_refused():
    with pytest.raises(UserError, match="the features of all images are the same"):
        count(torch.full((60, 8), 0.1), torch.arange(3).repeat_interleave(10))


def test_what_was_counted_can_be_written_down():
    found = count(*blobs(4, 3))
    plain = found.to_mapping()
    assert plain["estimate"] == 3
    assert plain["rehearsed"][0].keys() == {"true", "found"}
    assert plain["curve"][0] == list(found.curve[0])
    choice = choice_of(found)
    assert (choice.what, choice.value) == ("novel", "3")


def test_a_number_is_a_whole_one_or_auto():
    assert number_given("auto") is None
    assert number_given(np.int64(4)) == 4
    with pytest.raises(UserError, match="n_novel 'many': it has to be a whole number, or auto"):
        number_given("many")
