"""Labels that stand for an unknown category, and texts that only look like it."""

import numpy as np
import pytest

from newfound.data.given import number_labels, read_images
from newfound.errors import UserError


@pytest.mark.parametrize("text", ["", "nan", "-1", "NaN", "None", " ", "<NA>"])
def test_a_text_that_looks_like_an_unknown_label_is_refused(text):
    with pytest.raises(UserError, match="looks like one that is unknown"):
        number_labels(np.array(["a", "b", text]), 3)


def test_masked_labels_are_unknown():
    labels = np.ma.masked_array([3, 4, 5], mask=[False, True, False])
    assert number_labels(labels, 3)[1].tolist() == [0, -1, 1]


def test_what_pandas_calls_missing_is_unknown():
    pandas = pytest.importorskip("pandas")
    assert number_labels(pandas.array([1, pandas.NA, 2], dtype="Int64"), 3)[1].tolist() == [0, -1, 1]
    assert number_labels([pandas.NaT, "a"], 2)[1].tolist() == [-1, 0]


def test_masked_pixels_are_refused():
    with pytest.raises(UserError, match="masked"):
        read_images(np.ma.masked_array(np.zeros((2, 3, 3), np.uint8), mask=np.eye(3, dtype=bool)[None].repeat(2, 0)))
