"""The optimiser, and the learning rate schedule."""

import math

from torch.optim import SGD, AdamW, Optimizer

from tpn.errors import TPNError
from tpn.methods._config import Config
from tpn.methods._method import Method


def state_names(config: Config) -> set[str]:
    """Return the names of the optimiser's state for a parameter, after its first step."""
    if config.optimiser == "adam":
        return {"step", "exp_avg", "exp_avg_sq"}
    return {"momentum_buffer"} if config.momentum else set()


def build_optimiser(method: Method) -> Optimizer:
    """Build an optimiser for all parameters of a method that are not frozen.

    Weight decay applies to parameters of more than one dimension, not to biases and normalisation.
    """
    config, learning = method.config, [parameter for parameter in method.parameters() if parameter.requires_grad]
    if not learning:
        raise TPNError(
            f"{method.info.name} has nothing to train with the backbone {config.backbone}: use `tpn evaluate`."
        )
    groups = [
        {"params": [parameter for parameter in learning if parameter.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [parameter for parameter in learning if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if config.optimiser == "adam":
        return AdamW(groups, lr=config.lr)
    return SGD(groups, lr=config.lr, momentum=config.momentum, nesterov=config.momentum > 0)


def learning_rate(config: Config, episode: int) -> float:
    """Return the learning rate at an episode, according to schedule and warm-up."""
    warm = min(1.0, (episode + 1) / (config.warm_up + 1))
    done = min(1.0, episode / config.episodes)
    match config.schedule:
        case "halve":
            factor = 0.5 ** (episode // config.halve_every)
        case "linear":
            factor = 1 - done
        case "cosine":
            factor = (1 + math.cos(math.pi * done)) / 2
        case "step":
            factor = config.drop_by ** sum(done >= point for point in config.drop_at)
    return float(config.lr * warm * factor)
