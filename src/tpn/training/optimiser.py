"""What turns gradients into steps, and how large the steps are."""

from torch.optim import SGD, Adam, Optimizer

from tpn.methods import Config, Method

STATE = {"adam": {"step", "exp_avg", "exp_avg_sq"}, "sgd": set()}
"""What each optimiser remembers of a parameter after its first step."""


def build_optimiser(method: Method) -> Optimizer:
    """A new optimiser for all parameters of a method that are not frozen."""
    parameters = [parameter for parameter in method.parameters() if parameter.requires_grad]
    kinds = {"adam": Adam, "sgd": SGD}
    return kinds[method.config.optimiser](parameters, lr=method.config.lr)  # type: ignore[no-any-return]


def learning_rate(config: Config, episode: int) -> float:
    """The learning rate at an episode: halved every so many, or falling evenly to zero at the last one."""
    if config.schedule == "linear":
        return config.lr * max(0.0, 1 - episode / config.episodes)
    return float(config.lr * 0.5 ** (episode // config.halve_every))
