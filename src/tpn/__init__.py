"""Few-shot image classification by label propagation.

The names below are loaded when they are first used, so that `import tpn` and `tpn --help` need no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tpn.errors import TPNError

if TYPE_CHECKING:
    from tpn.episodes.task import Episode
    from tpn.labelling.folder_labels import FolderLabels
    from tpn.runs.folder import load
    from tpn.semi_supervised.label_propagator import LabelPropagator
    from tpn.workflows.label import label_folder

__version__ = "0.1.0"
__all__ = ["Episode", "FolderLabels", "LabelPropagator", "TPNError", "__version__", "label_folder", "load"]

_HOMES = {
    "Episode": "tpn.episodes.task",
    "FolderLabels": "tpn.labelling.folder_labels",
    "LabelPropagator": "tpn.semi_supervised.label_propagator",
    "label_folder": "tpn.workflows.label",
    "load": "tpn.runs.folder",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tpn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
