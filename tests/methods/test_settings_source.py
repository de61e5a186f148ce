"""The command line knows the settings of every built-in method without loading torch."""

from dataclasses import asdict, fields

import pytest

from tpn.errors import TPNError
from tpn.methods._registry import find_method, list_methods
from tpn.methods._settings_source import settings_class
from tpn.workflows.keywords import field_docs


@pytest.mark.parametrize("name", list_methods())
def test_settings_read_from_the_source_are_those_of_the_method(name):
    read, real = settings_class(name), find_method(name).Config
    assert (read.__name__, read.__doc__) == (real.__name__, real.__doc__)
    described = [[(one.name, one.type, one.default) for one in fields(kind)] for kind in (read, real)]
    assert described[0] == described[1]
    assert field_docs(read) == field_docs(real)


@pytest.mark.parametrize("name", list_methods())
def test_settings_read_from_the_source_check_their_values_too(name):
    assert asdict(settings_class(name)()) == asdict(find_method(name).Config())
    with pytest.raises(TPNError, match="lr must be"):
        settings_class(name)(lr=-1.0)
