import io

import numpy as np

from newfound.data.collection import UNKNOWN, Collection, novel_tasks
from newfound.data.store import ImageStore
from newfound.report.sheet import COLUMNS, GAP, contact_sheet


def test_each_category_has_a_row_with_its_surest_images_first():
    levels = np.array([0, 10, 20, 30, 40, 50], np.uint8)  # one known image, five unknown
    images = np.tile(levels[:, None, None, None], (1, 1, 24, 24))
    labels = np.array([0] + [UNKNOWN] * 5)
    collection = Collection(ImageStore(images), labels, ("a",), novel_tasks(1, ("", 2, np.arange(1, 6))))
    sheet = contact_sheet(collection, np.array([1, 2, 1, 2, 1]), np.array([0.2, 0.5, 0.9, 0.6, 0.4]))
    assert sheet.mode == "P"
    sheet = sheet.convert("RGB")
    cell = 48 + GAP
    shown = [
        [sheet.getpixel((GAP + column * cell + 5, GAP + row * cell + 5))[0] for column in range(4)] for row in (0, 1)
    ]
    assert shown == [[30, 50, 10, 128], [40, 20, 128, 128]]
    assert sheet.size == (COLUMNS * cell + GAP, 2 * cell + GAP)


def test_a_sheet_of_twenty_categories_of_large_photographs_is_small():
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (240, 3, 14, 14)).astype(np.uint8)
    images = np.kron(coarse, np.ones((1, 1, 16, 16), np.uint8))  # 224 x 224, as a pretrained network takes them
    labels = np.full(240, UNKNOWN)
    labels[0] = 0
    collection = Collection(ImageStore(images), labels, ("a",), novel_tasks(1, ("", 20, np.arange(1, 240))))
    sheet = contact_sheet(collection, 1 + np.arange(239) % 20, np.ones(239))
    file = io.BytesIO()
    sheet.save(file, format="PNG")
    assert sheet.size == (COLUMNS * (64 + GAP) + GAP, 20 * (64 + GAP) + GAP)
    assert len(file.getvalue()) < 1_000_000
