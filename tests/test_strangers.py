"""Values in texts that somebody else may have written: what is plain is read, anything else is a ValueError."""

import pytest

from newfound.strangers import parse_json, parse_yaml

YAML = {
    "a float to the base of 60": "a: 1" + ":59" * 400 + ".5",
    "no float": "a: !!float ''",
    "no number": "a: !!int ''",
    "no truth": "a: !!bool x",
    "text by a tag": "a: !!str b",
    "a tag of nobody's": "a: !mine b",
    "half of a character": 'a: "\\ud800"',
    "half of a character in eight digits": 'a: "\\U0000d800"',
}
JSON = {
    "half of a character": b'"\\ud800"',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "UTF-32": '{"a": 1}'.encode("utf-32"),
    "half of a character in UTF-16": '"\\ud800"'.encode("utf-16"),
}


@pytest.mark.parametrize("text", YAML.values(), ids=YAML.keys())
def test_yaml_that_is_not_plain_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"not taken|too large|half of a character"):
        parse_yaml(text)


@pytest.mark.parametrize("text", JSON.values(), ids=JSON.keys())
def test_json_that_no_file_could_be_written_with_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"half of a character|Expecting value"):
        parse_json(text)


def test_bytes_that_are_no_utf_8_come_back_as_they_were():
    found = parse_json(b'"\xed\xa0\x80 \xff \xc3\xa9"')
    assert found.encode(errors="surrogateescape") == b"\xed\xa0\x80 \xff \xc3\xa9"


def test_what_people_write_is_read():
    assert parse_yaml("a: [1, 2.5, -.inf, yes, null, 'b', \"\\u00e9\", é]") == {
        "a": [1, 2.5, -float("inf"), True, None, "b", "é", "é"]
    }
    assert parse_json('{"a": [1, 2.5, true, null, "\\u00e9"]}') == {"a": [1, 2.5, True, None, "é"]}
