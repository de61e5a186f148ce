"""Starting from the weights of another run."""

import hashlib
from pathlib import Path

from tpn.backbones import Backbone
from tpn.errors import TPNError
from tpn.methods import Method
from tpn.training.run import Run, RunConfig, load


def weights_digest(folder: Path) -> str:
    """What tells the best weights of a run from others."""
    run = Run(folder)
    run.read_weights(run.read_config())  # refuses what is missing or damaged
    return hashlib.sha256(run.model_file.read_bytes()).hexdigest()[:16]


def check_initial(config: RunConfig) -> None:
    """Refuse to start from a run whose backbone does not fit."""
    if config.init is None:
        return
    source = Run(config.init).read_config()
    for name, mine, other in (
        ("backbone", config.settings.backbone, source.settings.backbone),
        ("channels", config.channels, source.channels),
    ):
        if mine != other:
            raise TPNError(f"--init {config.init} does not fit: its {name} is {other}, and {mine} is wanted here.")


def initialise(method: Method, config: RunConfig) -> bool:
    """Take over the backbone of the run that `config.init` names and, from a run of the same method, all that fits.

    Returns whether nothing is left that needs a start of its own.
    """
    assert config.init is not None
    if weights_digest(Path(config.init)) != config.init_weights:
        raise TPNError(f"{config.init} has other weights now than when the run was begun: choose another --out.")
    source = load(config.init)
    for mine, other in zip(method.backbones, source.backbones, strict=True):
        take_over(mine, other)
    if source.info.name != method.info.name:
        return False
    there, here = source.state_dict(), method.state_dict()
    fitting = {name: there[name] for name in here if name in there and there[name].shape == here[name].shape}
    method.load_state_dict(fitting, strict=False)
    return set(fitting) == set(here)


def take_over(mine: Backbone, other: Backbone) -> None:
    """Give a backbone the weights of another, and its statistics if both keep such."""
    there = other.state_dict()
    mine.load_state_dict({name: there[name] for name in mine.state_dict() if name in there}, strict=False)
