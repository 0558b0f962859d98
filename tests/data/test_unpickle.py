"""The publishers' pickles are read, and nothing else: no name, opcode, array or damage gets any further."""

import hashlib
import os
import pickle
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference.publishers import CIFAR10_NAMES, DTYPE, NDARRAY, RECONSTRUCT, U1, U1_STATE, python2_pickle

from newfound.data import unpickle
from newfound.data.unpickle import read_pickle
from newfound.errors import UserError

PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 12)
CONTENT = b"U\x18" + PIXELS.tobytes()
BATCH = {
    b"batch_label": b"training batch 1 of 5",
    b"labels": [6, 9],
    b"data": PIXELS,
    b"filenames": [b"leptodactylus_pentadactylus_s_000004.png", b"camion_s_000148.png"],
}
META = {b"num_cases_per_batch": 10000, b"label_names": [n.encode() for n in CIFAR10_NAMES], b"num_vis": 3072}


def read(tmp_path, content):
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    return read_pickle(path)


def refusal(tmp_path, content):
    """The sentence that says why this content is not loaded: one line that begins with the file."""
    with pytest.raises(UserError) as caught:
        read(tmp_path, content)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(repr(str(tmp_path / "data_batch_1")))
    assert message.endswith(": it is not loaded")
    return message


def array(shape=b"K\x02K\x0c\x86", kind=U1 + U1_STATE, flag=b"\x89", content=CONTENT, version=1):
    """The opcodes of an array, any part of which may be another."""
    made = RECONSTRUCT + NDARRAY + b"K\x00\x85U\x01b\x87R"
    return made + b"(K" + bytes([version]) + shape + DTYPE + kind + flag + content + b"tb"


def holding(opcodes):
    """A dictionary whose one item, x, is what these opcodes make."""
    return b"\x80\x02}U\x01x" + opcodes + b"s."


def call(module, name, argument=b"U\x04true"):
    return b"c%s\n%s\n(%stR" % (module.encode(), name.encode(), argument)


def test_a_batch_as_the_publishers_wrote_it_is_read(tmp_path):
    found = read(tmp_path, python2_pickle(BATCH))
    assert found.keys() == BATCH.keys()
    assert {key: found[key] for key in found if key != b"data"} == {key: BATCH[key] for key in BATCH if key != b"data"}
    assert found[b"data"].dtype == np.uint8
    assert np.array_equal(found[b"data"], PIXELS)


def test_the_pickles_of_these_tests_are_the_publishers_to_the_byte(tmp_path):
    # The MD5 of batches.meta in the archive that the publishers ship.
    assert hashlib.md5(python2_pickle(META)).hexdigest() == "5ff9c542aee3614f3951f8cda6e48888"
    assert read(tmp_path, python2_pickle(META)) == META


def test_it_reads_what_python_reads(tmp_path):
    content = python2_pickle(BATCH | {b"long": [b"x" * 300, -5, 70000, list(range(2500))]})
    found, expected = read(tmp_path, content), pickle.loads(content, encoding="bytes")
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[key], expected[key]) for key in found if key != b"long")
    assert found[b"long"] == expected[b"long"]


def test_numpy_2_spells_a_name_in_another_way(tmp_path):
    content = python2_pickle(BATCH).replace(b"numpy.core.multiarray", b"numpy._core.multiarray")
    assert np.array_equal(read(tmp_path, content)[b"data"], PIXELS)


def test_an_array_stored_by_column_is_turned(tmp_path):
    found = read(tmp_path, holding(array(flag=b"\x88", content=b"U\x18" + PIXELS.tobytes(order="F"))))
    assert np.array_equal(found[b"x"], PIXELS)


def test_what_is_put_aside_can_be_asked_for_again(tmp_path):
    twice = b"\x80\x02}(U\x01a" + array() + b"q\x07U\x01bh\x07U\x01c]r\x00\x01\x00\x00U\x01dj\x00\x01\x00\x00u."
    found = read(tmp_path, twice)
    assert found[b"a"] is found[b"b"]
    assert found[b"c"] is found[b"d"]


# Names

NAMES = [
    ("os", "system"),
    ("posix", "system"),
    ("builtins", "eval"),
    ("__builtin__", "eval"),
    ("__builtin__", "getattr"),
    ("subprocess", "Popen"),
    ("numpy", "load"),
    ("numpy", "fromfile"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy.core.multiarray", "fromfile"),
    ("numpy.core", "_internal"),
    ("numpy.testing._private.utils", "runstring"),
    ("_codecs", "encode"),
    ("copy_reg", "_reconstructor"),
    ("pickle", "loads"),
    ("ndarray", "numpy"),
]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_any_other_name_is_refused_by_that_name(tmp_path, module, name):
    wanted = f"asks for {module}.{name}, which no CIFAR file does"
    assert wanted in refusal(tmp_path, b"\x80\x02" + call(module, name) + b".")
    assert wanted in refusal(tmp_path, holding(call(module, name)))
    assert wanted in refusal(tmp_path, holding(array(content=call(module, name))))


class Evil:
    def __reduce__(self):
        return os.system, ("false",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_calls_something_is_refused_by_name_whatever_its_protocol(tmp_path, protocol, monkeypatch):
    calls = []
    content = pickle.dumps({b"data": Evil()}, protocol)
    monkeypatch.setattr(os, "system", calls.append)
    assert f"{os.name}.system" in refusal(tmp_path, content)
    assert calls == []


def test_a_name_of_the_first_protocols_way_to_make_objects_is_told_too(tmp_path):
    assert "has the opcode INST and asks for os.system" in refusal(tmp_path, b"(U\x04trueios\nsystem\n.")
    assert "has the opcode STRING and asks for os.system" in refusal(tmp_path, b"(S'true'\nios\nsystem\n.")


def test_several_names_are_told_each(tmp_path):
    content = holding(call("os", "system") + call("os", "system") + call("numpy", "load"))
    assert "asks for os.system and numpy.load, which no CIFAR file does" in refusal(tmp_path, content)


def test_names_that_would_break_a_line_or_never_end_are_told_on_one_line(tmp_path):
    assert "asks for o\\x1bs.sys\\ttem" in refusal(tmp_path, b"\x80\x02co\x1bs\nsys\ttem\n.")
    assert len(refusal(tmp_path, b"\x80\x02c" + b"o" * 10_000 + b"\nsystem\n.")) < 500
    assert "truncated" in refusal(tmp_path, b"\x80\x02c" + b"o" * 10_000)


CALLS = {
    "an array of another class": RECONSTRUCT + RECONSTRUCT + b"K\x00\x85U\x01b\x87R",
    "an array with a size": RECONSTRUCT + NDARRAY + b"J\xff\xff\xff\x7f\x85U\x01b\x87R",
    "an array of objects": RECONSTRUCT + NDARRAY + b"K\x00\x85U\x01O\x87R",
    "ndarray itself": NDARRAY + b"K\x09\x85\x85R",
    "a reduce in the arguments of a reduce": RECONSTRUCT + array() + b"K\x00\x85U\x01b\x87R",
    "no arguments": RECONSTRUCT + b"NR",
    "arguments that are no tuple": RECONSTRUCT + b"](" + NDARRAY + b"K\x00\x85U\x01beR",
}


@pytest.mark.parametrize("opcodes", CALLS.values(), ids=CALLS)
def test_an_admitted_name_is_called_as_the_publishers_did_or_not_at_all(tmp_path, opcodes):
    assert "calls numpy" in refusal(tmp_path, holding(opcodes))


def test_what_is_no_name_cannot_be_called(tmp_path):
    for opcodes in (b"U\x09os.system(U\x04truetR", array() + b"(tR", b"](tR", DTYPE + U1 + b"(tR"):
        assert "do not fit together" in refusal(tmp_path, holding(opcodes))


# Arrays


@pytest.mark.parametrize("kind", [b"O8", b"O", b"f4", b"i8", b"V8", b"S10", b"u1,u1", b"U"])
def test_arrays_of_another_type_than_bytes_are_refused(tmp_path, kind):
    opcodes = array(kind=b"U" + bytes([len(kind)]) + kind + b"K\x00K\x01\x87R" + U1_STATE)
    assert "an array of another type than uint8" in refusal(tmp_path, holding(opcodes))


STATES = {
    "fields": b"(K\x03U\x01|NU\x01a\x85}J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb",
    "a flag for objects": U1_STATE.replace(b"K\x00tb", b"K\x3ftb"),
    "a size of its own": U1_STATE.replace(b"J\xff\xff\xff\xff", b"K\x08", 1),
    "another byte order": U1_STATE.replace(b"|", b">"),
    "no tuple": b"}b",
    "an empty tuple": b"(tb",
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_a_type_of_array_with_anything_special_is_refused(tmp_path, state):
    message = refusal(tmp_path, holding(array(kind=U1 + state)))
    assert "gives a type of array a content" in message or "not described as in CIFAR files" in message


ARRAYS = {
    "more bytes than the shape": array(content=b"U\x19" + bytes(25)),
    "fewer bytes than the shape": array(content=b"U\x17" + bytes(23)),
    "a huge shape": array(shape=b"(J\xff\xff\xff\x7fJ\xff\xff\xff\x7fJ\xff\xff\xff\x7ft"),
    "a negative shape": array(shape=b"J\xff\xff\xff\xffJ\xe8\xff\xff\xff\x86"),
    "many dimensions": array(shape=b"(" + b"K\x01" * 60 + b"K\x18t"),
    "a shape of text": array(shape=b"U\x01aU\x01b\x86"),
    "a shape that is no tuple": array(shape=b"](K\x02K\x0ce"),
    "a shape of truth values": array(shape=b"\x88K\x18\x86"),
    "no bytes": array(content=b"](" + b"K\x00" * 24 + b"e"),
    "an unfinished type": array(kind=U1),
    "no type": array(kind=b""),
    "another version": array(version=2),
    "a flag that is none": array(flag=b"K\x07"),
}


@pytest.mark.parametrize("opcodes", ARRAYS.values(), ids=ARRAYS)
def test_arrays_that_do_not_add_up_are_refused(tmp_path, opcodes):
    assert "has an array" in refusal(tmp_path, holding(opcodes))


def test_an_array_that_never_gets_its_content_is_refused(tmp_path):
    opcodes = RECONSTRUCT + NDARRAY + b"K\x00\x85U\x01b\x87R"
    assert "has an array without content" in refusal(tmp_path, holding(opcodes))


def test_only_arrays_and_their_types_can_be_given_content(tmp_path):
    for opcodes in (RECONSTRUCT + b"}U\x03fooK\x01sb", b"]}b", b"}}b", b"U\x01a}b", b"N}b"):
        assert "a content that CIFAR files do not" in refusal(tmp_path, holding(opcodes))


# Damage


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path):
    content = python2_pickle(BATCH)
    for length in range(len(content)):
        assert "is truncated: it ends after" in refusal(tmp_path, content[:length])


OTHERS = {
    "persistent id": (b"U\x01aQ", "BINPERSID"),
    "persistent id of protocol 0": (b"Pname\n", "PERSID"),
    "extension": (b"\x82\x01", "EXT1"),
    "long extension": (b"\x84\x01\x00\x00\x00", "EXT4"),
    "object by class": (NDARRAY + b")\x81", "EMPTY_TUPLE"),
    "name from the stack": (b"U\x02osU\x06system\x93", "STACK_GLOBAL"),
    "text": (b"X\x01\x00\x00\x00a", "BINUNICODE"),
    "no opcode at all": (b"\xff", "\\xff"),
}


@pytest.mark.parametrize(("opcodes", "name"), OTHERS.values(), ids=OTHERS)
def test_an_opcode_that_the_publishers_did_not_use_is_refused_by_its_name(tmp_path, opcodes, name):
    assert f"has the opcode {name}" in refusal(tmp_path, holding(opcodes))


@pytest.mark.parametrize("content", [b"\x80\x02N.", b"\x80\x02].", b"\x80\x02}}.", b"\x80\x02}(.", python2_pickle([1])])
def test_anything_but_one_dictionary_is_refused(tmp_path, content):
    assert "where CIFAR files hold a dictionary" in refusal(tmp_path, content)


def test_a_name_that_is_never_called_is_refused_too(tmp_path):
    assert "holds a numpy.dtype where" in refusal(tmp_path, holding(DTYPE))


def test_keys_that_are_no_byte_strings_are_refused(tmp_path):
    deep = b"K\x01" + b"\x85" * 100_000  # the hash of which would overflow the stack
    for key in (deep, b"K\x01", b"]", b"N"):
        assert "keys are not byte strings" in refusal(tmp_path, b"\x80\x02}" + key + b"K\x01s.")
    assert "keys are not byte strings" in refusal(tmp_path, b"\x80\x02}(U\x01au.")


@pytest.mark.parametrize(
    "opcodes", [b"h\x05", b"j\x05\x00\x00\x00", b"e", b"u", b"t", b"R", b"b", b"\x87", b"(\x85", b"aa"]
)
def test_opcodes_that_take_what_is_not_there_are_refused(tmp_path, opcodes):
    assert "its opcodes do not fit together" in refusal(tmp_path, b"\x80\x02" + opcodes + b".")


def test_a_text_of_negative_length_is_refused(tmp_path):
    assert "do not fit together" in refusal(tmp_path, holding(b"T" + struct.pack("<i", -9)))


def test_a_file_that_no_cifar_file_is_as_large_as_is_not_opened(tmp_path, monkeypatch):
    with open(tmp_path / "data_batch_1", "wb") as file:
        file.truncate(unpickle.MOST_BYTES + 1)
    monkeypatch.setattr(unpickle.Path, "read_bytes", lambda _: pytest.fail("it was read"))
    with pytest.raises(UserError, match="has 400,000,001 bytes, and no CIFAR file more than 400,000,000"):
        read_pickle(tmp_path / "data_batch_1")


def test_a_file_of_countless_opcodes_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(unpickle, "MOST_STEPS", 1000)
    assert "more than 1,000 opcodes" in refusal(tmp_path, b"\x80\x02" + b"]" * 2000)


def test_a_file_that_cannot_be_opened_is_refused(tmp_path):
    with pytest.raises(UserError, match="cannot be read: no such file"):
        read_pickle(tmp_path / "none")
    with pytest.raises(UserError, match="cannot be read: is a directory"):
        read_pickle(tmp_path)


# Anything

PIECES = [call(*names) for names in NAMES] + [bytes([code]) for code in range(256)] + [array(), U1_STATE]
UNHURT = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def survives(tmp_path, content, monkeypatch):
    """Reading gives a dictionary or a refusal, and calls nothing."""
    calls = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "system", calls.append)
        patch.setattr("builtins.eval", calls.append)
        try:
            found = read(tmp_path, content)
        except UserError:
            found = {}
    assert all(isinstance(key, bytes) for key in found)
    assert calls == []


@UNHURT
@given(flips=st.lists(st.tuples(st.integers(0, len(python2_pickle(BATCH)) - 1), st.integers(1, 255)), max_size=8))
def test_flipped_bytes_end_in_a_dictionary_or_a_refusal(tmp_path, monkeypatch, flips):
    content = bytearray(python2_pickle(BATCH))
    for place, change in flips:
        content[place] ^= change
    survives(tmp_path, bytes(content), monkeypatch)


@UNHURT
@given(pieces=st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=4)), max_size=30), at=st.integers(2, 400))
def test_inserted_opcodes_end_in_a_dictionary_or_a_refusal(tmp_path, monkeypatch, pieces, at):
    content = python2_pickle(BATCH)
    survives(tmp_path, content[:at] + b"".join(pieces) + content[at:], monkeypatch)


@UNHURT
@given(content=st.binary(max_size=200))
def test_any_bytes_end_in_a_dictionary_or_a_refusal(tmp_path, monkeypatch, content):
    survives(tmp_path, content, monkeypatch)
    survives(tmp_path, b"\x80\x02" + content, monkeypatch)
