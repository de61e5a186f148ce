"""The registry of methods. Lists, help texts, reports and the tests of all methods are generated from it."""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tpn.errors import TPNError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from tpn.methods._config import Config
    from tpn.methods._method import Dimensions, Method
else:  # listing names must not import torch, as loading a method does
    Config = Dimensions = Method = Any

ENTRY_POINTS = "tpn.methods"
AnyMethod = TypeVar("AnyMethod", bound=type[Method])
_METHODS: dict[str, type[Method]] = {}


def register_method(method: AnyMethod) -> AnyMethod:
    """Register a method under its name: a class decorator for subclasses of `tpn.Method`.

    Every command and call then accepts `method.info.name`. An installed package can provide methods by the entry point
    group `tpn.methods` instead.
    """
    name = method.info.name
    known = _METHODS.get(name)
    if name in _built_in() and method.__module__ != _module(name):
        known = find_method(name)
    if known is not None and (known.__module__, known.__qualname__) != (method.__module__, method.__qualname__):
        raise TPNError(f"There is already a method called {name!r}. Choose another name.")
    _METHODS[name] = method
    return method


def _from_packages() -> Iterable["EntryPoint"]:
    """Return the entry points of installed packages that provide methods."""
    from importlib.metadata import entry_points  # slow to load, and many commands name no method

    return entry_points(group=ENTRY_POINTS)


def list_methods() -> list[str]:
    """Return the names of all methods: built in, registered, or from installed packages."""
    return sorted({*_METHODS, *_built_in(), *(point.name for point in _from_packages())})


def all_methods() -> dict[str, type[Method]]:
    """Return every method by name."""
    return {name: find_method(name) for name in list_methods()}


def find_method(name: str) -> type[Method]:
    """Return the method of this name."""
    if name not in _METHODS:
        if name in _built_in():
            import_module(_module(name))
        for point in (one for one in _from_packages() if one.name == name):
            _METHODS.setdefault(name, _checked(_loaded(point), name))
    if name not in _METHODS:
        near = get_close_matches(name, list_methods(), n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise TPNError(f"Unknown method {name!r}: choose one of {', '.join(list_methods())}.{hint}")
    return _METHODS[name]


def build_method(name: str, config: Config, dimensions: Dimensions) -> Method:
    """Build a new, untrained method."""
    return find_method(name)(config, dimensions)


def is_built_in(name: str) -> bool:
    """Whether a method of this name comes with tpn."""
    return name in _built_in()


@cache
def _built_in() -> frozenset[str]:
    """Return the names of the methods in this folder: one per file without an underscore."""
    return frozenset(
        file.stem.replace("_", "-") for file in Path(__file__).parent.glob("*.py") if not file.stem.startswith("_")
    )


def _loaded(point: Any) -> Any:
    try:
        return point.load()
    except Exception as failure:  # another package's code, which can fail in any way
        raise TPNError(f"The method {point.name} of another package cannot be loaded: {failure}.") from failure


def _module(name: str) -> str:
    return f"tpn.methods.{name.replace('-', '_')}"


def _checked(method: Any, name: str) -> type[Method]:
    from tpn.methods._method import Method

    if not (isinstance(method, type) and issubclass(method, Method)):
        raise TPNError(f"The installed entry point {name} of {ENTRY_POINTS} is not a subclass of tpn.Method.")
    return method
