"""Starting from the weights of another run."""

import hashlib
import warnings
from pathlib import Path

from tpn.errors import TPNError, TPNWarning
from tpn.methods._method import Method
from tpn.runs.folder import Run, RunConfig, find_run, load


def weights_digest(folder: Path) -> str:
    """What tells the best weights of a run, which must be whole, from others."""
    load(folder)  # refuses what is missing or damaged
    return _digest(find_run(folder))


def _digest(run: Run) -> str:
    return hashlib.sha256(run.model_file.read_bytes()).hexdigest()[:16]


def check_initial(config: RunConfig) -> None:
    """Refuse to start from a run whose backbone does not fit, and tell of labels that it may have seen."""
    if config.init is None:
        return
    source = Run(config.init).read_config()
    for name, mine, other in (
        ("backbone", config.settings.backbone, source.settings.backbone),
        ("channels", config.channels, source.channels),
    ):
        if mine != other:
            raise TPNError(f"--init {config.init} does not fit: its {name} is {other}, and {mine} is wanted here.")
    divisions = {
        (setting.labelled_share, setting.unlabelled > 0, setting.split_seed)
        for setting in (config.episode, source.episode)
    }
    if (config.episode.unlabelled or config.episode.labelled_share is not None) and len(divisions) > 1:
        warnings.warn(
            f"{config.init} may have seen labels of images that are to be unlabelled here: it was trained with "
            "another --labelled-share, --unlabelled or --split-seed.",
            TPNWarning,
            stacklevel=2,
        )


def starting_point(config: RunConfig) -> Method | None:
    """The trained method that a run is to start from, if any."""
    if config.init is None:
        return None
    method = load(config.init)
    if _digest(Run(config.init)) != config.init_weights:
        raise TPNError(f"{config.init} has other weights now than when the run was begun: choose another --out.")
    return method


def take_over_backbone(method: Method, source: Method) -> None:
    """Give a method the backbone of another, with its statistics if both keep such."""
    for mine, other in zip(method.backbones, source.backbones, strict=True):
        there = other.state_dict()
        mine.load_state_dict({name: there[name] for name in mine.state_dict() if name in there}, strict=False)


def take_over_rest(method: Method, source: Method) -> None:
    """Give a method all that fits of another of its kind: weights and statistics, but not what is counted."""
    if source.info.name == method.info.name:
        here = method.state_dict()
        fitting = {
            name: tensor
            for name, tensor in source.state_dict().items()
            if name in here and here[name].shape == tensor.shape and tensor.is_floating_point()
        }
        method.load_state_dict(fitting, strict=False)
