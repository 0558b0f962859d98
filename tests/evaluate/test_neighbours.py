import math

import pytest
import torch

from newfound import UserError
from newfound.evaluate.neighbours import vote


def plain_vote(features, labels, query, n_classes, neighbours, temperature):
    """One query, one neighbour after the other."""
    unit = [[x / math.sqrt(sum(y * y for y in row)) for x in row] for row in [*features.tolist(), query.tolist()]]
    cosines = [sum(a * b for a, b in zip(row, unit[-1], strict=True)) for row in unit[:-1]]
    nearest = sorted(range(len(cosines)), key=lambda i: -cosines[i])[:neighbours]
    votes = [0.0] * n_classes
    for i in nearest:
        votes[int(labels[i])] += math.exp(cosines[i] / temperature)
    return votes.index(max(votes))


def test_the_vote_is_that_of_a_plain_count():
    generator = torch.Generator().manual_seed(0)
    features, queries = (torch.randn(n, 6, generator=generator) for n in (60, 1100))
    labels = torch.randint(0, 4, (60,), generator=generator)
    found = vote(features, labels, queries, 4, neighbours=7, temperature=0.2)
    for i in range(0, 1100, 37):
        assert int(found[i]) == plain_vote(features, labels, queries[i], 4, 7, 0.2)


def test_fewer_features_than_neighbours_all_vote():
    features, labels = torch.eye(3), torch.tensor([1, 1, 0])
    assert vote(features, labels, torch.tensor([[0.0, 0.0, 1.0]]), 2, temperature=10.0).tolist() == [1]


def test_by_itself_it_asks_twenty_neighbours_at_a_temperature_of_7_hundredths():
    generator = torch.Generator().manual_seed(0)
    features, queries = (torch.randn(n, 4, generator=generator) for n in (200, 1000))
    labels = torch.randint(0, 4, (200,), generator=generator)
    found = vote(features, labels, queries, 4)
    assert torch.equal(found, vote(features, labels, queries, 4, neighbours=20, temperature=0.07))
    for others in ({"neighbours": 19}, {"neighbours": 21}, {"temperature": 0.05}, {"temperature": 0.1}):
        assert (vote(features, labels, queries, 4, **others) != found).any(), others


def test_without_queries_nothing_is_named():
    assert vote(torch.eye(2), torch.tensor([0, 1]), torch.zeros(0, 2), 2).tolist() == []


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"features": torch.zeros(0, 2), "labels": torch.zeros(0)}, "there are no labelled features"),
        ({"neighbours": 0}, "neighbours is 0 .* a vote of 1 neighbour or more"),
        ({"temperature": 0.0}, "temperature 0.0: .* a temperature above 0"),
        ({"temperature": float("nan")}, "temperature nan: .* a temperature above 0"),
        ({"labels": torch.tensor([0, 2])}, "count from 0 to n_classes - 1, 1; got 0 to 2"),
        ({"labels": torch.tensor([-1, 1])}, "count from 0 to n_classes - 1, 1; got -1 to 1"),
        ({"labels": torch.tensor([0.0, 1.0])}, "are whole numbers, and these are of the type torch.float32"),
        ({"labels": torch.tensor([0, 1, 1])}, r"do not fit: their shapes are \[\[2, 2\], \[3\], \[1, 2\]\]"),
        ({"queries": torch.ones(1, 3)}, "do not fit"),
        ({"queries": torch.ones(2)}, "do not fit"),
        ({"features": torch.ones(2)}, "do not fit"),
        ({"features": torch.tensor([[1.0, float("nan")], [0.0, 1.0]])}, "are finite numbers"),
        ({"queries": torch.tensor([[1.0, float("inf")]])}, "are finite numbers"),
    ],
)
def test_a_vote_that_cannot_be_held_is_a_sentence(changed, sentence):
    fitting = {"features": torch.eye(2), "labels": torch.tensor([0, 1]), "queries": torch.ones(1, 2), "n_classes": 2}
    with pytest.raises(UserError, match=sentence):
        vote(**{**fitting, **changed})
