"""Weights from strangers: recognised by their names, refused in a sentence where they do not fit."""

import pytest
import torch
from safetensors.torch import load_file as read
from safetensors.torch import save_file

from newfound.errors import UserError
from newfound.nets import build
from newfound.nets.pretrained import find_backbone
from newfound.nets.weightfile import ARCHITECTURES

PUBLISHED = {
    "resnet18-imagenet": 11_176_512,
    "resnet34-imagenet": 21_284_672,
    "resnet50-imagenet": 23_508_032,
    "vit-tiny-16": 5_524_416,
    "vit-small-16": 21_665_664,
    "vit-base-16": 85_798_656,
}


@pytest.fixture
def file(tmp_path):
    """ResNet-18's weights with its classifier."""
    torch.manual_seed(0)
    weights = build("resnet18-imagenet", 3, 224).state_dict()
    save_file(weights | {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}, tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


def change(file, **changes):
    """The same file with weights replaced, or taken out where they are None; "__" stands for a dot."""
    weights = read(file)
    for name, value in changes.items():
        weights.pop(name.replace("__", "."), None)
        if value is not None:
            weights[name.replace("__", ".")] = value
    save_file(weights, file)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_networks_have_the_published_number_of_parameters(name):
    with torch.device("meta"):
        net = build(name, 3, 224)
    assert sum(p.numel() for p in net.parameters()) == PUBLISHED[name]


@pytest.mark.parametrize("name", ["resnet18-imagenet", "resnet34-imagenet", "resnet50-imagenet", "vit-tiny-16"])
def test_a_file_is_recognised_and_its_weights_arrive(tmp_path, name):
    net = build(name, 3, 224)
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    found = find_backbone(str(tmp_path / "w.safetensors"), None)
    assert (found.network, found.size) == (name, 224)
    for expected, got in zip(net.state_dict().values(), found.net.state_dict().values(), strict=True):
        assert torch.equal(got, expected)


def test_a_transformer_says_its_image_size(tmp_path):
    save_file(build("vit-tiny-16", 3, 64).state_dict(), tmp_path / "w.safetensors")
    found = find_backbone(str(tmp_path / "w.safetensors"), None)
    assert found.size == 64
    assert found.net(torch.zeros(1, 3, 64, 64)).shape == (1, 192)


FLOATS = [
    torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2,
    torch.float8_e5m2fnuz,
]  # fmt: skip


@pytest.mark.parametrize("kind", FLOATS)
def test_floating_point_numbers_of_any_size_are_read_as_singles(file, kind):
    change(file, conv1__weight=torch.full((64, 3, 7, 7), -1.5).to(kind))
    weight = find_backbone(str(file), None).net.conv1.weight
    assert weight.dtype == torch.float32
    assert (weight == -1.5).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"conv1__weight": torch.ones(64, 3, 3, 3)},
            r"has the shape \[64, 3, 3, 3\], not \[64, 3, 7, 7\]",
        ),
        ({"layer2__0__bn1__bias": None}, "layer2.0.bn1.bias is missing"),
        ({"layer5__bias": torch.ones(2)}, r"it has layer5.bias, which that network has not \(1 such\)"),
        ({"bn1__bias": torch.full((64,), torch.nan)}, "bn1.bias has values that are no finite numbers"),
        ({"bn1__bias": torch.full((64,), 1e300, dtype=torch.float64)}, "bn1.bias has values that are no finite"),
        (
            {"bn1__bias": torch.full((64,), torch.nan).to(torch.float8_e4m3fn)},
            "bn1.bias has values that are no finite numbers",
        ),
        (
            {"bn1__bias": torch.ones(64, dtype=torch.uint16)},
            "bn1.bias has the type uint16, and weights are floating-point numbers",
        ),
        (
            {"bn1__bias": torch.ones(64, dtype=torch.complex64)},
            "cannot be read as a safetensors file: bn1.bias has the type complex64, which is not read",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused(file, changes, words):
    change(file, **changes)
    with pytest.raises(UserError, match=words):
        find_backbone(str(file), None)


def test_an_architecture_may_be_named_and_has_to_be_right(file):
    assert find_backbone(str(file), None, "resnet18-imagenet").network == "resnet18-imagenet"
    with pytest.raises(UserError, match=r"does not hold the weights of resnet34-imagenet: layer1\.2"):
        find_backbone(str(file), None, "resnet34-imagenet")
    with pytest.raises(UserError, match="backbone_arch resnet9: it can be resnet18-imagenet"):
        find_backbone(str(file), None, "resnet9")
    with pytest.raises(UserError, match="backbone_arch is for a file"):
        find_backbone("efficientnet-lite0", None, "resnet18-imagenet")


def test_a_network_that_is_none_of_ours_is_not_recognised(tmp_path):
    save_file({"stem.weight": torch.ones(3)}, tmp_path / "w.safetensors")
    with pytest.raises(UserError, match="is not recognised by the names of its weights"):
        find_backbone(str(tmp_path / "w.safetensors"), None)


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[:-1000],
        lambda raw: raw[:5],
        lambda raw: b"",
        lambda raw: (2**60).to_bytes(8, "little") + raw[8:],
        lambda raw: (200 * 2**20).to_bytes(8, "little") + raw[8:],
        lambda raw: raw[:8] + b"[" + raw[9:],
    ],
)
def test_a_file_that_is_not_whole_is_refused(file, damage):
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(UserError, match="cannot be read as a safetensors file"):
        find_backbone(str(file), None)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(UserError, match="cannot be read: no such file"):
        find_backbone(str(tmp_path / "nothing.safetensors"), None)


def test_a_network_of_timm_s_without_timm_names_the_command(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UserError, match="pip install timm"):
        find_backbone("timm:resnet50", None)
    with pytest.raises(UserError, match="is no network of timm's"):
        find_backbone("timm:hf-hub:somebody/model", None)


def test_a_full_memory_is_not_taken_for_a_network_that_timm_cannot_make(monkeypatch):
    import sys
    from types import SimpleNamespace

    timm = SimpleNamespace(create_model=lambda *_, **__: torch.empty(2**50, dtype=torch.uint8))
    monkeypatch.setitem(sys.modules, "timm", timm)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        find_backbone("timm:resnet50", None)
