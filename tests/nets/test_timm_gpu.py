"""Our forward passes against timm's own, on random weights; on the machine that has timm and a GPU."""

import pytest
import torch
from safetensors.torch import save_file

from newfound.nets.pretrained import find_backbone
from newfound.nets.timm import Timm

pytestmark = pytest.mark.gpu

THEIRS = {
    "resnet18-imagenet": "resnet18",
    "resnet34-imagenet": "resnet34",
    "resnet50-imagenet": "resnet50",
    "vit-tiny-16": "vit_tiny_patch16_224",
    "vit-small-16": "vit_small_patch16_224",
    "vit-base-16": "vit_base_patch16_224",
}


def made_by_timm(name: str, **options):
    """A network of timm's with random weights, batch norms included, on the GPU."""
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    net = timm.create_model(name, pretrained=False, **options)
    with torch.no_grad():
        for key, value in net.state_dict().items():
            if key.endswith("running_var"):
                value.uniform_(0.5, 2)
            elif value.is_floating_point():
                value.add_(0.02 * torch.randn_like(value))
    return net.eval()


@pytest.mark.parametrize("name", THEIRS)
def test_a_file_of_timm_s_gives_the_features_that_timm_gives(tmp_path, name):
    theirs = made_by_timm(THEIRS[name])
    save_file({k: v.contiguous() for k, v in theirs.state_dict().items()}, tmp_path / "w.safetensors")
    ours = find_backbone(str(tmp_path / "w.safetensors"), None)
    assert ours.network == name
    theirs.reset_classifier(0)
    images = torch.randn(8, 3, 224, 224, device="cuda")
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    with torch.no_grad():
        expected = theirs.cuda()(images)
        got = ours.net.cuda()(images)
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().mean()))


def test_efficientnet_lite0_is_timm_s_with_tensorflow_s_padding():
    """timm's tf_efficientnet_lite0 has the same layers in the same order under other names."""
    from newfound.nets.efficientnet import EfficientNetLite

    theirs = made_by_timm("tf_efficientnet_lite0", num_classes=0)
    ours = EfficientNetLite(0).eval()
    wanted, given = ours.state_dict(), theirs.state_dict()
    assert [v.shape for v in wanted.values()] == [v.shape for v in given.values()]
    ours.load_state_dict(dict(zip(wanted, given.values(), strict=True)))
    images = torch.randn(4, 3, 224, 224, device="cuda")
    with torch.no_grad():
        expected, got = theirs.cuda()(images), ours.cuda()(images)
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().mean()))


def test_a_network_by_its_name_gives_the_same_as_timm():
    pytest.importorskip("timm")
    net = Timm("timm:resnet18").eval().cuda()
    images = torch.randn(4, 3, 224, 224, device="cuda")
    with torch.no_grad():
        assert net(images).shape == (4, net.width) == (4, 512)
    assert (net.size, len(net.mean), len(net.deviation)) == (224, 3, 3)
