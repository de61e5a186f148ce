"""Training in several processes, started by torchrun: each learns from its share of the episodes of a step.

After every step all processes have the same weights, statistics and state, so that any number of processes can resume
from a checkpoint. Gradients are exchanged between devices, everything else between CPUs (gloo).
"""

import atexit
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from jaxtyping import Float64
from torch import Tensor

from tpn.errors import TPNError
from tpn.methods._config import Config
from tpn.training.stopping import Stopped

LONGEST_WAIT = timedelta(hours=2)
"""The longest wait for a busy process: the first process validates while the others wait."""
LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "NCCL", "gloo")
"""Words in PyTorch's error messages when another process has ended."""
CPU = torch.device("cpu")

Result = TypeVar("Result")


@dataclass(frozen=True)
class Processes:
    """The number of processes that train together, and the rank of this one. A single process exchanges nothing."""

    count: int = 1
    rank: int = 0

    @property
    def first(self) -> bool:
        """Whether this is the process that validates, writes files and prints for all."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        return self.count == 1

    def leave(self, code: int) -> int:
        """Exit with this code if this is one of several processes; otherwise return the code.

        Exit at once, without finalising Python: threads of gloo may still release a tensor of the last exchange, which
        would abort a process that is shutting down (pytorch/pytorch#179291).
        """
        if not self.alone:
            self.wait()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        return code

    def connect(self, device: torch.device) -> None:
        """Connect the processes, each with its device; disconnect when this one ends."""
        if self.alone or dist.is_initialized():
            return
        if device.type == "cuda":
            torch.cuda.set_device(device)
        try:
            dist.init_process_group("gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl", timeout=LONGEST_WAIT)
        except (RuntimeError, ValueError) as failure:
            reason = " ".join(str(failure).split())
            raise TPNError(f"The processes that torchrun started cannot connect: {reason}") from failure
        atexit.register(disconnect)

    def check(self, settings: Config, done: int = 0) -> None:
        """Refuse a training whose episodes, after the first `done`, cannot be divided evenly."""
        if self.alone:
            return
        at_once, left = settings.episodes_per_step, settings.episodes - done
        if at_once % self.count:
            raise TPNError(
                f"{self.count} processes share the episodes of each step: --episodes-per-step must be a multiple of "
                f"{self.count}, not {at_once}."
            )
        if left % at_once:
            left_over = f"the remaining {left} of {settings.episodes} episodes" if done else f"not {left}"
            raise TPNError(
                f"With {self.count} processes, all steps must have the same number of episodes: --episodes must be a "
                f"multiple of --episodes-per-step, which is {at_once}, {'as must ' if done else ''}{left_over}."
            )

    def share(self, drawn: list[Any]) -> list[Any]:
        """Return this process's share of the draws of a step."""
        return drawn[self.rank :: self.count]

    def seed(self, seed: int, episode: int) -> None:
        """Seed a step: its randomness depends on the run, the episode and the process only."""
        if not self.alone:
            mixed = np.random.SeedSequence((seed, episode, self.rank)).generate_state(1, np.uint64)
            torch.manual_seed(int(mixed[0]))

    def wait(self) -> None:
        """Wait until all processes reach this point."""
        if not self.alone:
            self.gather(0.0)

    def gather(self, *values: float) -> Float64[Tensor, "process value"]:
        """Return the values of all processes."""
        own = torch.tensor(values, dtype=torch.float64)
        gathered = [torch.empty_like(own) for _ in range(self.count)]
        with explaining_lost_process():
            dist.all_gather(gathered, own)
        return torch.stack(gathered)

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their means over the processes."""
        if tensors:
            flat = torch.cat([tensor.detach().flatten() for tensor in tensors])
            with explaining_lost_process():
                dist.all_reduce(flat)
            flat /= self.count
            means = torch.split(flat, [tensor.numel() for tensor in tensors])
            for tensor, mean in zip(tensors, means, strict=True):
                tensor.detach().copy_(mean.view(tensor.shape))

    def by_first(self, work: Callable[[], Result]) -> Result:
        """Do work in the first process, and return its result in all of them; if it fails, raise its error in all."""
        if self.alone:
            return work()
        outcome: list[Any] = [None, None]
        if self.first:
            try:
                outcome[0] = work()
            except Exception as failure:
                outcome[1] = failure if isinstance(failure, Stopped | TPNError) else TPNError(failure_text(failure))
                self._broadcast(outcome)
                raise
        self._broadcast(outcome)
        if outcome[1] is not None:
            raise outcome[1]
        result: Result = outcome[0]
        return result

    def _broadcast(self, objects: list[Any]) -> None:
        with explaining_lost_process():
            dist.broadcast_object_list(objects, src=0, device=CPU)


ALONE = Processes()


def find_processes() -> Processes:
    """Return the processes that torchrun started, or a single one without torchrun."""
    if not dist.is_available() or not dist.is_torchelastic_launched():
        return ALONE
    return Processes(int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))


def disconnect() -> None:
    """Leave the process group, even after a failure."""
    if dist.is_initialized():
        dist.destroy_process_group()


def failure_text(failure: Exception) -> str:
    return f"The first process failed: {' '.join(str(failure).split()) or type(failure).__name__}"


@contextmanager
def explaining_lost_process() -> Iterator[None]:
    """Turn PyTorch's connection errors inside this block into an error which says that another process has ended."""
    try:
        yield
    except RuntimeError as failure:
        if not any(words in str(failure) for words in LOST):
            raise
        reason = " ".join(str(failure).split())[:300]
        raise TPNError(
            "Another process of this training has ended, so this one cannot continue. See its error message; --resume "
            f"continues from the last checkpoint in the run folder. (torch: {reason})"
        ) from failure
