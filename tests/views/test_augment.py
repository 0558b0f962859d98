import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps
from reference import augment as plain

from newfound.views import augment

N = 5


def uniform(seed, *shape, low=0.0, high=1.0):
    return low + (high - low) * torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def some_images(channels=3, height=9, width=11, n=N):
    return uniform(channels, n, channels, height, width)


def no_change(*shape):
    """The matrices that show the full frame as it is."""
    return torch.eye(2, 3).expand(*shape, 2, 3)


def random_affine(seed, *shape):
    return {
        "angle": uniform(seed, *shape, low=-180, high=180),
        "scale": uniform(seed + 1, *shape, low=0.6, high=1.5),
        "shear": uniform(seed + 2, *shape, low=-20, high=20),
        "shift_x": uniform(seed + 3, *shape, low=-0.2, high=0.2),
        "shift_y": uniform(seed + 4, *shape, low=-0.2, high=0.2),
    }


def random_boxes(seed, *shape):
    height, width = uniform(seed, *shape, low=0.2), uniform(seed + 1, *shape, low=0.2)
    top, left = uniform(seed + 2, *shape) * (1 - height), uniform(seed + 3, *shape) * (1 - width)
    return {"top": top, "left": left, "height": height, "width": width}


def of_one(parameters, *index):
    return {name: value[index].item() for name, value in parameters.items()}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("fill", [0.0, 1.0])
def test_warping_samples_each_pixel_like_the_plain_reference(channels, fill):
    images = some_images(channels)
    matrices = no_change(2, N) + uniform(7, 2, N, 2, 3, low=-0.4, high=0.4)
    got = augment.warp(images, matrices, 8, fill)
    assert got.shape == (2, N, channels, 8, 8)
    for v in range(2):
        for i in range(N):
            expected = plain.warp(images[i].double().numpy(), matrices[v, i].double().numpy(), 8, fill)
            np.testing.assert_allclose(got[v, i], expected, atol=1e-5)


def test_where_nothing_lies_outside_warping_is_torchs_affine_sampling():
    images, matrices = some_images(), augment.crop_matrices(**random_boxes(0, 1, N)) * 0.8
    grid = F.affine_grid(matrices[0], [N, 3, 6, 6], align_corners=False)
    expected = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
    torch.testing.assert_close(augment.warp(images, matrices, 6, 0.5)[0], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("fill", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("size", [8, 9, 32])
def test_the_identity_gives_the_image_back(size, fill):
    images = some_images(height=size, width=size)
    torch.testing.assert_close(augment.warp(images, no_change(1, N), size, fill)[0], images, atol=1e-6, rtol=0)


def test_warping_takes_bytes_as_levels_from_0_to_1():
    images = (some_images() * 255).to(torch.uint8)
    matrices = augment.crop_matrices(**random_boxes(0, 1, N))
    assert torch.equal(augment.warp(images, matrices, 6, 0), augment.warp(images.float() / 255, matrices, 6, 0))


def test_a_crop_enlarges_its_box():
    images, boxes = some_images(), random_boxes(3, N)
    got = augment.warp(images, augment.crop_matrices(**boxes)[None], 7, 0.0)[0]
    for i in range(N):
        box = of_one(boxes, i)
        expected = plain.resample(images[i].double().numpy(), 7, 0.0, lambda x, y, box=box: plain.uncrop(x, y, **box))
        np.testing.assert_allclose(got[i], expected, atol=1e-5)


def test_a_crop_at_the_edge_does_not_mix_in_what_lies_beyond():
    zero, third = torch.zeros(1, 1), torch.full((1, 1), 1 / 3)
    got = augment.warp(torch.ones(1, 3, 9, 9), augment.crop_matrices(zero, zero, third, third), 32, 0.0)
    torch.testing.assert_close(got, torch.ones_like(got), atol=1e-6, rtol=0)


@pytest.mark.parametrize("fill", [0.0, 0.3])
@pytest.mark.parametrize("size", [7, 32])
def test_a_padded_image_moved_by_whole_pixels_is_cut_off_between_two_of_them(size, fill):
    images, zero, one = some_images(height=size, width=size), torch.zeros(N), torch.ones(N)
    matrices = augment.crop_matrices(zero - 2 / size, zero + 3 / size, one, one)[None]
    mask = torch.tensor([True, False, True, False, True])
    got = augment.warp(images, matrices, size, fill, mask[None])[0]
    expected = F.pad(images, (0, 3, 2, 0), value=fill)[:, :, :size, 3:]
    torch.testing.assert_close(got[mask], expected[mask], atol=1e-5, rtol=0)
    assert torch.equal(got[~mask], augment.warp(images, matrices, size, fill)[0][~mask])
    assert (got - expected)[~mask].abs().amax() > 0.1  # without a padding, half of the edge is seen beyond it


def test_an_affine_map_shears_rotates_scales_and_then_shifts():
    images, affine = some_images(width=9), random_affine(5, N)
    got = augment.warp(images, augment.affine_matrices(**affine)[None], 8, 1.0)[0]
    for i in range(N):
        one = of_one(affine, i)
        source = lambda x, y, one=one: plain.unaffine(x, y, **one)  # noqa: E731
        np.testing.assert_allclose(got[i], plain.resample(images[i].double().numpy(), 8, 1.0, source), atol=2e-5)


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_positive_angles_turn_counter_clockwise(quarters):
    images, zero, one = some_images(height=10, width=10), torch.zeros(N), torch.ones(N)
    got = augment.warp(images, augment.affine_matrices(zero + 90 * quarters, one, zero, zero, zero)[None], 10, 0)[0]
    torch.testing.assert_close(got, images.rot90(quarters, (2, 3)), atol=1e-5, rtol=0)


def test_positive_shifts_go_right_and_down():
    images, zero, one = some_images(height=10, width=10), torch.zeros(N), torch.ones(N)
    got = augment.warp(images, augment.affine_matrices(zero, one, zero, zero + 0.2, zero + 0.1)[None], 10, 0.5)[0]
    torch.testing.assert_close(got[:, :, 1:, 2:], images[:, :, :-1, :-2], atol=1e-5, rtol=0)


def test_only_masked_images_are_mirrored():
    images, mask = some_images(height=8, width=8), torch.tensor([True, False, True, False, False])
    got = augment.warp(images, augment.mirror(no_change(1, N), mask[None]), 8, 0)[0]
    torch.testing.assert_close(got[mask], images[mask].flip(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(got[~mask], images[~mask], atol=1e-6, rtol=0)


def test_composed_matrices_lead_through_the_second_view_to_the_first_and_on_to_the_image():
    first, then = augment.crop_matrices(**random_boxes(3, 2, N)), augment.affine_matrices(**random_affine(8, 2, N))
    bottom = torch.tensor([0.0, 0, 1]).expand(2, N, 1, 3)
    expected = torch.cat([first, bottom], -2) @ torch.cat([then, bottom], -2)
    torch.testing.assert_close(augment.compose(first, then), expected[..., :2, :])


def colour_factors(n):
    factors = [uniform(seed, n, low=0.4, high=1.6) for seed in range(3)]
    return *factors, uniform(3, n, low=-0.5, high=0.5)


@pytest.mark.parametrize("channels", [1, 3])
def test_colours_change_like_the_plain_reference(channels):
    images, factors = some_images(channels, n=12), colour_factors(12)
    got = augment.adjust_colours(images, *factors)
    for i in range(12):
        expected = plain.adjust_colours(images[i].double().numpy(), *(f[i].item() for f in factors))
        np.testing.assert_allclose(got[i], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("place", "enhance"), [(0, ImageEnhance.Brightness), (1, ImageEnhance.Contrast), (2, ImageEnhance.Color)]
)
def test_factors_mean_what_they_mean_in_pillow(place, enhance):
    pixels = (uniform(0, 8, 8, 3) * 255).to(torch.uint8)
    for factor in (0.5, 0.9, 1.4):
        factors = [torch.ones(1), torch.ones(1), torch.ones(1), torch.zeros(1)]
        factors[place] = torch.tensor([factor])
        got = augment.adjust_colours(pixels.permute(2, 0, 1)[None].float() / 255, *factors)[0].permute(1, 2, 0)
        expected = np.asarray(enhance(Image.fromarray(pixels.numpy())).enhance(factor))
        np.testing.assert_allclose(got * 255, expected, atol=2)  # Pillow rounds down to whole levels


def test_a_third_of_a_turn_makes_red_green_green_blue_and_blue_red():
    images = torch.eye(3)[:, :, None, None]
    one = torch.ones(3)
    got = augment.adjust_colours(images, one, one, one, one / 3)
    torch.testing.assert_close(got, images.roll(1, 1), atol=1e-5, rtol=0)


@given(st.lists(st.sampled_from([0.0, 1e-7, 0.25, 0.5, 0.75, 1.0]), min_size=3, max_size=3), st.floats(-0.5, 0.5))
@settings(max_examples=150, deadline=None)
def test_hues_turn_like_the_plain_reference_where_channels_are_equal_or_extreme(pixel, turns):
    image, one = torch.tensor(pixel)[None, :, None, None], torch.ones(1)
    got = augment.adjust_colours(image, one, one, one, torch.tensor([turns]))
    assert 0 <= got.min() <= got.max() <= 1
    expected = plain.adjust_colours(image[0].double().numpy(), 1, 1, 1, turns)
    np.testing.assert_allclose(got[0], expected, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_factors_of_one_leave_the_colours(channels):
    images, one = some_images(channels), torch.ones(N)
    torch.testing.assert_close(augment.adjust_colours(images, one, one, one, 0 * one), images, atol=1e-6, rtol=0)
    assert torch.equal(augment.adjust_colours(images, one, one, one, None), images)


def test_images_of_one_channel_have_no_saturation_hue_or_grey():
    images, (brightness, contrast, saturation, hue) = some_images(1), colour_factors(N)
    coloured = augment.adjust_colours(images, brightness, contrast, saturation, hue)
    assert torch.equal(coloured, augment.adjust_colours(images, brightness, contrast, torch.ones(N), None))
    assert torch.equal(augment.to_grey(images, torch.ones(N, dtype=torch.bool)), images)


def test_only_masked_images_lose_their_colour_are_solarised_or_blurred():
    images, mask, sigma = some_images(), torch.tensor([True, False, True, True, False]), uniform(1, N, low=0.1, high=2)
    pairs = [
        (augment.to_grey(images, mask), lambda i: plain.to_grey(images[i].double().numpy())),
        (augment.solarise(images, mask, 0.6), lambda i: plain.solarise(images[i].double().numpy(), 0.6)),
        (augment.blur(images, sigma, mask, 5), lambda i: plain.blur(images[i].double().numpy(), sigma[i].item(), 5)),
    ]
    for got, expected in pairs:
        for i in range(N):
            if mask[i]:
                np.testing.assert_allclose(got[i], expected(i), atol=1e-5)
                assert not torch.equal(got[i], images[i])
            else:
                assert torch.equal(got[i], images[i])


def few_levels(seed, low, high, size, channels=3, n=N):
    """Bytes with more of one level than of another, [n, C, size, size]."""
    return (low + (high - low) * uniform(seed, n, channels, size, size) ** 2).to(torch.uint8)


# Steps of 0, of 1, where the highest level goes beyond 255 and is cut, and of more.
@pytest.mark.parametrize("size", [8, 16, 18, 20, 32])
@pytest.mark.parametrize("levels", [(0, 256), (100, 130), (254, 256), (0, 2), (77, 77)])
def test_equalising_means_what_it_means_in_pillow(size, levels):
    pixels = few_levels(size, *levels, size)
    got = augment.equalise(pixels.float() / 255, torch.ones(N, dtype=torch.bool))
    for i in range(N):
        expected = np.asarray(ImageOps.equalize(Image.fromarray(pixels[i].permute(1, 2, 0).numpy())))
        np.testing.assert_array_equal((got[i] * 255).permute(1, 2, 0), expected)


@pytest.mark.parametrize("channels", [1, 3])
def test_only_masked_images_are_equalised_after_rounding_like_the_plain_reference(channels):
    images, mask = uniform(4, N, channels, 20, 19) ** 2, torch.tensor([True, False, True, True, False])
    got = augment.equalise(images, mask)
    assert torch.equal(got[~mask], images[~mask])
    for i in mask.nonzero().flatten():
        np.testing.assert_allclose(got[i], plain.equalise(images[i].numpy()), atol=1e-6)


def test_each_image_is_solarised_from_its_own_threshold_on():
    pixels, thresholds = (some_images() * 255).to(torch.uint8), torch.tensor([0, 31, 128, 200, 256])
    got = augment.solarise(pixels.float() / 255, torch.ones(N, dtype=torch.bool), (thresholds - 0.5) / 255)
    for i in range(N):
        expected = ImageOps.solarize(Image.fromarray(pixels[i].permute(1, 2, 0).numpy()), int(thresholds[i]))
        np.testing.assert_allclose(got[i].permute(1, 2, 0) * 255, np.asarray(expected), atol=1e-4)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kernel", [1, 3, 9])
def test_blur_is_a_gaussian_of_each_images_own_width(channels, kernel):
    images, sigma = some_images(channels), torch.tensor([0.1, 0.5, 1.0, 2.0, 5.0])
    got = augment.blur(images, sigma, torch.ones(N, dtype=torch.bool), kernel)
    for i in range(N):
        np.testing.assert_allclose(got[i], plain.blur(images[i].double().numpy(), sigma[i].item(), kernel), atol=1e-5)


def test_white_stays_white_and_black_stays_black_without_leaving_0_to_1():
    mask, zero, one = torch.ones(N, dtype=torch.bool), torch.zeros(N), torch.ones(N)
    affine = augment.affine_matrices(**random_affine(0, 1, N))
    for level in (0.0, 1.0):
        images = torch.full((N, 3, 9, 9), level)
        for got in (
            augment.warp(images, affine, 16, level),
            augment.adjust_colours(images, one, one + 0.4, one + 0.4, zero + 0.1),
            augment.to_grey(images, mask),
            augment.equalise(images, mask),
            augment.blur(images, one, mask, 9),
        ):
            assert 0 <= got.min() <= got.max() <= 1
            torch.testing.assert_close(got, torch.full_like(got, level), atol=1e-6, rtol=0)
