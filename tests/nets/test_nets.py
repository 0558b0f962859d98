import numpy as np
import pytest
import torch
from torch.nn import functional as F

from newfound.errors import UserError
from newfound.nets import NAMES, Normalise, build, resnet18, tiny, vgg6
from newfound.nets.resnet import BasicBlock


def parameters(net):
    return sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize(
    ("stem", "channels", "count"), [("cifar", 3, 11_168_832), ("imagenet", 3, 11_176_512), ("cifar", 1, 11_167_680)]
)
def test_resnet18_has_the_published_number_of_parameters(stem, channels, count):
    assert parameters(resnet18(channels, stem)) == count


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_network_gives_features_of_its_width(name, channels):
    net = build(name, channels, 32).eval()
    assert net(torch.randn(2, channels, 32, 32)).shape == (2, net.width)


@pytest.mark.parametrize(("size", "width"), [(32, 1024), (16, 256), (40, 1024), (48, 2304)])
def test_the_width_of_vgg6_follows_the_image_size(size, width):
    net = build("vgg6", 1, size).eval()
    assert net.width == width
    assert net(torch.randn(2, 1, size, size)).shape == (2, width)


@pytest.mark.parametrize(("stem", "size", "side"), [("cifar", 32, 4), ("cifar", 16, 2), ("imagenet", 224, 7)])
def test_resnet18_averages_maps_of_the_expected_size(stem, size, side):
    net = resnet18(3, stem).eval()
    images = torch.randn(1, 3, size, size)
    maps = net.maps(images)
    assert maps.shape == (1, 512, side, side)
    torch.testing.assert_close(net(images), maps.flatten(2).mean(2))


@pytest.mark.parametrize("size", [8, 9, 15, 32])
def test_tiny_takes_any_image_from_8_pixels_up(size):
    assert tiny(1).eval()(torch.randn(2, 1, size, size)).shape == (2, 128)


def batch_normalised(maps, eps=1e-5):
    mean = maps.mean((0, 2, 3), keepdim=True)
    variance = ((maps - mean) ** 2).mean((0, 2, 3), keepdim=True)
    return (maps - mean) / (variance + eps) ** 0.5


@pytest.mark.parametrize(("inputs", "stride"), [(4, 1), (3, 1), (4, 2)])
def test_a_basic_block_is_two_convolutions_beside_a_shortcut(inputs, stride):
    torch.manual_seed(0)
    block = BasicBlock(inputs, 4, stride).double()
    maps = torch.randn(3, inputs, 6, 6, dtype=torch.float64)
    inner = F.conv2d(maps, block.conv1.weight, stride=stride, padding=1)
    inner = batch_normalised(inner).clamp(min=0)
    inner = batch_normalised(F.conv2d(inner, block.conv2.weight, padding=1))
    shortcut = maps
    if inputs != 4 or stride != 1:
        kernel = block.downsample[0].weight[:, :, 0, 0]
        shortcut = batch_normalised(torch.einsum("oi,nihw->nohw", kernel, maps[:, :, ::stride, ::stride]))
    torch.testing.assert_close(block(maps), (inner + shortcut).clamp(min=0))


def test_the_parameters_of_resnet18_carry_the_public_names():
    expected = ["conv1.weight", *batch_norm("bn1")]
    for layer in range(1, 5):
        for block in range(2):
            prefix = f"layer{layer}.{block}"
            for i in (1, 2):
                expected += [f"{prefix}.conv{i}.weight", *batch_norm(f"{prefix}.bn{i}")]
            if layer > 1 and block == 0:
                expected += [f"{prefix}.downsample.0.weight", *batch_norm(f"{prefix}.downsample.1")]
    for stem in ("cifar", "imagenet"):
        assert sorted(resnet18(3, stem).state_dict()) == sorted(expected)


def batch_norm(name):
    return [f"{name}.{part}" for part in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]


def test_the_convolutions_of_resnet18_start_with_the_deviation_of_he():
    torch.manual_seed(0)
    weight = resnet18(3, "cifar").layer3[0].conv1.weight  # from 128 to 256 maps
    assert weight.std().item() == pytest.approx((2 / (9 * 256)) ** 0.5, rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_reaches_the_first_convolution(name):
    torch.manual_seed(0)
    net = build(name, 1, 32)
    features = net(torch.randn(4, 1, 32, 32))
    (features * torch.randn_like(features)).sum().backward()
    first = next(module for module in net.modules() if isinstance(module, torch.nn.Conv2d)).weight
    assert first.shape[1] == 1
    assert first.grad.abs().amax(dim=(1, 2, 3)).min() > 0


@pytest.mark.parametrize("name", NAMES)
def test_features_in_evaluation_do_not_depend_on_the_rest_of_the_batch(name):
    torch.manual_seed(0)
    net = build(name, 3, 32).eval()
    images = torch.randn(3, 3, 32, 32)
    torch.testing.assert_close(net(images)[1:2], net(images[1:2]), rtol=1e-4, atol=1e-5)


def test_an_unknown_network_is_answered_with_the_known_ones():
    with pytest.raises(UserError, match=r"'resnet5'; choose one of resnet18, resnet18-imagenet, .*vgg6, tiny"):
        build("resnet5", 3, 32)


@pytest.mark.parametrize(("name", "size"), [("vgg6", 15), ("tiny", 7)])
def test_images_too_small_for_the_network_are_refused(name, size):
    with pytest.raises(UserError, match=f"at least {size + 1} x {size + 1} pixels, not {size} x {size}"):
        build(name, 1, size)


def test_vgg6_refuses_images_of_another_size_than_it_was_built_for():
    with pytest.raises(ValueError, match="built for images of 32 x 32 pixels"):
        vgg6(1, 32)(torch.zeros(2, 1, 16, 16))


def test_a_stem_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="choose cifar or imagenet"):
        resnet18(3, "mnist")


def test_normalisation_is_that_of_numpy_for_bytes_and_for_fractions():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 3, 4, 6), dtype=np.uint8)
    mean, std = np.array([0.1, 0.5, 0.7]), np.array([0.2, 0.3, 0.25])
    expected = (pixels / 255 - mean[:, None, None]) / std[:, None, None]
    normalise = Normalise(mean, std)
    from_bytes = normalise(torch.tensor(pixels))
    assert from_bytes.dtype == torch.float32
    np.testing.assert_allclose(from_bytes.numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(normalise(torch.tensor(pixels / 255)).numpy(), expected, atol=1e-5)


def test_a_channel_that_never_varies_is_only_shifted():
    out = Normalise([0.2, 0.5], [0.0, 0.1])(torch.full((1, 2, 2, 2), 0.6))
    torch.testing.assert_close(out[0, :, 0, 0], torch.tensor([0.4, 1.0]))


def test_normalisation_is_saved_with_the_weights():
    saved = Normalise([0.2, 0.5], [0.3, 0.1]).state_dict()
    other = Normalise([0.0, 0.0], [1.0, 1.0])
    other.load_state_dict(saved)
    images = torch.rand(1, 2, 2, 2)
    torch.testing.assert_close(other(images), Normalise([0.2, 0.5], [0.3, 0.1])(images))
