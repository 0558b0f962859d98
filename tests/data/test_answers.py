"""Tables of images and labels: what is read from them, and which mistakes are named with their line."""

import io
import os

import pytest

from newfound.data.answers import read_answers, read_table
from newfound.errors import UserError
from newfound.progress import Reporter
from newfound.tables import format_table


def write(tmp_path, content):
    path = tmp_path / "truth.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path, names=("a.png",)):
    with pytest.raises(UserError) as caught:
        read_answers(path, names)
    assert "\n" not in str(caught.value)
    assert repr(str(path)) in str(caught.value)
    return str(caught.value)


EXCEL = "image;label;note\r\na.png;Vogel;0,5\r\n", "image\tlabel\r\na.png\tVogel\r\n"


def test_each_name_gets_its_label_in_the_order_of_the_names(tmp_path):
    path = write(tmp_path, "image,label\nsub/a.png,cat\nb.png,dog\nextra.png,cow\n")
    assert read_answers(path, ["b.png", "unlisted.png", "sub/a.png"]) == ("dog", None, "cat")


def test_an_empty_label_is_no_answer(tmp_path):
    path = write(tmp_path, "image,label\na.png,\nb.png,  \nc.png,cow\n")
    assert read_answers(path, ["a.png", "b.png", "c.png"]) == (None, None, "cow")


@pytest.mark.parametrize("content", [b"\xef\xbb\xbfimage,label\na.png,Vogel\n", b"image,label\r\na.png,Vogel\r\n"])
def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path, content):
    assert read_answers(write(tmp_path, content), ["a.png"]) == ("Vogel",)


@pytest.mark.parametrize("content", EXCEL)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
def test_semicolons_tabs_and_what_a_spreadsheet_calls_unicode_text_are_read(tmp_path, content, encoding):
    bom = b"\xfe\xff" if encoding == "utf-16-be" else b""
    assert read_answers(write(tmp_path, bom + content.encode(encoding)), ["a.png"]) == ("Vogel",)


def test_the_header_says_what_separates_the_columns(tmp_path):
    rows = read_table(write(tmp_path, "image,label\na;b.png,cat;dog\n"))
    assert {image: row.label for image, row in rows.items()} == {"a;b.png": "cat;dog"}
    rows = read_table(write(tmp_path, '\n"image";"label"\n"a;b.png";"cat,dog"\n'))
    assert {image: (row.label, row.line) for image, row in rows.items()} == {"a;b.png": ("cat,dog", 3)}
    message = refusal(write(tmp_path, "image;label\na.png,cat\n"))
    assert "line 2: expected an image and a label, with a semicolon between the columns as in the header" in message


def test_columns_may_be_in_any_order_among_others(tmp_path):
    path = write(tmp_path, "confidence, label ,image\n\n0.5,cat,a.png\n")
    assert read_answers(path, ["a.png"]) == ("cat",)


def test_one_image_may_be_spelt_in_several_ways(tmp_path):
    path = write(tmp_path, "image,label\n./sub//a.png,cat\nsub/a.png,cat\n")
    assert read_answers(path, ["sub/a.png"]) == ("cat",)


def test_names_that_are_not_utf8_or_need_quotes_are_found(tmp_path):
    odd = os.fsdecode(b"caf\xe9.png")
    path = write(
        tmp_path, b'image,label\ncaf\xe9.png,cat\n"new\nline, ""quote"".png",dog\n\xe9\xb3\xa5.png,\xe9\xb3\xa5\n'
    )
    assert read_answers(path, [odd, 'new\nline, "quote".png', "鳥.png"]) == ("cat", "dog", "鳥")


def test_a_row_knows_the_line_it_begins_on(tmp_path):
    rows = read_table(write(tmp_path, 'image,label\n\n"a\nb.png",cat\nc.png,dog\n'))
    assert [row.line for row in rows.values()] == [3, 5]


@pytest.mark.parametrize("first", ["a.png,cat", "image|label", "Bild,Kategorie", "image"])
def test_a_missing_header_is_named(tmp_path, first):
    message = refusal(write(tmp_path, f"{first}\nb.png,dog\n"))
    assert f"line 1: expected the header image,label but found {first!r}" in message
    assert "with a comma, a semicolon or a tab between the columns" in message


def test_another_encoding_is_named(tmp_path):
    table = "image,label\na.png,cat\n"
    assert "save the table as CSV in UTF-8" in refusal(write(tmp_path, table.encode("utf-16-le")))
    assert "save it as UTF-8" in refusal(write(tmp_path, table.encode("utf-16")[:-1]))


def test_a_table_without_anything_has_no_header(tmp_path):
    assert "the file is empty" in refusal(write(tmp_path, "\n\n"))
    assert "no line after it" in refusal(write(tmp_path, "image,label\n"))


def test_two_labels_for_one_image_are_refused_with_both_lines(tmp_path):
    message = refusal(write(tmp_path, "image,label\na.png,cat\nb.png,cow\n./a.png,dog\n"))
    assert "line 4: image 'a.png' has the label 'dog', but 'cat' on line 2" in message


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"b.png", "expected an image and a label, with a comma between the columns as in the header; found 'b.png'"),
        (b",dog", "no image is named"),
        (b"b.png,caf\xe9", "is not UTF-8"),
        (b'"b.png,dog', "not a CSV file"),
        (b'"b"x.png,dog', "not a CSV file"),
    ],
)
def test_a_line_that_makes_no_sense_is_named(tmp_path, line, complaint):
    message = refusal(write(tmp_path, b"image,label\na.png,cat\n" + line + b"\n"))
    assert "line 3" in message
    assert complaint in message


def test_a_table_about_other_images_shows_a_name_of_each_side(tmp_path):
    message = refusal(write(tmp_path, "image,label\npile/a.png,cat\n"), ["a.png", "b.png"])
    assert "none of the 2 images: it has 'pile/a.png' where the run has 'a.png'" in message


def test_a_table_that_cannot_be_opened_is_refused(tmp_path):
    assert "no such file" in refusal(tmp_path / "truth.csv")
    assert "is a directory" in refusal(tmp_path)


def test_no_names_need_no_answers(tmp_path):
    assert read_answers(write(tmp_path, "image,label\na.png,cat\n"), []) == ()


def test_names_that_are_no_images_of_the_run_are_told(tmp_path):
    path, said = write(tmp_path, "image,label\n./a.png,cat\nx.png,cow\ny.png,cow\n"), io.StringIO()
    read_answers(path, ["a.png", "b.png"], Reporter(stream=said))
    assert said.getvalue() == "2 names in the table are no images of this run, such as 'x.png'\n"
    read_answers(path, ["a.png", "x.png", "y.png"], Reporter(stream=said))
    read_answers(path, ["a.png", "x.png"], Reporter(stream=said))
    assert said.getvalue().splitlines()[1:] == ["1 name in the table is no image of this run, such as 'y.png'"]


def test_the_marks_that_tables_of_runs_have_are_taken_off(tmp_path):
    pairs = [("=a.png", "=1+1"), ("-b.png", "'@x"), ("c.png", "'x"), ("+d.png", "'"), ("e.png", "-")]
    rows = read_table(write(tmp_path, format_table(["image", "label"], pairs)))
    assert {image: row.label for image, row in rows.items()} == dict(pairs)
