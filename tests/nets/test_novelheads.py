import pytest
import torch
from torch.nn import functional as F

from newfound.nets.heads import CosineClassifier, ProjectedClassifier, build_head
from newfound.nets.novelheads import NovelHeads


def make_heads(count=3):
    torch.manual_seed(0)
    heads = NovelHeads(10, 4, count, hidden=16, bottleneck=6)
    with torch.no_grad():
        heads.norm.weight.uniform_(0.5, 2)
        heads.norm.bias.uniform_(-1, 1)
    return heads


def test_each_head_is_an_mlp_with_cosines_to_its_own_prototypes():
    heads, features = make_heads(), torch.randn(9, 10)
    got = heads(features)
    for number in range(3):
        own = slice(16 * number, 16 * (number + 1))
        hidden = features @ heads.first.weight[own].T + heads.first.bias[own]
        hidden = (hidden - hidden.mean(0)) / (hidden.var(0, correction=0) + 1e-5).sqrt()
        hidden = F.relu(hidden * heads.norm.weight[own] + heads.norm.bias[own])
        vectors = hidden @ heads.second[number] + heads.bias[number]
        expected = F.cosine_similarity(vectors[:, None], heads.prototypes[number][None], dim=-1)
        torch.testing.assert_close(got[number], expected, rtol=1e-4, atol=1e-5)


def test_the_answering_head_says_what_it_said_among_the_others():
    heads, known = make_heads(), CosineClassifier(10, 5, temperature=0.2)
    for _ in range(3):
        heads(torch.randn(50, 10))
    heads.eval()
    features = torch.randn(9, 10)
    head = heads.answer(1, known)
    assert isinstance(head, ProjectedClassifier)
    torch.testing.assert_close(head(features)[:, :5], known(features))
    torch.testing.assert_close(head(features)[:, 5:], heads(features)[1] / 0.2, rtol=1e-4, atol=1e-5)
    again = build_head(10, 9, **head.describe()).eval()
    again.load_state_dict(head.state_dict())
    assert torch.equal(again(features), head(features))


def test_prototypes_come_back_to_unit_length_and_say_the_same():
    heads, features = make_heads().eval(), torch.randn(9, 10)
    with torch.no_grad():
        heads.prototypes *= 1 + torch.rand(3, 4, 1)
    before = heads(features)
    heads.renormalise()
    torch.testing.assert_close(heads.prototypes.norm(dim=-1), torch.ones(3, 4))
    torch.testing.assert_close(heads(features), before)


@pytest.mark.parametrize(
    "options", [{"known": 0}, {"known": 9}, {"known": 5, "hidden": 10**9}, {"known": 5, "temperature": 0.0}]
)
def test_a_description_that_makes_no_sense_is_refused(options):
    with pytest.raises(ValueError, match="categories known"):
        build_head(10, 9, "projected", **options)
