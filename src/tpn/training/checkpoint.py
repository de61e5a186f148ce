"""All that decides how a training goes on, in one file that is replaced as a whole."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from tpn.episodes.sampler import Draws
from tpn.errors import TPNError
from tpn.methods._method import Method
from tpn.runs.folder import load_weights
from tpn.runs.settings_json import from_json
from tpn.runs.tensors import read_tensors, write_tensors
from tpn.training.device import random_states, set_random_states
from tpn.training.optimiser import remembered


@dataclass
class State:
    """How far a training has come."""

    episode: int = 0
    validations: int = 0
    validated_at: int = -1
    best_accuracy: float = -1.0
    best_episode: int = -1
    validations_since_best: int = 0
    loss_sum: float = 0.0
    accuracy_sum: float = 0.0
    steps: int = 0
    """Steps since the last validation, over which the two sums run."""
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if min(self.episode, self.validations, self.validations_since_best, self.steps) < 0:
            raise TPNError("it counts less than nothing.")
        if not all(map(math.isfinite, (self.best_accuracy, self.loss_sum, self.accuracy_sum, self.seconds))):
            raise TPNError("it holds a figure that is not finite.")


def save_checkpoint(path: Path, run: str, state: State, method: Method, optimiser: Optimizer, sampler: Draws) -> None:
    """Write everything that the rest of the training depends on, and the digest of the run that it belongs to."""
    tensors = {f"model/{name}": tensor for name, tensor in method.state_dict().items()}
    for name, parameter in method.named_parameters():
        for key in remembered(method.config) & optimiser.state.get(parameter, {}).keys():
            tensors[f"optimiser/{name}/{key}"] = optimiser.state[parameter][key]
    tensors.update(random_states(method.device))
    optimised = [name for name, parameter in method.named_parameters() if parameter in optimiser.state]
    facts = {
        "run": run,
        "state": asdict(state),
        "sampler": sampler.state,
        "optimised": optimised,
        "scaler": method.scaler.state_dict(),
    }
    write_tensors(path, tensors, facts)


def restore_checkpoint(path: Path, run: str, method: Method, optimiser: Optimizer, sampler: Draws) -> State:
    """Put everything back as `save_checkpoint` found it."""
    tensors, facts = read_tensors(path)
    if facts.get("run") != run:
        raise TPNError(f"{path} belongs to another run than the config.json beside it.")
    load_weights(method, _below("model/", tensors), path)
    try:
        state = from_json(State, facts["state"])
        parameters = dict(method.named_parameters())
        for name in facts["optimised"]:  # a parameter that has never had a gradient is not among them
            parameter, saved = parameters[name], _below(f"optimiser/{name}/", tensors)
            if saved.keys() != remembered(method.config):
                raise ValueError(f"something of the optimiser's state of {name} is missing")
            optimiser.state[parameter] = {
                key: value if key == "step" else _laid_out_like(parameter, value) for key, value in saved.items()
            }
        set_random_states(tensors, method.device)
        sampler.state = facts["sampler"]
        if facts["scaler"] and method.scaler.is_enabled():
            method.scaler.load_state_dict(facts["scaler"])
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError, TPNError) as failure:
        raise TPNError(f"{path} is damaged: {failure}") from failure
    return state


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _laid_out_like(parameter: Tensor, saved: Tensor) -> Tensor:
    """In the parameter's own place and memory layout: another would be slower, and could round differently."""
    if saved.shape != parameter.shape:
        raise ValueError(f"the optimiser's state has the shape {tuple(saved.shape)}, not {tuple(parameter.shape)}")
    return torch.empty_like(parameter, dtype=saved.dtype).detach().copy_(saved)
