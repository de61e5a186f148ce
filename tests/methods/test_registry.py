import pytest

from tpn.errors import TPNError
from tpn.methods._registry import all_methods, find_method


def test_methods_are_found_by_name():
    assert find_method("tpn") is all_methods()["tpn"]


def test_an_unknown_name_is_met_with_the_known_ones():
    with pytest.raises(TPNError, match=r"Unknown method 'tpnn': choose one of .*tpn.* Did you mean tpn\?"):
        find_method("tpnn")
    with pytest.raises(TPNError, match="Unknown method 'zzz'"):
        find_method("zzz")
