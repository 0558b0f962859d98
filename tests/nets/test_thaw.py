import pytest
import torch

from newfound.errors import UserError
from newfound.nets import build
from newfound.nets.given import GivenFeatures
from newfound.nets.thaw import thaw

NETWORKS = {
    "efficientnet-lite0": (16, 2, ("blocks.14.", "blocks.15.", "conv_head.", "bn1.")),
    "resnet18-imagenet": (8, 3, ("layer3.1.", "layer4.0.", "layer4.1.")),
    "resnet50-imagenet": (16, 1, ("layer4.2.",)),
    "tiny": (3, 1, ("blocks.2.",)),
    "vgg6": (4, 1, ("blocks.3.",)),
    "vit-tiny-16": (12, 2, ("blocks.10.", "blocks.11.", "norm.")),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_last_blocks_and_what_follows_them_learn_and_nothing_else(name):
    torch.manual_seed(0)
    net = build(name, 3, 32).eval()
    _, blocks, prefixes = NETWORKS[name]
    thaw(net, blocks)
    net(torch.randn(2, 3, 32, 32)).square().sum().backward()
    learn = {parameter for parameter, value in net.named_parameters() if value.grad is not None}
    assert learn == {parameter for parameter, _ in net.named_parameters() if parameter.startswith(prefixes)}


@pytest.mark.parametrize("name", NETWORKS)
def test_all_blocks_can_be_thawed_and_no_more(name):
    net, blocks = build(name, 3, 32), NETWORKS[name][0]
    thaw(net, blocks)
    assert all(parameter.requires_grad for parameter in net.blocks.parameters())
    thaw(net, 0)
    assert not any(parameter.requires_grad for parameter in net.parameters())
    with pytest.raises(UserError, match=f"tune.blocks is {blocks + 1}, but the network has {blocks} blocks"):
        thaw(net, blocks + 1)


def test_what_has_no_blocks_cannot_be_thawed():
    thaw(GivenFeatures(4), 0)
    with pytest.raises(UserError, match=r"tune.blocks is 1, but given features .* leave it at 0"):
        thaw(GivenFeatures(4), 1)
