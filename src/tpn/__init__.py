"""Few-shot image classification by label propagation.

    import tpn

    run = tpn.train("tpn", "quickdraw", episodes=1000)
    print(tpn.evaluate(run, shot=1))

Every command of `tpn` is a call here, with the same options as keywords. Names are loaded when they are first used, so
that `import tpn` and `tpn --help` do not load torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tpn.errors import Interrupted, TPNError, TPNWarning

if TYPE_CHECKING:
    from tpn.backbones._registry import list_backbones, register_backbone
    from tpn.episodes.setting import Setting
    from tpn.episodes.task import Episode, Task, TrainingTask
    from tpn.images.images_from import images_from
    from tpn.images.opening import open_images
    from tpn.images.split import Images, Split
    from tpn.labelling.folder_labels import FolderLabels
    from tpn.methods._config import Config
    from tpn.methods._method import Dimensions, Info, Method
    from tpn.methods._registry import list_methods, register_method
    from tpn.runs.loading import load
    from tpn.semi_supervised.feature_scaling import FeatureScaler
    from tpn.semi_supervised.label_propagator import LabelPropagator
    from tpn.semi_supervised.labelled_split import LabelledSplit
    from tpn.workflows.backbones import BackboneList, describe_backbones, get_backbone
    from tpn.workflows.benchmark import benchmark
    from tpn.workflows.benchmark_result import BenchmarkResult
    from tpn.workflows.compare import Comparison, compare
    from tpn.workflows.data import DataInfo, data_info, prepare_data, show_data
    from tpn.workflows.embed import Embedded, embed_images, open_features
    from tpn.workflows.evaluate import EvaluationResult, evaluate
    from tpn.workflows.label import label_folder
    from tpn.workflows.methods import MethodList, describe_methods
    from tpn.workflows.paper import PaperResult, list_experiments, reproduce
    from tpn.workflows.plot import RunPlots, plot_run
    from tpn.workflows.predict import Predictions, predict
    from tpn.workflows.pretrain import pretrain
    from tpn.workflows.splits import SplitsResult, train_splits
    from tpn.workflows.studio import studio
    from tpn.workflows.train import TrainingRun, train

__version__ = "0.1.0"

_HOMES = {
    "backbones._registry": ("list_backbones", "register_backbone"),
    "episodes.setting": ("Setting",),
    "episodes.task": ("Episode", "Task", "TrainingTask"),
    "images.images_from": ("images_from",),
    "images.opening": ("open_images",),
    "images.split": ("Images", "Split"),
    "methods._config": ("Config",),
    "methods._method": ("Dimensions", "Info", "Method"),
    "methods._registry": ("list_methods", "register_method"),
    "runs.loading": ("load",),
    "semi_supervised.feature_scaling": ("FeatureScaler",),
    "semi_supervised.label_propagator": ("LabelPropagator",),
    "semi_supervised.labelled_split": ("LabelledSplit",),
    "workflows.backbones": ("BackboneList", "describe_backbones", "get_backbone"),
    "workflows.benchmark": ("benchmark",),
    "workflows.benchmark_result": ("BenchmarkResult",),
    "workflows.compare": ("Comparison", "compare"),
    "workflows.data": ("DataInfo", "data_info", "prepare_data", "show_data"),
    "workflows.embed": ("Embedded", "embed_images", "open_features"),
    "workflows.evaluate": ("EvaluationResult", "evaluate"),
    "labelling.folder_labels": ("FolderLabels",),
    "workflows.label": ("label_folder",),
    "workflows.methods": ("MethodList", "describe_methods"),
    "workflows.paper": ("PaperResult", "list_experiments", "reproduce"),
    "workflows.plot": ("RunPlots", "plot_run"),
    "workflows.predict": ("Predictions", "predict"),
    "workflows.pretrain": ("pretrain",),
    "workflows.splits": ("SplitsResult", "train_splits"),
    "workflows.studio": ("studio",),
    "workflows.train": ("TrainingRun", "train"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [  # noqa: RUF022 (loaded lazily, in the order of use)
    "open_images", "images_from", "data_info", "prepare_data", "show_data",
    "train", "pretrain", "train_splits", "evaluate", "compare", "benchmark", "predict", "plot_run", "load",
    "label_folder", "studio", "embed_images", "open_features", "LabelPropagator", "LabelledSplit", "FeatureScaler",
    "reproduce", "list_experiments",
    "list_methods", "describe_methods", "register_method", "list_backbones", "register_backbone",
    "describe_backbones", "get_backbone",
    "Images", "Split", "Setting", "Episode", "Task", "TrainingTask", "Method", "Info", "Config", "Dimensions",
    "TrainingRun", "EvaluationResult", "Comparison", "BenchmarkResult", "Predictions", "SplitsResult", "FolderLabels",
    "Embedded", "DataInfo", "RunPlots", "MethodList", "BackboneList", "PaperResult",
    "TPNError", "TPNWarning", "Interrupted", "__version__",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tpn' has no attribute {name!r}")
    value = getattr(import_module(f"tpn.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
