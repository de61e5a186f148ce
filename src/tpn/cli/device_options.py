"""On what a command computes."""

from dataclasses import dataclass, replace

import torch

from tpn.allocator import keep_freed_memory
from tpn.cli.parsing import Flag
from tpn.errors import TPNError
from tpn.training.device import Machine, Precision, find_device, own_device
from tpn.training.distributed import find_processes

MOST_THREADS = 1024


@dataclass(frozen=True, kw_only=True)
class MachineOptions:
    """Where to compute."""

    threads: int | None = None
    """Processor threads; if not given, all. A training resumes exactly with the same number."""
    device: str = "auto"
    """Where to compute: cpu, cuda, cuda:1, … If not given, on a GPU of CUDA if there is one."""

    def prepare(self) -> Machine:
        """Prepare this process for heavy work, and find the device."""
        keep_freed_memory()
        if self.threads is not None:
            if not 1 <= self.threads <= MOST_THREADS:
                raise TPNError(f"--threads must be at least 1 and at most {MOST_THREADS}, not {self.threads}.")
            torch.set_num_threads(self.threads)
        torch.backends.cudnn.allow_tf32 = False  # what is to be float32 is
        return Machine(find_device(self.device))


@dataclass(frozen=True, kw_only=True)
class TrainingMachineOptions(MachineOptions):
    """Where to train, and in which number format."""

    precision: Precision = "auto"
    """The number format of the backbone in training. If not given, bfloat16 on a GPU that has it, otherwise float32.
    Distances, graphs and weights are float32 in any case, and so are tests."""
    compile: Flag = False
    """Have torch compile the backbone: slow to begin with, faster from then on. It needs a C++ compiler."""

    def prepare(self) -> Machine:
        """Prepare this process, find the device and, if torchrun started several processes, the others."""
        machine, processes = super().prepare(), find_processes()
        device = own_device(machine.device, processes)
        processes.connect(device)
        machine = replace(machine, device=device, processes=processes).computing(self.precision, self.compile)
        if self.compile:
            check_compiler(machine.device)
        return machine


def check_compiler(device: torch.device) -> None:
    """Refuse to compile where that is not possible."""
    try:
        torch.compile(torch.square)(torch.ones(2, device=device))
    except Exception as failure:  # it calls other programs, and can fail in many ways
        reason = " ".join(str(failure).split())[:300]
        raise TPNError(f"--compile does not work here: {reason} … Is there a C++ compiler?") from failure
