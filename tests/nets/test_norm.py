"""The fused batch norm against torch's own operations: in Triton's interpreter here, on a GPU with the marker gpu."""

import copy
import importlib
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.nets import norm, resnet18

CASES = [(relu, added) for relu in (True, False) for added in (True, False)]


@pytest.fixture
def kernel() -> ModuleType:
    """The kernels' module; conftest.py has them interpreted where there is no GPU."""
    pytest.importorskip("triton", reason="the kernels are Triton's, which is not installed here")
    return importlib.import_module("newfound.nets.norm_kernel")


def plain(maps: Tensor, shortcut: Tensor | None, layer: nn.BatchNorm2d, relu: bool) -> Tensor:
    normed = layer(maps) if shortcut is None else layer(maps) + shortcut
    return F.relu(normed) if relu else normed


def compare(fused, shape, relu, added, momentum=0.1, device="cpu", tolerance=1e-5) -> None:
    torch.manual_seed(0)
    layers = [nn.BatchNorm2d(shape[1], momentum=momentum).to(device) for _ in range(2)]
    with torch.no_grad():
        layers[0].weight.uniform_(-1, 2)
        layers[0].bias.normal_()
        layers[0].running_mean.normal_()
    layers[1].load_state_dict(layers[0].state_dict())
    start = torch.randn(shape, device=device) * 3 + (torch.arange(shape[1], device=device) % 60)[:, None, None]
    side = torch.randn(shape, device=device)
    before = plain(start, side if added else None, copy.deepcopy(layers[0]), relu=False)
    upstream = torch.where(before.abs() < 1e-4, 0.0, torch.randn(shape, device=device))  # a ReLU may turn there
    results = []
    for layer, way in zip(layers, (plain, fused), strict=True):
        maps = start.clone().contiguous(memory_format=torch.channels_last).requires_grad_()
        shortcut = side.clone().contiguous(memory_format=torch.channels_last).requires_grad_() if added else None
        result = way(maps, shortcut, layer, relu)
        result.backward(upstream)
        gradients = [maps.grad, layer.weight.grad, layer.bias.grad] + ([shortcut.grad] if shortcut is not None else [])
        results.append([result, layer.running_mean, layer.running_var, *gradients])
    for expected, found in zip(*results, strict=True):
        scale = float(expected.detach().abs().max()) + 1e-6
        torch.testing.assert_close(found / scale, expected / scale, atol=tolerance, rtol=0)


@pytest.mark.parametrize(("relu", "added"), CASES)
@pytest.mark.parametrize("shape", [(3, 5, 7, 2), (9, 64, 4, 4), (2, 130, 9, 9)])
def test_values_gradients_and_statistics_are_those_of_torch(kernel, shape, relu, added, monkeypatch):
    monkeypatch.setattr(kernel, "STATISTICS", (3, 32))  # so that parts of several programs have to be put together
    monkeypatch.setattr(kernel, "SUMS", (3, 64))

    def fused(maps, shortcut, layer, relu):
        rest = (layer.weight, layer.bias, layer.running_mean, layer.running_var, layer.momentum, layer.eps, relu)
        return kernel.FusedNorm.apply(maps, shortcut, *rest)

    compare(fused, shape, relu, added)


def test_momentum_0_leaves_the_running_statistics_alone(kernel):
    layer = nn.BatchNorm2d(8, momentum=0.0)
    before = layer.running_mean.clone(), layer.running_var.clone()
    rest = (layer.weight, layer.bias, layer.running_mean, layer.running_var, layer.momentum, layer.eps, True)
    kernel.FusedNorm.apply(torch.randn(4, 8, 3, 3) + 5, None, *rest)
    assert torch.equal(layer.running_mean, before[0])
    assert torch.equal(layer.running_var, before[1])


@pytest.mark.gpu
@pytest.mark.parametrize(("relu", "added"), CASES)
@pytest.mark.parametrize("shape", [(64, 64, 32, 32), (96, 512, 4, 4), (33, 130, 9, 9)])
def test_on_a_gpu_too(shape, relu, added):
    def fused(maps, shortcut, layer, relu):
        assert norm.fused(maps, layer)
        return norm.batch_norm(maps, layer, shortcut=shortcut, relu=relu)

    compare(fused, shape, relu, added, device="cuda", tolerance=2e-5)


@pytest.mark.gpu
def test_a_network_computes_the_same_with_and_without_it(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    torch.manual_seed(0)
    images = torch.randn(64, 3, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)
    net = resnet18().cuda().to(memory_format=torch.channels_last)
    found = []
    for use in (True, False):
        monkeypatch.setattr(norm, "has_triton", lambda use=use: use)
        net.zero_grad()
        features = net(images)
        features.square().mean().backward()
        found.append([features.detach(), net.layer4[1].bn2.weight.grad.clone(), net.conv1.weight.grad.clone()])
    apart = [float((a - b).norm() / b.norm()) for a, b in zip(*found, strict=True)]
    print(apart)
    assert apart[0] < 1e-4
    assert max(apart) < 1e-2  # a ReLU that turns by rounding changes a gradient, and twenty layers add up
