"""What `newfound methods` says of each method, which it does not import."""

import pytest

from newfound.methods import SAID, get_method, method_names, recorded, said


@pytest.mark.parametrize("name", method_names())
def test_every_method_has_a_reference_and_a_year_and_is_read_as_it_is(name):
    found, method = said(name), get_method(name)
    assert len(found["reference"]) > 10
    assert 1950 < found["year"] < 2100
    found["takes"] = frozenset(found["takes"])
    assert found == {what: getattr(method, what) for what in SAID}, "write them as plain values in the method's class"


def test_what_was_never_run_has_no_record():
    assert recorded("apl-features") == {}
    assert recorded("apl")["cifar10"]["seeds"] >= 1
