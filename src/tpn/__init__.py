"""Few-shot image classification by label propagation.

The names below are loaded when they are first used, so that `import tpn` and `tpn --help` need no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tpn.errors import TPNError

if TYPE_CHECKING:
    from tpn.episodes.task import Episode
    from tpn.runs.folder import load
    from tpn.semi_supervised.label_propagator import LabelPropagator

__version__ = "0.1.0"
__all__ = ["Episode", "LabelPropagator", "TPNError", "__version__", "load"]

_HOMES = {
    "Episode": "tpn.episodes.task",
    "LabelPropagator": "tpn.semi_supervised.label_propagator",
    "load": "tpn.runs.folder",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tpn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
