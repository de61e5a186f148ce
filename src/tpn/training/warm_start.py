"""Warm start: initial weights from another run."""

import warnings
from pathlib import Path

from tpn.errors import TPNError, TPNWarning
from tpn.files import resolved
from tpn.methods._cosine_classifier import CosineClassifier
from tpn.methods._method import Method
from tpn.runs.config import RunConfig
from tpn.runs.folder import Run, find_run
from tpn.runs.loading import load, weights_digest

SAME_WEIGHTS = {"conv4", "conv4-linear", "conv4-maps"}
"""Backbones whose weights have the same names and shapes: they differ in pooling, padding or their last ReLU only."""


def initial_weights(init: Path | str | None, before: RunConfig | None = None) -> dict[str, str | None]:
    """Return the settings that record a warm start: the folder of the other run, and a digest of its weights.

    A resumed run (`before`) keeps the digest of its initial weights, even if they have changed since.
    """
    if init is None:
        return {"init": None, "init_weights": ""}
    run = find_run(init)
    folder = str(resolved(run.folder))
    if before is not None and before.init is None:
        raise TPNError("The run was not begun with --init: resume it without --init.")
    if before is not None and before.init == folder:
        return {"init": folder, "init_weights": before.init_weights}
    load(init)  # refuses what is missing or damaged
    return {"init": folder, "init_weights": weights_digest(run)}


def check_initial(config: RunConfig) -> None:
    """Refuse a warm start from a run whose backbone does not fit; warn if it may have seen labels hidden here."""
    if config.init is None:
        return
    source = Run(config.init).read_config()
    mine_and_others = {config.settings.backbone, source.settings.backbone}
    for name, mine, other in (
        ("backbone", config.settings.backbone, source.settings.backbone),
        ("channels", config.channels, source.channels),
    ):
        if mine != other and not (name == "backbone" and mine_and_others <= SAME_WEIGHTS):
            raise TPNError(f"--init {config.init} does not fit: its {name} is {other}, but this run's is {mine}.")
    partitions = {
        (setting.labelled_share, setting.unlabelled > 0, setting.split_seed)
        for setting in (config.episode, source.episode)
    }
    if (config.episode.unlabelled or config.episode.labelled_share is not None) and len(partitions) > 1:
        warnings.warn(
            f"{config.init} may have seen labels of images that are unlabelled in this run: it was trained with "
            "another --labelled-share, --unlabelled or --split-seed.",
            TPNWarning,
            stacklevel=2,
        )


def warm_start_source(config: RunConfig) -> Method | None:
    """Load the trained method for a warm start, if there is one."""
    if config.init is None:
        return None
    method = load(config.init)
    if weights_digest(Run(config.init)) != config.init_weights:
        raise TPNError(f"The weights of {config.init} have changed since the run was begun: choose another --out.")
    return method


def copy_backbone(method: Method, source: Method) -> None:
    """Copy the backbone of another method, with its batch-norm statistics if both keep them."""
    for mine, other in zip(method.backbones, source.backbones, strict=True):
        weights = other.state_dict()
        mine.load_state_dict({name: weights[name] for name in mine.state_dict() if name in weights}, strict=False)


def copy_head(method: Method, source: Method) -> None:
    """Copy all other weights and statistics of the same shape, but no counters, if both are the same method.

    From a pre-trained backbone, copy its cosine classifier of the training classes, if the method has one as well.
    """
    classifiers = [[part for part in one.modules() if isinstance(part, CosineClassifier)] for one in (method, source)]
    for mine, other in zip(*classifiers, strict=False):
        if mine.weight.shape == other.weight.shape:
            mine.load_state_dict(other.state_dict())
    if source.info.name == method.info.name:
        here = method.state_dict()
        fitting = {
            name: tensor
            for name, tensor in source.state_dict().items()
            if name in here and here[name].shape == tensor.shape and tensor.is_floating_point()
        }
        method.load_state_dict(fitting, strict=False)
