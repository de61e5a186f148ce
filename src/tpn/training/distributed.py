"""Training in several processes at once, as torchrun starts them: each learns from its share of a step's episodes.

All of them hold the same weights, statistics and state after every step, so that any number of them can go on from a
checkpoint. Small things go from process to process by the processor (gloo), gradients from device to device.
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
"""For another process that is there, but busy: the first validates while the others wait."""
LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "NCCL", "gloo")
"""Words of torch when another process is no longer there."""
CPU = torch.device("cpu")

Result = TypeVar("Result")


@dataclass(frozen=True)
class Processes:
    """How many processes train together, and which of them this is. If it is alone, there is nothing to exchange."""

    count: int = 1
    rank: int = 0

    @property
    def first(self) -> bool:
        """Is this the one that validates, writes and speaks for all?"""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        return self.count == 1

    def leave(self, code: int) -> int:
        """End this process with a code, if it is one of several that have nothing more to exchange.

        At once: threads of gloo may still let go of a tensor of the last exchange. They need Python for that, and would
        abort the process (pytorch/pytorch#179291) if it was closing down.
        """
        if not self.alone:
            self.wait()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        return code

    def connect(self, device: torch.device) -> None:
        """Let the processes find each other, each with its device; they part when this one ends, however it does."""
        if self.alone or dist.is_initialized():
            return
        if device.type == "cuda":
            torch.cuda.set_device(device)
        try:
            dist.init_process_group("gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl", timeout=LONGEST_WAIT)
        except (RuntimeError, ValueError) as failure:
            reason = " ".join(str(failure).split())
            raise TPNError(f"The processes that torchrun started do not find each other: {reason}") from failure
        atexit.register(part)

    def check(self, settings: Config, done: int = 0) -> None:
        """Refuse a training after so many episodes that cannot be divided evenly."""
        if self.alone:
            return
        at_once, left = settings.episodes_per_step, settings.episodes - done
        if at_once % self.count:
            raise TPNError(
                f"{self.count} processes share the episodes of each step: --episodes-per-step must be a multiple of "
                f"{self.count}, not {at_once}."
            )
        if left % at_once:
            left_over = f"the {left} episodes that are left of {settings.episodes}" if done else f"not {left}"
            raise TPNError(
                f"With {self.count} processes all steps have the same number of episodes: --episodes must be a "
                f"multiple of --episodes-per-step, which is {at_once}, {'as must ' if done else ''}{left_over}."
            )

    def share(self, drawn: list[Any]) -> list[Any]:
        """Return the draws of a step that this process learns from."""
        return drawn[self.rank :: self.count]

    def seed(self, seed: int, episode: int) -> None:
        """Let chance, in the step from this episode on, depend on nothing but the run, the episode and the process."""
        if not self.alone:
            mixed = np.random.SeedSequence((seed, episode, self.rank)).generate_state(1, np.uint64)
            torch.manual_seed(int(mixed[0]))

    def wait(self) -> None:
        """Go on when all have come so far."""
        if not self.alone:
            self.gather(0.0)

    def gather(self, *figures: float) -> Float64[Tensor, "process figure"]:
        """The figures of all processes."""
        own = torch.tensor(figures, dtype=torch.float64)
        all_of_them = [torch.empty_like(own) for _ in range(self.count)]
        with noticing_loss():
            dist.all_gather(all_of_them, own)
        return torch.stack(all_of_them)

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their mean over the processes."""
        if tensors:
            flat = torch.cat([tensor.detach().flatten() for tensor in tensors])
            with noticing_loss():
                dist.all_reduce(flat)
            flat /= self.count
            means = torch.split(flat, [tensor.numel() for tensor in tensors])
            for tensor, mean in zip(tensors, means, strict=True):
                tensor.detach().copy_(mean.view(tensor.shape))

    def by_first(self, work: Callable[[], Result]) -> Result:
        """What the first process makes of some work. The others wait for it; if it fails, it does for all."""
        if self.alone:
            return work()
        told: list[Any] = [None, None]
        if self.first:
            try:
                told[0] = work()
            except Exception as failure:
                told[1] = failure if isinstance(failure, Stopped | TPNError) else TPNError(in_words(failure))
                self._tell(told)
                raise
        self._tell(told)
        if told[1] is not None:
            raise told[1]
        result: Result = told[0]
        return result

    def _tell(self, objects: list[Any]) -> None:
        with noticing_loss():
            dist.broadcast_object_list(objects, src=0, device=CPU)


ALONE = Processes()


def find_processes() -> Processes:
    """Those that torchrun has started, if it has started this one."""
    if not dist.is_available() or not dist.is_torchelastic_launched():
        return ALONE
    return Processes(int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))


def part() -> None:
    """Leave the other processes, after a failure."""
    if dist.is_initialized():
        dist.destroy_process_group()


def in_words(failure: Exception) -> str:
    return f"The first process failed: {' '.join(str(failure).split()) or type(failure).__name__}"


@contextmanager
def noticing_loss() -> Iterator[None]:
    """Say in plain words that another process has ended, where torch speaks of its connection."""
    try:
        yield
    except RuntimeError as failure:
        if not any(words in str(failure) for words in LOST):
            raise
        reason = " ".join(str(failure).split())[:300]
        raise TPNError(
            "Another process of this training has ended, so this one cannot go on. It has said why; what was saved "
            f"last is in the run folder, and --resume goes on from there. (torch: {reason})"
        ) from failure
