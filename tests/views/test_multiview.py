import dataclasses
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from reference import augment as plain

from newfound.errors import UserError
from newfound.views.crop import PadCropFlip
from newfound.views.multiview import MultiViews
from newfound.views.natural import natural_views
from newfound.views.symbolic import symbolic_views

STEP = torch.zeros((), dtype=torch.int64)
BOOLS = {"mirror", "grey", "blur", "solarise"}
ALL_ON = MultiViews(
    size=12, extra=3, extra_size=8, fill=200, rotation=40, affine=True, grey=0.5, blur=(0.5,) * 3, solarise=(0.5,) * 3
)
MORE = {"padded": 0.5, "random_threshold": True, "equalise": (0.1, 0.3, 0.6)}
"""What is drawn after the rest."""


def some_images(n=4, channels=3, size=32):
    generator = torch.Generator().manual_seed(n)
    return torch.randint(0, 256, (n, channels, size, size), dtype=torch.uint8, generator=generator)


def draw(views, n=4, seed=0):
    return views.draw(torch.Generator().manual_seed(seed), n, STEP)


def many(views):
    """Draws for many images: each [2 + V, 4000]."""
    return draw(views, 4000)


def assert_uniform(values, low, high):
    """All in the range, and near both its ends and its middle in the mean."""
    span = high - low
    assert low - 1e-6 <= values.min() < low + 0.01 * span
    assert high - 0.01 * span < values.max() <= high + 1e-6
    assert abs(values.mean() - (low + high) / 2) < 0.03 * span


@pytest.mark.parametrize("channels", [1, 3])
def test_every_view_is_that_of_the_plain_reference(channels):
    images, drawn = some_images(3, channels, 12), draw(ALL_ON, 3, seed=1)
    assert_views_of_the_plain_reference(ALL_ON, images, drawn)


@pytest.mark.parametrize("channels", [1, 3])
def test_every_padded_or_solarised_view_is_that_of_the_plain_reference(channels):
    views = dataclasses.replace(ALL_ON, padded=0.5, pad=3, random_threshold=True, solarise=(1.0, 1.0, 1.0))
    images, drawn = some_images(3, channels, 12), draw(views, 3, seed=1)
    assert 0 < drawn["padded"][:2].sum() < 6
    assert_views_of_the_plain_reference(views, images, drawn)


def test_every_equalised_view_is_that_of_the_plain_reference_up_to_rounded_levels():
    """A level between two may be rounded to either, and then all above it change a little."""
    views = dataclasses.replace(ALL_ON, size=22, extra_size=17, extra=1, equalise=(0.7, 0.7, 0.7))
    images, drawn = some_images(3, 3, 22), draw(views, 3, seed=1)
    assert 0 < drawn["equalise"].sum() < 9
    assert_views_of_the_plain_reference(views, images, drawn, atol=4 / 255)
    plainly = views.apply(images, drawn | {"equalise": torch.zeros(3, 3, dtype=torch.bool)})
    changes = furthest(views.apply(images, drawn).whole, plainly.whole)
    assert torch.equal(changes > 0.05, drawn["equalise"][:2])


def assert_views_of_the_plain_reference(views, images, drawn, atol=5e-5):
    crops = views.apply(images, drawn)
    for v, got in enumerate([*crops.whole, *crops.extra]):
        size = views.size if v < 2 else views.extra_size
        for i in range(len(images)):
            one = {name: value[v, i].item() for name, value in drawn.items()}
            expected = plain.view(images[i].numpy(), one, size, 200 / 255, 7)
            if one["solarise"]:  # a level at the threshold may fall on either side of it
                before = plain.view(images[i].numpy(), one | {"solarise": False}, size, 200 / 255, 7)
                unsure = abs(before - one.get("threshold", 0.5))
                expected = np.where(unsure < 1e-4, got[i].numpy(), expected)
            np.testing.assert_allclose(got[i], expected, atol=atol)


@pytest.mark.parametrize(
    "views",
    [ALL_ON, natural_views(32), symbolic_views(28), natural_views(32, **MORE)],
    ids=["all on", "natural", "symbolic", "more"],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_views_have_their_shapes_and_stay_in_0_to_1(views, channels):
    images = some_images(6, channels, views.size)
    crops = views.apply(images, draw(views, 6))
    assert crops.whole.shape == (2, 6, channels, views.size, views.size)
    assert crops.extra.shape == (views.extra, 6, channels, views.extra_size, views.extra_size)
    for part in (crops.whole, crops.extra):
        assert part.dtype == torch.float32
        assert 0 <= part.min() <= part.max() <= 1


def test_without_extra_views_there_are_the_two_whole_ones():
    views = natural_views(32, extra=0)
    crops = views.apply(some_images(), draw(views))
    assert crops.extra.shape == (0, 4, 3, 16, 16)
    assert crops.whole.shape == (2, 4, 3, 32, 32)


@pytest.mark.parametrize("views", [natural_views(32), symbolic_views(32)], ids=["natural", "symbolic"])
def test_applying_is_pure(views):
    images, drawn = some_images(), draw(views)
    images_before, drawn_before = images.clone(), {name: value.clone() for name, value in drawn.items()}
    first, second = views.apply(images, drawn), views.apply(images, drawn)
    assert torch.equal(first.whole, second.whole)
    assert torch.equal(first.extra, second.extra)
    assert torch.equal(images, images_before)
    assert all(torch.equal(drawn[name], drawn_before[name]) for name in drawn)


def test_an_image_is_seen_the_same_in_any_batch():
    images, drawn = some_images(), draw(ALL_ON)
    together = ALL_ON.apply(images, drawn)
    alone = ALL_ON.apply(images[2:3], {name: value[:, 2:3] for name, value in drawn.items()})
    torch.testing.assert_close(alone.whole, together.whole[:, 2:3], atol=1e-6, rtol=0)
    torch.testing.assert_close(alone.extra, together.extra[:, 2:3], atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "views",
    [ALL_ON, symbolic_views(32, extra=0), natural_views(32, **MORE)],
    ids=["all on", "no extra views", "more"],
)
def test_applying_compiles_into_one_graph(views):
    images, drawn = some_images(), draw(views)
    torch.compiler.reset()
    compiled = torch.compile(views.apply, fullgraph=True, backend="eager")(images, drawn)
    expected = views.apply(images, drawn)
    torch.testing.assert_close(compiled.whole, expected.whole)
    torch.testing.assert_close(compiled.extra, expected.extra)


def test_the_same_generator_state_draws_the_same_and_the_next_state_something_else():
    generator = torch.Generator().manual_seed(3)
    first, after = ALL_ON.draw(generator, 9, STEP), ALL_ON.draw(generator, 9, STEP)
    again = draw(ALL_ON, 9, seed=3)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], after[name]) for name in first)


def test_images_and_views_draw_apart():
    drawn = draw(ALL_ON, 50)
    for name, value in drawn.items():
        assert value.shape == (5, 50)
        if name in BOOLS:
            assert all(0 < row.float().mean() < 1 for row in value)
        else:  # out of 250, some are not jittered and some reach from edge to edge
            assert len(value.unique()) > 150


def test_no_two_parameters_share_their_random_numbers():
    drawn = many(dataclasses.replace(ALL_ON, jitter_probability=(1.0, 1.0, 1.0), **MORE))
    assert not drawn.pop("padded")[3].any()
    height, width = drawn.pop("height"), drawn.pop("width")
    apart = drawn | {
        "top": drawn["top"] / (1 - height),
        "left": drawn["left"] / (1 - width),
        "area": height * width,
        "ratio": width / height,
    }
    rows = torch.stack([value[3].nan_to_num(0).double() for value in apart.values()])
    correlation = torch.corrcoef(rows) - torch.eye(len(rows))
    assert correlation.abs().max() < 0.07


def test_no_two_parameters_of_a_padded_view_share_their_random_numbers():
    drawn = many(dataclasses.replace(ALL_ON, jitter_probability=(1.0, 1.0, 1.0), **MORE | {"padded": 1.0}))
    moving = drawn.keys() - {"padded", "height", "width"}
    rows = torch.stack([drawn[name][1].double() for name in moving])
    assert (torch.corrcoef(rows) - torch.eye(len(rows))).abs().max() < 0.07


def test_crops_take_a_uniform_area_and_a_log_uniform_ratio_within_the_frame():
    drawn = many(MultiViews())
    top, left, height, width = (drawn[name] for name in ("top", "left", "height", "width"))
    assert min(top.min(), left.min()) >= 0
    assert max((top + height).max(), (left + width).max()) <= 1 + 1e-6
    assert_uniform((height * width)[2:], 0.05, 0.3)
    assert_uniform((width / height)[2:].log(), math.log(3 / 4), math.log(4 / 3))
    whole = height[:2] * width[:2]
    assert 0.3 - 1e-6 <= whole.min() < 0.31
    assert whole.max() > 0.98
    assert_uniform((top / (1 - height))[2:], 0, 1)
    assert_uniform((left / (1 - width))[2:], 0, 1)


@pytest.mark.parametrize("fill", [0, 90])
@pytest.mark.parametrize("channels", [1, 3])
def test_padded_views_are_the_crops_after_padding_of_supervised_training(channels, fill):
    views = MultiViews(size=32, extra=1, padded=0.7, fill=fill, appearance=False)
    images, drawn = some_images(400, channels), draw(views, 400)
    whole = views.apply(images, drawn).whole
    for v in range(2):
        mask = drawn["padded"][v]
        assert 0 < mask.sum() < 400
        corner = {side: (drawn[side][v, mask] * 32 + 4).round().long() for side in ("top", "left")}
        expected = PadCropFlip(pad=4, fill=fill).apply(images[mask], corner | {"mirror": drawn["mirror"][v, mask]})
        torch.testing.assert_close(whole[v, mask], expected, atol=1e-5, rtol=0)


def test_whole_views_alone_are_padded_and_moved_by_whole_pixels_either_way():
    drawn, resized = many(MultiViews(size=24, padded=0.4, pad=3)), many(MultiViews(size=24))
    padded = drawn["padded"]
    torch.testing.assert_close(padded.float().mean(1), torch.tensor([0.4] * 2 + [0.0] * 6), atol=0.03, rtol=0)
    for name in ("top", "left"):
        steps, counts = (drawn[name][padded] * 24).unique(return_counts=True)
        torch.testing.assert_close(steps, torch.arange(-3.0, 4.0), atol=1e-5, rtol=0)
        torch.testing.assert_close(counts / counts.sum(), torch.full((7,), 1 / 7), atol=0.03, rtol=0)
        assert torch.equal(drawn[name][~padded], resized[name][~padded])
    for name in ("height", "width"):
        assert (drawn[name][padded] == 1).all()
        assert torch.equal(drawn[name][~padded], resized[name][~padded])


def test_without_geometry_no_view_is_padded():
    views = MultiViews(geometric=False, appearance=False, padded=1.0)
    images = some_images()
    torch.testing.assert_close(views.apply(images, draw(views)).whole[0], images / 255, atol=1e-6, rtol=0)


def test_sides_longer_than_the_frame_are_cut_to_it():
    drawn = many(MultiViews(whole_scale=(1.0, 1.0), extra_scale=(1.0, 1.0)))
    assert torch.equal(torch.maximum(drawn["height"], drawn["width"]), torch.ones(8, 4000))
    assert drawn["height"].min() > math.sqrt(3 / 4) - 1e-6


def test_colours_are_jittered_with_their_probability_within_their_ranges():
    drawn = many(MultiViews(blur=(1.0, 0.1, 0.5)))
    jittered = drawn["hue"] != 0
    assert abs(jittered.float().mean() - 0.8) < 0.01
    for name, reach in (("brightness", 0.4), ("contrast", 0.4), ("saturation", 0.2)):
        assert_uniform(drawn[name][jittered], 1 - reach, 1 + reach)
        assert (drawn[name][~jittered] == 1).all()
    assert_uniform(drawn["hue"][jittered], -0.1, 0.1)
    assert_uniform(drawn["sigma"], 0.1, 1.0)


def test_first_second_and_extra_views_are_jittered_and_equalised_with_their_own_probabilities():
    drawn = many(MultiViews(jitter_probability=(0.6, 0.3, 0.8), **MORE))
    jittered = (drawn["hue"] != 0).float().mean(1)
    torch.testing.assert_close(jittered, torch.tensor([0.6, 0.3] + [0.8] * 6), atol=0.03, rtol=0)
    equalised = drawn["equalise"].float().mean(1)
    torch.testing.assert_close(equalised, torch.tensor([0.1, 0.3] + [0.6] * 6), atol=0.03, rtol=0)
    assert_uniform(drawn["threshold"], 0, 1)


def test_what_happens_to_a_view_happens_with_its_probability():
    drawn = many(MultiViews(blur=(1.0, 0.1, 0.5)))
    shares = {name: drawn[name].float().mean(1) for name in BOOLS}
    expected = {"mirror": [0.5] * 8, "grey": [0.2] * 8, "blur": [1, 0.1] + [0.5] * 6, "solarise": [0, 0.2] + [0] * 6}
    for name, share in shares.items():
        torch.testing.assert_close(share, torch.tensor(expected[name], dtype=share.dtype), atol=0.03, rtol=0)


def test_restricted_rotation_turns_the_extra_views_and_leaves_the_whole_ones_upright():
    drawn = many(MultiViews(geometric=False, rotation=15))
    assert (drawn["angle"][:2] == 0).all()
    assert_uniform(drawn["angle"][2:], -15, 15)


def test_the_small_affine_map_is_on_every_view():
    drawn = many(MultiViews(geometric=False, rotation=15, affine=True))
    assert_uniform(drawn["angle"][:2], -5, 5)
    assert_uniform(drawn["angle"][2:], -15, 15)
    ranges = {"scale": (0.85, 1.1), "shear": (-8, 8), "shift_x": (-0.08, 0.08), "shift_y": (-0.08, 0.08)}
    for name, (low, high) in ranges.items():
        assert_uniform(drawn[name][:2], low, high)
        assert_uniform(drawn[name][2:], low, high)
    assert_uniform(many(MultiViews(affine=True))["angle"], -5, 5)


def grid_cell(appearance, geometric, rotated):
    """A row of the paper's table of augmentations, in which everything that can happen is certain to."""
    return MultiViews(
        appearance=appearance,
        geometric=geometric,
        rotation=15.0 * rotated,
        whole_scale=(0.3, 0.8),
        jitter_probability=(1, 1, 1),
    )


def furthest(views, images):
    """The largest difference of a level in each view of each image."""
    return (views - images).abs().flatten(2).amax(2)


@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("geometric", [False, True])
@pytest.mark.parametrize("appearance", [False, True])
def test_each_cell_of_the_papers_grid_changes_the_views_it_should_and_no_others(appearance, geometric, rotated):
    images, views = some_images(), grid_cell(appearance, geometric, rotated)
    crops = views.apply(images, draw(views))
    full = images.float() / 255
    whole, extra = furthest(crops.whole, full), furthest(crops.extra, F.avg_pool2d(full, 2))
    assert (whole.min() > 0.05) if appearance or geometric else (whole.max() < 1e-6)
    assert (extra.min() > 0.05) if appearance or geometric or rotated else (extra.max() < 1e-6)


@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("geometric", [False, True])
def test_each_cell_of_the_papers_grid_crops_mirrors_and_rotates_as_its_name_says(geometric, rotated):
    drawn = draw(grid_cell(True, geometric, rotated), 50)
    assert ((drawn["height"] < 1) | (drawn["width"] < 1)).all() == geometric
    assert ((drawn["height"] == 1) & (drawn["top"] == 0) & (drawn["left"] == 0)).all() != geometric
    assert drawn["mirror"].any() == geometric
    assert (drawn["angle"][2:] != 0).all() == rotated
    assert (drawn["angle"][:2] == 0).all()
    assert all((drawn[name] == 0).all() for name in ("shear", "shift_x", "shift_y"))
    assert (drawn["scale"] == 1).all()


def test_a_setting_does_not_change_what_the_others_draw():
    colours_alone, everything = draw(grid_cell(True, False, False)), draw(grid_cell(True, True, True))
    for name in ("brightness", "contrast", "saturation", "hue", "grey", "solarise"):
        assert torch.equal(colours_alone[name], everything[name])


@pytest.mark.parametrize("name", MORE)
def test_what_is_drawn_after_the_rest_changes_neither_the_rest_nor_each_other(name):
    alone, together, without = (draw(dataclasses.replace(ALL_ON, **more)) for more in ({name: MORE[name]}, MORE, {}))
    new = {"padded": "padded", "random_threshold": "threshold", "equalise": "equalise"}[name]
    assert alone.keys() - without.keys() == {new}
    for key, value in alone.items():
        assert torch.equal(value, together[key]) or (name != "padded" and key in ("top", "left", "height", "width"))
        assert key == new or torch.equal(value[2:], without[key][2:])


def test_the_draws_of_earlier_recipes_stay():
    """In the order of old: one draw of 19 numbers a view, and nothing after it."""
    generator, twin = (torch.Generator().manual_seed(4) for _ in range(2))
    drawn, draws = natural_views(32).draw(generator, 5, STEP), torch.rand(19, 8, 5, generator=twin)
    assert torch.equal(generator.get_state(), twin.get_state())
    assert torch.equal(drawn["mirror"], draws[4] < 0.5)
    assert torch.equal(drawn["brightness"], 1 + torch.where(draws[14] < 0.8, -0.4 + 0.8 * draws[10], 0.0))


@pytest.mark.parametrize("fill", [0, 255])
def test_the_corners_of_a_rotated_view_show_the_fill(fill):
    views = MultiViews(geometric=False, appearance=False, rotation=45, fill=fill, extra_size=32)
    images = torch.full((4, 1, 32, 32), 128, dtype=torch.uint8)
    drawn = draw(views)
    drawn["angle"][2:] = 30.0
    crops = views.apply(images, drawn)
    corners = crops.extra[..., [0, 0, -1, -1], [0, -1, 0, -1]]
    torch.testing.assert_close(corners, torch.full_like(corners, fill / 255))
    torch.testing.assert_close(crops.extra[..., 10:22, 10:22], torch.full((6, 4, 1, 12, 12), 128 / 255))
    torch.testing.assert_close(crops.whole, torch.full_like(crops.whole, 128 / 255))


def test_symbolic_views_keep_the_whole_shape_and_its_contrast_with_the_paper():
    images = torch.full((64, 1, 28, 28), 255, dtype=torch.uint8)
    images[:, :, 8:20, 12:16] = 0
    views = symbolic_views(28)
    crops = views.apply(images, draw(views, 64))
    for part in (crops.whole, crops.extra):
        border = torch.cat([part[..., 0, :], part[..., -1, :], part[..., :, 0], part[..., :, -1]], -1)
        assert border.std(-1).max() < 1e-4
        assert (border.mean(-1) > part.flatten(3).amin(3) + 0.2).all()
        dark = (part < (border.mean(-1) - 0.2)[..., None, None]).flatten(2).sum(2)
        assert dark.min() > 48 * 0.85**2 * 0.5
        assert dark.max() < 48 * 1.1**2 * 2.5


def test_symbolic_images_of_three_equal_channels_stay_grey():
    views = symbolic_views(28)
    crops = views.apply(some_images(8, 1, 28).expand(-1, 3, -1, -1), draw(views, 8))
    for part in (crops.whole, crops.extra):
        torch.testing.assert_close(part, part[:, :, :1].expand_as(part), atol=1e-6, rtol=0)


def test_small_natural_images_are_not_blurred_and_large_ones_as_in_dino():
    assert not many(natural_views(32))["blur"].any()
    assert natural_views(224).blur == (1.0, 0.1, 0.5)
    assert [natural_views(size).extra_size for size in (8, 28, 32, 64, 224)] == [8, 16, 16, 24, 96]


def test_defaults_can_be_changed_by_name():
    assert natural_views(32, extra=2, extra_size=24) == MultiViews(size=32, extra=2, extra_size=24)
    assert symbolic_views(28, rotation=30.0).rotation == 30.0


@pytest.mark.parametrize("kernel", [4, 17])
def test_a_blur_that_cannot_be_computed_is_refused_with_its_reason(kernel):
    with pytest.raises(UserError, match=f"blur_kernel is {kernel}; it has to be odd and below 16"):
        MultiViews(extra_size=8, blur=(1.0, 1.0, 1.0), blur_kernel=kernel)
