import pytest
import torch
from torch import nn
from torch.nn import functional as F

from newfound.nets.heads import CosineClassifier, DinoHead, LinearClassifier, build_head, classifier


def head(**options):
    torch.manual_seed(0)
    return DinoHead(12, hidden=16, bottleneck=6, out=20, **options)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_a_head_has_so_many_layers_and_a_weight_normalised_one(layers, norm):
    net, features = head(layers=layers, norm=norm), torch.randn(9, 12)
    hidden = features
    linear = [module for module in net.mlp if isinstance(module, nn.Linear)]
    assert len(linear) == layers
    assert sum(isinstance(module, nn.BatchNorm1d) for module in net.mlp) == (layers - 1 if norm else 0)
    for module in linear[:-1]:
        hidden = hidden @ module.weight.T + module.bias
        if norm:
            hidden = (hidden - hidden.mean(dim=0)) / (hidden.var(dim=0, correction=0) + 1e-5).sqrt()
        hidden = F.gelu(hidden)
    hidden = hidden @ linear[-1].weight.T + linear[-1].bias
    expected = (hidden / hidden.norm(dim=1, keepdim=True)) @ (
        net.last.weight / net.last.weight.norm(dim=1, keepdim=True)
    ).T
    torch.testing.assert_close(net(features), expected, rtol=1e-4, atol=1e-5)


def test_the_outputs_are_cosines_whatever_the_length_of_the_last_weights():
    net, features = head().eval(), 100 * torch.randn(50, 12)
    before = net(features)
    assert before.abs().max() <= 1 + 1e-5
    with torch.no_grad():
        net.last.weight *= 1 + torch.rand(20, 1)
    torch.testing.assert_close(net(features), before)


def test_the_last_layer_can_be_frozen_while_the_rest_learns():
    net = head()
    net.last.requires_grad_(False)
    (net(torch.randn(8, 12)) * torch.randn(8, 20)).sum().backward()
    assert net.last.weight.grad is None
    assert all(p.grad is not None for name, p in net.named_parameters() if not name.startswith("last"))
    assert [name for name, _ in net.named_parameters() if name.startswith("last")] == ["last.weight"]


def test_the_head_starts_with_the_deviation_of_dino():
    torch.manual_seed(0)
    net = DinoHead(64, hidden=128, bottleneck=64, out=100)
    weights = [module.weight for module in net.mlp if isinstance(module, nn.Linear)] + [net.last.weight]
    for weight in weights:
        assert weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert not any(module.bias.any() for module in net.mlp if isinstance(module, nn.Linear))


def test_the_usual_head_has_the_usual_sizes():
    net = DinoHead(512)
    assert [tuple(m.weight.shape) for m in net.mlp if isinstance(m, nn.Linear)] == [
        (2048, 512),
        (2048, 2048),
        (256, 2048),
    ]
    assert net.last.weight.shape == (4096, 256)


def test_a_head_of_no_layers_is_refused():
    with pytest.raises(ValueError, match="a head of 0 layers cannot be made; choose at least 1"):
        head(layers=0)


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_classifiers_start_uniform_within_the_root_of_the_width(kind):
    torch.manual_seed(0)
    net = classifier(kind, 256, 50)
    assert net.rows is net.weight
    assert net.rows.shape == (50, 256)
    assert 0.99 / 16 < net.rows.abs().max() <= 1 / 16
    assert net.rows.std().item() == pytest.approx(1 / 16 / 3**0.5, rel=0.02)


def test_the_linear_classifier_is_a_product_and_a_bias_that_starts_at_nought():
    net, features = classifier("linear", 8, 3), torch.randn(5, 8)
    assert isinstance(net, LinearClassifier)
    assert torch.equal(net.bias, torch.zeros(3))
    torch.testing.assert_close(net(features), features @ net.rows.T)


def test_the_cosine_classifier_gives_cosines_over_the_temperature():
    net, features = CosineClassifier(8, 3, temperature=0.2), torch.randn(5, 8)
    assert isinstance(net, CosineClassifier)
    expected = torch.stack([F.cosine_similarity(features, row[None]) for row in net.rows], dim=1) / 0.2
    torch.testing.assert_close(net(features), expected)
    torch.testing.assert_close(net(7 * features), expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(net(features), net(features.float()))
        assert net(features.bfloat16()).dtype == torch.float32


def test_an_unknown_head_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="no head 'arc'; there are: linear, cosine, projected"):
        build_head(8, 3, "arc")


@pytest.mark.parametrize("options", [{"name": "linear"}, {"name": "cosine"}, {"name": "projected", "known": 2}])
def test_categories_in_another_order_have_the_same_logits(options):
    torch.manual_seed(0)
    net, features, order = build_head(8, 5, **options).eval(), torch.randn(6, 8), torch.tensor([0, 1, 4, 2, 3])
    before = net(features)
    net.reorder(order)
    torch.testing.assert_close(net(features), before[:, order])
    assert not torch.equal(before, before[:, order])
