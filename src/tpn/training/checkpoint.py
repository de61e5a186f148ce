"""Checkpoints: everything that the rest of a training depends on, in one file that is replaced atomically."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from tpn.episodes.sampler import Sampler
from tpn.errors import TPNError
from tpn.methods._method import Method
from tpn.runs.formats import current_name, current_names
from tpn.runs.loading import load_weights
from tpn.runs.settings_json import from_json
from tpn.runs.tensors import read_tensors, write_tensors
from tpn.training.averaging import AveragedWeights
from tpn.training.device import random_states, set_random_states
from tpn.training.optimiser import state_names


@dataclass
class State:
    """The progress of a training."""

    episode: int = 0
    validations: int = 0
    validated_at: int = -1
    best_accuracy: float = -1.0
    best_episode: int = -1
    validations_since_best: int = 0
    loss_sum: float = 0.0
    accuracy_sum: float = 0.0
    steps: int = 0
    """Steps since the last validation, which the two sums cover."""
    seconds: float = 0.0

    @property
    def means(self) -> dict[str, float]:
        """Mean training loss and accuracy since the last validation."""
        return {"loss": self.loss_sum / self.steps, "accuracy": self.accuracy_sum / self.steps}

    def __post_init__(self) -> None:
        if min(self.episode, self.validations, self.validations_since_best, self.steps) < 0:
            raise TPNError("it has a negative count.")
        if not all(map(math.isfinite, (self.best_accuracy, self.loss_sum, self.accuracy_sum, self.seconds))):
            raise TPNError("it has a number that is not finite.")


def save_checkpoint(
    path: Path,
    run: str,
    state: State,
    method: Method,
    optimiser: Optimizer,
    scaler: GradScaler,
    sampler: Sampler,
    averaged: AveragedWeights | None = None,
) -> None:
    """Write everything that the rest of the training depends on, and the digest of the run.

    The optimiser's state is written by parameter name. PyTorch's `get_optimizer_state_dict` does so too, but makes a
    step if the optimiser has not made one yet, and resuming would no longer be exact.
    """
    tensors = {f"model/{name}": tensor for name, tensor in method.state_dict().items()}
    for name, parameter in method.named_parameters():
        for key in state_names(method.config) & optimiser.state.get(parameter, {}).keys():
            tensors[f"optimiser/{name}/{key}"] = optimiser.state[parameter][key]
    tensors.update(random_states(method.device))
    if averaged is not None:
        tensors |= {f"averaged/{name}": tensor for name, tensor in averaged.tensors.items()}
    optimised = [name for name, parameter in method.named_parameters() if parameter in optimiser.state]
    facts = {
        "run": run,
        "state": asdict(state),
        "sampler": sampler.state,
        "optimised": optimised,
        "scaler": scaler.state_dict(),
    }
    write_tensors(path, tensors, facts)


def restore_checkpoint(
    path: Path,
    run: str,
    method: Method,
    optimiser: Optimizer,
    scaler: GradScaler,
    sampler: Sampler,
    averaged: AveragedWeights | None = None,
) -> State:
    """Restore everything that `save_checkpoint` wrote."""
    tensors, facts = read_tensors(path)
    if facts.get("run") != run:
        raise TPNError(f"{path} belongs to another run than the config.json beside it.")
    tensors = current_names(method.info.name, tensors)
    load_weights(method, _below("model/", tensors), path)
    try:
        state = from_json(State, facts["state"])
        parameters = dict(method.named_parameters())
        for old_name in facts["optimised"]:  # without parameters that have never had a gradient
            name = current_name(method.info.name, old_name)
            parameter, saved = parameters[name], _below(f"optimiser/{name}/", tensors)
            if saved.keys() != state_names(method.config):
                raise ValueError(f"the optimiser's state of {name} is incomplete")
            optimiser.state[parameter] = {
                key: value if key == "step" else _laid_out_like(parameter, value) for key, value in saved.items()
            }
        if averaged is not None:
            saved = _below("averaged/", tensors)
            averaged.tensors = {name: _laid_out_like(now, saved[name]) for name, now in averaged.tensors.items()}
        set_random_states(tensors, method.device)
        sampler.state = facts["sampler"]
        if facts["scaler"] and scaler.is_enabled():
            scaler.load_state_dict(facts["scaler"])
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError, TPNError) as failure:
        raise TPNError(f"{path} is damaged: {failure}") from failure
    return state


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _laid_out_like(parameter: Tensor, saved: Tensor) -> Tensor:
    """Copy to the parameter's device and memory format: another format would be slower, and could round differently."""
    if saved.shape != parameter.shape:
        raise ValueError(f"the optimiser's state has the shape {tuple(saved.shape)}, not {tuple(parameter.shape)}")
    return torch.empty_like(parameter, dtype=saved.dtype).detach().copy_(saved)
