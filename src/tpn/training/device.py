"""On what a training runs: the device, the number format, whether the network is compiled, and in which processes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from tpn.errors import TPNError
from tpn.methods._method import Method
from tpn.training.distributed import ALONE, CPU, Processes

__all__ = [
    "CPU", "ON_CPU", "Machine", "Precision", "computing", "find_device", "own_device", "random_states",
    "set_random_states",
]  # fmt: skip

Precision: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class Machine:
    """The device, the number format of the backbone in training, whether it is compiled, and who trains with us."""

    device: torch.device = CPU
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    compile: bool = False
    processes: Processes = ALONE

    def computing(self, precision: Precision, compile: bool) -> "Machine":
        """The same device, computing so; `auto` is bfloat16 on a GPU that has it, otherwise float32."""
        if precision == "auto":
            precision = "bfloat16" if self.device.type == "cuda" and has_bfloat16(self.device) else "float32"
        return replace(self, precision=precision, compile=compile)

    @property
    def facts(self) -> dict[str, str | bool | int]:
        """What a run writes down."""
        return {
            "device": self.device.type,
            "precision": self.precision,
            "compile": self.compile,
            "processes": self.processes.count,
        }

    def check_alone(self, command: str) -> None:
        """Refuse to be one of several processes of torchrun."""
        if not self.processes.alone:
            raise TPNError(f"{command} does not run under torchrun: start it by itself, once.")

    def prepare(self, method: Method) -> None:
        """Bring a new method here, and let it compute as it should."""
        method.to(self.device)
        if self.precision != "float32":
            method.lower_precision(getattr(torch, self.precision))
        method.scaler = torch.amp.GradScaler(self.device.type, enabled=self.precision == "float16")
        if self.compile:
            method.compile_backbone()


ON_CPU = Machine()


def has_bfloat16(device: torch.device) -> bool:
    """Does this GPU compute in bfloat16 itself? Older ones only pretend to, slowly."""
    return torch.version.hip is not None or torch.cuda.get_device_capability(device) >= (8, 0)


def find_device(name: str) -> torch.device:
    """The device of this name: auto, cpu, cuda, cuda:1, mps."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, number = name.partition(":")
    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (number.isdecimal() or name == kind) and int(number or 0) < there.get(kind, 0):
        return torch.device(name)
    raise TPNError(f"--device {name!r} is not there. Try auto, cpu or cuda.")


MOST_THREADS = 1024


@contextmanager
def computing(threads: int | None, device: str) -> Iterator[torch.device]:
    """Find the device, and let PyTorch use this many CPU threads (None: all cores) until the block ends."""
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise TPNError(f"--threads must be at least 1 and at most {MOST_THREADS}, not {threads}.")
    found, before = find_device(device), torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield found
    finally:
        torch.set_num_threads(before)


def own_device(device: torch.device, processes: Processes) -> torch.device:
    """That of this process, if several train: of the GPUs of a computer, each of its processes has one."""
    if processes.alone or device.type == "cpu":
        return device
    if device != torch.device("cuda"):
        raise TPNError(f"{processes.count} processes cannot share --device {device}: try auto, cpu or cuda.")
    number, there = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if number >= there:
        raise TPNError(f"There are {there} GPUs, and each process needs one: --nproc-per-node can be {there} at most.")
    return torch.device("cuda", number)


def random_states(device: torch.device) -> dict[str, Tensor]:
    """Where torch's generators stand: that of the processor, and that of the device if it is another."""
    states = {"random/torch": torch.get_rng_state()}
    if device.type == "cuda":
        states["random/device"] = torch.cuda.get_rng_state(device)
    if device.type == "mps":
        states["random/device"] = torch.mps.get_rng_state()
    return states


def set_random_states(states: dict[str, Tensor], device: torch.device) -> None:
    """Put torch's generators where they stood; what was on another device then begins anew."""
    torch.set_rng_state(states["random/torch"])
    if device.type == "cuda" and "random/device" in states:
        torch.cuda.set_rng_state(states["random/device"], device)
    if device.type == "mps" and "random/device" in states:
        torch.mps.set_rng_state(states["random/device"])
