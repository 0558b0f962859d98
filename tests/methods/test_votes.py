"""Several heads vote for one answer."""

import torch
from reference import votes as reference

from newfound.methods.parts.votes import votes


def test_votes_are_the_reference_s():
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        probabilities = (3 * torch.randn(3, 12, 4, generator=generator)).softmax(-1)
        for lead in range(3):
            expected = torch.tensor(reference.votes(probabilities.tolist(), lead))
            assert torch.allclose(votes(probabilities, lead), expected, atol=1e-6)


def test_heads_that_agree_but_for_their_numbering_change_nothing():
    one = torch.randn(40, 6, generator=torch.Generator().manual_seed(0)).mul(3).softmax(-1)
    orders = [torch.randperm(6, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    assert torch.allclose(votes(torch.stack([one, *(one[:, order] for order in orders)]), 0), one)


def test_two_heads_outvote_the_lead():
    sure = torch.eye(3).repeat(10, 1)
    wrong = sure.clone()
    wrong[0] = torch.tensor([0.0, 1.0, 0.0])
    assert votes(torch.stack([wrong, sure, sure]), 0)[0].argmax() == 0
