"""Loading scikit-learn without what it loads and a command does not use: an eighth or more of a second `tpn label`.

It imports pandas, if that is installed, for data frames that are passed to it; and scipy.stats, whose functions it
calls in a few places only. For a command, not for `import tpn`: a library must leave other packages as they are.
"""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

STATISTICS, FRAMES = "scipy.stats", "pandas"


def load_scikit_learn() -> None:
    """Load scikit-learn without pandas, and with scipy.stats to be loaded when something of it is first used."""
    if "sklearn" in sys.modules:
        return
    if STATISTICS not in sys.modules:
        scipy: Any = import_module("scipy")
        late = _LateModule(STATISTICS)
        late.__path__ = [str(Path(folder, "stats")) for folder in scipy.__path__]  # where its own modules are
        scipy.stats = sys.modules[STATISTICS] = late
    without: Any = sys.modules.get(FRAMES)
    sys.modules[FRAMES] = without  # importing it now fails, and scikit-learn does without
    try:
        import_module("sklearn.utils.fixes")
    finally:
        if without is None:
            del sys.modules[FRAMES]


class _LateModule(ModuleType):
    """A module whose names are looked up when they are used."""

    __path__: list[str]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _LateName(self.__name__, name)


class _LateName:
    """A function or object of a module that is loaded when it is first used."""

    def __init__(self, module: str, name: str) -> None:
        self.__dict__ |= {"_module": module, "_name": name}

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return getattr(_loaded(self._module), self._name)(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(_loaded(self.__dict__["_module"]), self.__dict__["_name"]), name)


def _loaded(module: str) -> ModuleType:
    if isinstance(sys.modules.get(module), _LateModule):
        del sys.modules[module]
    return import_module(module)
