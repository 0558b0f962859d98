import numpy as np
import pytest
import torch
from reference.crop import pad_crop_flip

from newfound.views.crop import PadCropFlip

STEP = torch.zeros((), dtype=torch.int64)


@pytest.mark.parametrize("fill", [0, 255])
def test_each_image_is_cropped_and_mirrored_like_the_plain_reference(fill):
    images = torch.randint(0, 256, (32, 3, 10, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    views = PadCropFlip(pad=3, flip=True, fill=fill)
    drawn = views.draw(torch.Generator().manual_seed(1), 32, STEP)
    got = views.apply(images, drawn).numpy()
    for i in range(32):
        top, left, mirror = int(drawn["top"][i]), int(drawn["left"][i]), bool(drawn["mirror"][i])
        np.testing.assert_array_equal(got[i], pad_crop_flip(images[i].numpy(), 3, fill, top, left, mirror))


def test_draws_cover_all_offsets_and_both_directions():
    drawn = PadCropFlip(pad=2, flip=True).draw(torch.Generator().manual_seed(0), 2000, STEP)
    assert set(drawn["top"].tolist()) == set(drawn["left"].tolist()) == set(range(5))
    assert 0.45 < drawn["mirror"].float().mean() < 0.55
    assert len(set(zip(drawn["top"].tolist(), drawn["left"].tolist(), strict=True))) == 25


def test_without_flip_nothing_is_mirrored_and_without_padding_nothing_moves():
    views = PadCropFlip(pad=0, flip=False)
    images = torch.randint(0, 256, (8, 1, 6, 6), dtype=torch.uint8)
    drawn = views.draw(torch.Generator().manual_seed(0), 8, STEP)
    assert torch.equal(views.apply(images, drawn), images.float() / 255)


def test_the_same_generator_state_draws_the_same_views():
    views = PadCropFlip()
    first = views.draw(torch.Generator().manual_seed(5), 9, STEP)
    second = views.draw(torch.Generator().manual_seed(5), 9, STEP)
    assert all(torch.equal(first[k], second[k]) for k in first)
