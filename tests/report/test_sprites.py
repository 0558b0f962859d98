import io

import numpy as np
import pytest
from PIL import Image

from newfound.data.store import ImageStore
from newfound.report.sprites import is_picture, make_sheets

PLENTY = 10**9


def store(n, side, channels=3, noise=True):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (n, channels, side, side)) if noise else rng.integers(0, 256, (n, channels, 1, 1))
    return ImageStore(np.broadcast_to(pixels, (n, channels, side, side)).astype(np.uint8))


def cut(sheets, i):
    """Picture number i, as the page's script finds it."""
    sheet, inside = divmod(i, sheets.columns**2)
    y, x = divmod(inside, sheets.columns)
    with Image.open(io.BytesIO(sheets.jpegs[sheet])) as image:
        whole = np.asarray(image.convert("RGB"))
    return whole[y * sheets.cell :, x * sheets.cell :][: sheets.side, : sheets.side]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("side", [8, 28, 96])
def test_every_picture_is_where_the_page_looks_for_it_and_free_of_its_neighbours(side, channels):
    images = store(700, side, channels, noise=False)
    rows = np.random.default_rng(1).permutation(700)
    sheets = make_sheets(images, rows, PLENTY)
    assert sheets.side == side
    assert sheets.cell % 8 == 0
    for i in (0, 1, sheets.columns, 300, 699):
        colour = np.broadcast_to(images.images[rows[i], :, 0, 0].numpy(), 3)
        assert np.abs(cut(sheets, i).astype(int) - colour).max() < 8


def test_large_images_become_small_thumbnails():
    assert make_sheets(store(3, 224), np.arange(3), PLENTY).side == 96
    assert make_sheets(store(3, 224), np.arange(3), PLENTY, 48).side == 48


@pytest.mark.parametrize("budget", [400_000, 1_500_000])
def test_thumbnails_shrink_until_they_fit_the_budget(budget):
    sheets = make_sheets(store(1000, 96), np.arange(1000), budget)
    assert sheets.side < 96
    assert budget / 6 < sum(map(len, sheets.jpegs)) <= budget


def test_vectors_are_no_pictures():
    assert is_picture(store(1, 8, 1))
    assert not is_picture(store(1, 1, 512))
