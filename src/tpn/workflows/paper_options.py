"""The options of `tpn paper` and `tpn.reproduce`. Nothing here needs torch, so that `--help` answers at once."""

import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from tpn.errors import TPNError
from tpn.paper.budget import Budget
from tpn.workflows.options import Flag, ImageOptions, TrainingDeviceOptions

MOST_WORKERS = 256


@dataclass(frozen=True, kw_only=True)
class PaperOptions(Budget, TrainingDeviceOptions, ImageOptions):
    """How an experiment of the paper is run. The fields of `Budget` override single settings of the budget."""

    data: str = "quickdraw"
    """Where the images come from: quickdraw (ships with the package), mini-imagenet:PATH, tiered-imagenet:PATH or
    folder:PATH. See `tpn data --help`."""
    budget: Literal["full", "cpu", "quick"] = "full"
    """full: as in the paper; needs a GPU. cpu: every system starts with the same pre-trained Conv-4 and is trained on
    the same number of images after that; hours on a CPU. quick: small images and few episodes, the same for every
    system; its numbers show that everything works, not what the systems can achieve."""
    methods: tuple[str, ...] = ()
    """Run only the cells of these methods (default: all)."""
    out: Path = Path("paper")
    """The folder for runs, results and reports."""
    workers: int | None = None
    """Trainings at the same time, each in a process with its share of the CPU cores (default: 1; with --ray, as many as
    the cluster can hold, with --threads 1 by default)."""
    ray: str | None = None
    """Train on the Ray cluster at this address (auto: the cluster of this computer; local: start one here). All nodes
    must see --out and the images under the same paths. Needs the extra tpn[ray]."""
    seed: int = 0
    """The seed of initial weights and training episodes. Test episodes are the same for every seed."""
    report_only: Flag = False
    """Train and test nothing: report the results so far."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.workers is not None and not 1 <= self.workers <= MOST_WORKERS:
            raise TPNError(f"--workers must be at least 1 and at most {MOST_WORKERS}, not {self.workers}.")
        if not 0 <= self.seed < 2**63:
            raise TPNError(f"--seed must be at least 0 and below 2^63, not {self.seed}.")

    @property
    def at_once(self) -> int:
        """The number of trainings at the same time."""
        return self.workers or (MOST_WORKERS if self.ray else 1)

    def command(self, name: str) -> str:
        """Return the command line that makes the numbers of an experiment, whether or not it only reported them."""
        words = ["tpn", "paper", name]
        own = list(PaperOptions.__annotations__)
        for field in sorted(fields(self), key=lambda field: field.name not in own):
            value = getattr(self, field.name)
            if value != field.default and field.name != "report_only":
                words.append(f"--{field.name.replace('_', '-')}")
                words += [] if value is True else map(str, value) if isinstance(value, tuple) else [str(value)]
        return shlex.join(words)
