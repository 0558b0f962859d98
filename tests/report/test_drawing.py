"""Drawings: what becomes of shapes and text, and a digest that follows from them alone."""

import io

import numpy as np
from PIL import Image

from newfound.report.drawing import Drawing, digest_of, shortened, text_width


def pixels(drawing):
    return np.asarray(Image.open(io.BytesIO(drawing.png())).convert("RGB"))


def test_a_disc_is_filled_or_hollow_where_it_should_be():
    drawing = Drawing(60, 30)
    drawing.disc(15, 15, 8, "#00796b")
    drawing.disc(45, 15, 8, "#ffffff", "#000000")
    picture = pixels(drawing)
    assert picture.shape == (60, 120, 3)
    assert picture[30, 30].tolist() == [0x00, 0x79, 0x6B]
    assert picture[30, 90].tolist() == [255, 255, 255]
    assert picture[30, 2 * (45 - 8) + 2].max() < 60
    assert picture[2, 2].tolist() == [255, 255, 255]


def test_text_lies_over_shapes_and_upright_text_is_higher_than_wide():
    def ink(turned):
        drawing = Drawing(80, 80)
        drawing.text(40, 40, "accuracy", 14, "#000000", "mm", turned)
        drawing.box(0, 0, 80, 80, "#ffffff")
        dark = np.argwhere(pixels(drawing).sum(2) < 200)
        return np.ptp(dark, axis=0)

    assert ink(False)[0] < ink(False)[1]
    assert ink(True)[0] > ink(True)[1]


def test_the_digest_says_what_was_drawn(tmp_path):
    def draw(x):
        drawing = Drawing(40, 20)
        drawing.line([(0, 10), (x, 10)], "#000000")
        return drawing

    (tmp_path / "picture.png").write_bytes(draw(30).png())
    assert digest_of(tmp_path / "picture.png") == draw(30).digest() != draw(31).digest()
    Image.new("RGB", (4, 4)).save(tmp_path / "other.png")
    assert digest_of(tmp_path / "other.png") == ""


def test_long_names_end_in_dots_within_the_width():
    assert shortened("dog", 100, 13) == "dog"
    short = shortened("a-very-long-name-of-a-category", 80, 13)
    assert short.endswith("…")
    assert text_width(short, 13) <= 80
