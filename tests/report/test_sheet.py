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
    cell = 48 + GAP
    shown = [
        [sheet.getpixel((GAP + column * cell + 5, GAP + row * cell + 5))[0] for column in range(4)] for row in (0, 1)
    ]
    assert shown == [[30, 50, 10, 128], [40, 20, 128, 128]]
    assert sheet.size == (COLUMNS * cell + GAP, 2 * cell + GAP)
