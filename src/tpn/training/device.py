"""Device, precision, compilation and processes of a training."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from tpn.errors import TPNError
from tpn.methods._adaptation import Adapting
from tpn.methods._config import ClassifierConfig
from tpn.methods._method import Method
from tpn.methods.maml import MAMLConfig
from tpn.methods.reptile import ReptileConfig
from tpn.runs.config import RunConfig
from tpn.thread_count import check_threads
from tpn.training.distributed import ALONE, CPU, Processes

Precision: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
WORTH_COMPILING = 1e8
"""Training pixels from which on compiling pays: some 140 episodes of 100 images of 84x84 pixels. On one core it saves
12 ms per image of that size, and takes half a minute the first time, a few seconds from then on."""
CONV_BLOCK_NETWORKS = ("conv4", "conv4-linear", "conv4-32")
"""Backbones that are known to train faster on a CPU if they are compiled."""


@dataclass(frozen=True)
class Execution:
    """The device, the precision of the backbone, whether it is compiled, and the processes that share the training."""

    device: torch.device = CPU
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    compile: bool = False
    processes: Processes = ALONE

    def with_precision(self, precision: Precision, compile: bool) -> "Execution":
        """Return a copy with this precision; `auto` is bfloat16 where the GPU supports it, otherwise float32."""
        if precision == "auto":
            precision = "bfloat16" if self.device.type == "cuda" and has_bfloat16(self.device) else "float32"
        return replace(self, precision=precision, compile=compile)

    @property
    def facts(self) -> dict[str, Any]:
        """The values that a run records."""
        return {
            "device": self.device.type,
            "precision": self.precision,
            "compile": self.compile,
            "processes": self.processes.count,
        }

    def check_alone(self, what: str) -> None:
        """Refuse to run as one of several processes of torchrun."""
        if not self.processes.alone:
            raise TPNError(f"{what} does not run under torchrun: start it as a single process.")

    def prepare(self, method: Method) -> None:
        """Move a new method to the device, and set its precision and compilation."""
        method.to(self.device)
        if self.precision != "float32":
            method.lower_precision(getattr(torch, self.precision))
        if self.compile:
            method.compile_backbone()

    def prepare_test(self, method: Method) -> None:
        """Move a trained method to the device. One that adapts to each task learns there as it did in training."""
        if isinstance(method, Adapting):
            self.prepare(method)
        method.to(self.device)

    def precision_of_test(self, method: Method) -> str:
        """Return the precision of the backbone in the tests of a method that `prepare_test` has prepared."""
        return self.precision if isinstance(method, Adapting) else "float32"

    def scaler(self) -> torch.amp.GradScaler:
        """Return the gradient scaler, which only float16 needs: it cannot represent very small gradients."""
        return torch.amp.GradScaler(self.device.type, enabled=self.precision == "float16")


ON_CPU = Execution()


@contextmanager
def computing(threads: int | None = None, device: str = "auto") -> Iterator[torch.device]:
    """Use this number of CPU threads inside this block; yield the device of this name."""
    check_threads(threads)
    found = find_device(device)
    before, tf32 = torch.get_num_threads(), torch.backends.cudnn.allow_tf32
    if threads is not None:
        torch.set_num_threads(threads)
    torch.backends.cudnn.allow_tf32 = False  # no TF32: float32 is float32
    try:
        yield found
    finally:
        torch.backends.cudnn.allow_tf32 = tf32
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


def check_compiler(device: torch.device) -> None:
    """Refuse to compile where that is not possible."""
    try:
        torch.compile(torch.square)(torch.ones(2, device=device))
    except Exception as failure:  # torch.compile calls other programs and can fail in many ways
        reason = " ".join(str(failure).split())[:300]
        raise TPNError(f"--compile does not work here: {reason} … Is a C++ compiler installed?") from failure


def compilation_pays(config: RunConfig, execution: Execution) -> bool:
    """Return whether compiling the backbone saves more time than it takes, and is possible."""
    settings, episode = config.settings, config.episode
    images = settings.batch_size if isinstance(settings, ClassifierConfig) else episode.images
    if isinstance(settings, MAMLConfig):
        images *= 1 + settings.inner_steps
    worth = settings.episodes * images * config.image_size**2 >= WORTH_COMPILING
    network = settings.backbone in CONV_BLOCK_NETWORKS and not (
        isinstance(settings, ReptileConfig) or (isinstance(settings, MAMLConfig) and settings.vectorised)
    )  # the batches of Reptile are too small
    if not (worth and network and execution.device.type == "cpu" and execution.precision != "float16"):
        return False
    try:
        check_compiler(execution.device)
    except TPNError:
        return False
    return True


def can_compile(kind: type[Method], backbone: str, device: torch.device) -> bool:
    """Return whether a method with this backbone can be compiled. One with other weights in each task can only compile
    what is between the convolutions of a Conv-4."""
    return not issubclass(kind, Adapting) or (device.type == "cpu" and backbone in CONV_BLOCK_NETWORKS)


def has_bfloat16(device: torch.device) -> bool:
    """Return whether this GPU supports bfloat16 in hardware; older ones emulate it slowly."""
    return torch.version.hip is not None or torch.cuda.get_device_capability(device) >= (8, 0)


def find_device(name: str) -> torch.device:
    """Return the device of this name: auto, cpu, cuda, cuda:1, mps."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, number = name.partition(":")
    available = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (number.isdecimal() or name == kind) and int(number or 0) < available.get(kind, 0):
        return torch.device(name)
    raise TPNError(f"--device {name!r} is not available. Try auto, cpu or cuda.")


def own_device(device: torch.device, processes: Processes) -> torch.device:
    """Return the device of this process: if several train on one machine, each has a GPU of its own."""
    if processes.alone or device.type == "cpu":
        return device
    if device != torch.device("cuda"):
        raise TPNError(f"{processes.count} processes cannot share --device {device}: try auto, cpu or cuda.")
    number, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if number >= gpus:
        raise TPNError(f"There are {gpus} GPUs, and each process needs one: --nproc-per-node can be {gpus} at most.")
    return torch.device("cuda", number)


def random_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of PyTorch's random generators: that of the CPU, and that of the device if it is another."""
    states = {"random/torch": torch.get_rng_state()}
    if device.type == "cuda":
        states["random/device"] = torch.cuda.get_rng_state(device)
    if device.type == "mps":
        states["random/device"] = torch.mps.get_rng_state()
    return states


def set_random_states(states: dict[str, Tensor], device: torch.device) -> None:
    """Restore the states of PyTorch's random generators; a device without a saved state keeps its own."""
    torch.set_rng_state(states["random/torch"])
    if device.type == "cuda" and "random/device" in states:
        torch.cuda.set_rng_state(states["random/device"], device)
    if device.type == "mps" and "random/device" in states:
        torch.mps.set_rng_state(states["random/device"])
