"""All that decides how a training goes on, in one file that is replaced as a whole."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from tpn.episodes import Sampler
from tpn.errors import TPNError
from tpn.methods import Method
from tpn.training.run import load_weights
from tpn.training.tensors import read_tensors, write_tensors


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


def save_checkpoint(path: Path, state: State, method: Method, optimiser: Optimizer, sampler: Sampler) -> None:
    """Write everything that the rest of the training depends on."""
    tensors = {f"model/{name}": tensor for name, tensor in method.state_dict().items()}
    for name, parameter in method.named_parameters():
        for key, value in optimiser.state[parameter].items():
            tensors[f"optimiser/{name}/{key}"] = value
    tensors["random/torch"] = torch.get_rng_state()
    write_tensors(path, tensors, {"state": asdict(state), "sampler": sampler.state})


def restore_checkpoint(path: Path, method: Method, optimiser: Optimizer, sampler: Sampler) -> State:
    """Put everything back as `save_checkpoint` found it."""
    tensors, facts = read_tensors(path)
    load_weights(method, _below("model/", tensors), path)
    for name, parameter in method.named_parameters():
        saved = _below(f"optimiser/{name}/", tensors)
        optimiser.state[parameter] = {key: _laid_out_like(parameter, value) for key, value in saved.items()}
    try:
        torch.set_rng_state(tensors["random/torch"])
        sampler.state = facts["sampler"]
        return State(**facts["state"])
    except (KeyError, TypeError, ValueError, RuntimeError) as failure:
        raise TPNError(f"{path} is damaged: {failure!r}.") from failure


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _laid_out_like(parameter: Tensor, saved: Tensor) -> Tensor:
    """In the parameter's own memory layout: another one would be slower, and could round differently."""
    if saved.shape != parameter.shape:
        return saved
    return torch.empty_like(parameter, dtype=saved.dtype).detach().copy_(saved)
