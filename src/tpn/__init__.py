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
    from tpn.workflows.paper import list_experiments, reproduce

__version__ = "0.1.0"
__all__ = ["Episode", "LabelPropagator", "TPNError", "__version__", "list_experiments", "load", "reproduce"]

_HOMES = {
    "Episode": "tpn.episodes.task",
    "LabelPropagator": "tpn.semi_supervised.label_propagator",
    "list_experiments": "tpn.workflows.paper",
    "load": "tpn.runs.folder",
    "reproduce": "tpn.workflows.paper",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tpn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
