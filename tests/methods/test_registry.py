import pytest

from tpn.errors import TPNError
from tpn.methods import _registry as registry
from tpn.methods._registry import find_method, list_methods, register_method
from tpn.methods.protonet import ProtoNet


@pytest.fixture
def own_registry(monkeypatch):
    """Registered methods are forgotten when the test ends."""
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))


def named(name, module=__name__):
    return type("Own", (ProtoNet,), {"info": type(ProtoNet.info)(name, "none", "no"), "__module__": module})


def test_every_built_in_method_is_found_by_its_name():
    assert "tpn" in list_methods()
    assert all(find_method(name).info.name == name for name in list_methods())


def test_an_unknown_name_is_met_with_the_known_ones():
    with pytest.raises(TPNError, match=r"'tpnn'.*one of .*protonet.*Did you mean tpn\?"):
        find_method("tpnn")
    with pytest.raises(TPNError, match="'zzz'") as far_off:
        find_method("zzz")
    assert "Did you mean" not in str(far_off.value)


def test_a_method_is_known_once_it_is_registered(own_registry):
    own = register_method(named("own"))
    assert find_method("own") is own
    assert "own" in list_methods()


def test_a_cell_that_is_run_again_registers_its_method_again_but_another_method_cannot_take_the_name(own_registry):
    register_method(named("own"))
    changed = register_method(named("own"))
    assert find_method("own") is changed
    with pytest.raises(TPNError, match="already a method called 'own'"):
        register_method(named("own", module="elsewhere"))
    find_method("tpn")
    with pytest.raises(TPNError, match="already a method called 'tpn'"):
        register_method(named("tpn"))


def test_installed_packages_offer_methods_by_entry_points(own_registry, monkeypatch):
    class Point:
        name = "offered"

        def load(self):
            return offered

    def entry_points(group, name="offered"):
        return [Point()] if (group, name) == ("tpn.methods", "offered") else []

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    offered = named("offered")
    assert "offered" in list_methods()
    assert find_method("offered") is offered
    monkeypatch.setattr(registry, "_METHODS", {})
    offered = object()
    with pytest.raises(TPNError, match=r"not a subclass of tpn\.Method"):
        find_method("offered")
