"""All methods by name. Lists, help texts, tests over all methods and reports are made from here."""

from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

from tpn.errors import TPNError
from tpn.methods._method import Config, Dimensions, Method

AnyMethod = TypeVar("AnyMethod", bound=type[Method])
_METHODS: dict[str, type[Method]] = {}


def register(method: AnyMethod) -> AnyMethod:
    """Class decorator: make a method known by its name."""
    name = method.info.name
    if name in _METHODS:
        raise ValueError(f"two methods are called {name}: {_METHODS[name]} and {method}")
    _METHODS[name] = method
    return method


def all_methods() -> dict[str, type[Method]]:
    """Every method that has a file in this folder, and every other that was registered, by name, in its order."""
    for module in _modules():
        import_module(f"tpn.methods.{module}")
    return dict(sorted(_METHODS.items()))


def find_method(name: str) -> type[Method]:
    """The method of this name."""
    methods = all_methods()
    if name not in methods:
        near = get_close_matches(name, methods, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise TPNError(f"Unknown method {name!r}: choose one of {', '.join(methods)}.{hint}")
    return methods[name]


def build_method(name: str, config: Config, dimensions: Dimensions) -> Method:
    """A new, untrained method."""
    return find_method(name)(config, dimensions)


def _modules() -> Iterator[str]:
    from tpn import methods

    return (module.name for module in iter_modules(methods.__path__) if module.name not in ("method", "registry"))
