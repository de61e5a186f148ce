"""The optimiser, and the learning rate schedule."""

import math

from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from tpn.errors import TPNError
from tpn.methods._config import RISE, Config
from tpn.methods._method import Method


def state_names(config: Config) -> set[str]:
    """Return the names of the optimiser's state for a parameter, after its first step."""
    if config.optimiser == "adam":
        return {"step", "exp_avg", "exp_avg_sq"}
    return {"momentum_buffer"} if config.momentum else set()


def build_optimiser(method: Method) -> Optimizer:
    """Build an optimiser for all parameters of a method that are not frozen.

    Weight decay applies to parameters of more than one dimension, not to biases and normalisation. The learning rate of
    a group is a multiple (`factor`) of that of the schedule.
    """
    config, learning = method.config, [parameter for parameter in method.parameters() if parameter.requires_grad]
    if not learning:
        raise TPNError(
            f"{method.info.name} has nothing to train with the backbone {config.backbone}: use `tpn evaluate`."
        )
    in_backbone = {parameter for backbone in method.backbones for parameter in backbone.parameters()}
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameter in learning:
        decay = config.weight_decay if parameter.ndim > 1 else 0.0
        groups.setdefault((decay, config.backbone_lr if parameter in in_backbone else 1.0), []).append(parameter)
    ordered = [
        {"params": parameters, "weight_decay": decay, "factor": factor}
        for (decay, factor), parameters in sorted(groups.items(), key=lambda group: -group[0][0])
    ]
    if config.optimiser == "adam":
        return AdamW(ordered, lr=config.lr)
    return SGD(ordered, lr=config.lr, momentum=config.momentum, nesterov=config.momentum > 0)


def set_learning_rate(optimiser: Optimizer, config: Config, episode: int) -> None:
    """Set the learning rate of each group of parameters for the step that begins at this episode."""
    for group in optimiser.param_groups:
        group["lr"] = group["factor"] * learning_rate(config, episode)


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
        case "one-cycle":
            falling = max(0.0, (done - RISE) / (1 - RISE))
            factor = min(1.0, 0.04 + 0.96 * done / RISE) * (1 + math.cos(math.pi * falling)) / 2
        case "step":
            factor = config.drop_by ** sum(done >= point for point in config.drop_at)
    return float(config.lr * warm * factor)
