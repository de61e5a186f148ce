"""Options of the benchmark of heads. This module does not import torch."""

from dataclasses import dataclass
from pathlib import Path

from tpn.episodes.setting import TEST_SEED
from tpn.errors import TPNError
from tpn.evaluation.test_settings import TestSetting
from tpn.workflows.options import CacheOptions, DeviceOptions, Flag

MOST_TASKS = 10**6


@dataclass(frozen=True, kw_only=True)
class BenchmarkOptions(DeviceOptions, CacheOptions):
    """Options of the benchmark of heads."""

    heads: tuple[str, ...] = ()
    """The heads to test (default: all of them, and the method of the run)."""
    settings: tuple[TestSetting, ...] = ("balanced", "dirichlet", "missing", "open-set")
    """The settings to test in. cross-domain needs --cross-data; whole is a whole collection as one episode, with a draw
    of its support for every 200 tasks."""
    shots: tuple[int, ...] = (1,)
    """The numbers of labelled images of each class."""
    way: int = 5
    """Classes in an episode."""
    query: int = 15
    """Queries of each class."""
    tasks: int = 1000
    """Episodes for each head, setting and shot: the same ones for every head."""
    seed: int = TEST_SEED
    """The seed of the episodes."""
    cross_data: str | None = None
    """The source of images for the setting cross-domain."""
    tune: Flag = False
    """Choose the settings of each head on the validation classes first, for each number of shots: those of the largest
    mean accuracy over balanced and unbalanced (Dirichlet) queries. Test classes have no part in it."""
    tune_tasks: int = 200
    """Episodes for each choice, with balanced and with unbalanced queries."""
    out: Path | None = None
    """The folder for the report, the results and the chosen settings (default: runs/benchmark-NAME). What it already
    holds of this benchmark is not computed again."""

    def __post_init__(self) -> None:
        for name in ("tasks", "tune_tasks"):
            if not 1 <= (value := getattr(self, name)) <= MOST_TASKS:
                flag = name.replace("_", "-")
                raise TPNError(f"--{flag} must be at least 1 and at most {MOST_TASKS}, not {value}.")
        for name in ("settings", "shots"):
            if not getattr(self, name):
                raise TPNError(f"--{name} must name at least one.")
        if "cross-domain" in self.settings and self.cross_data is None:
            raise TPNError("The setting cross-domain tests on another source of images: give it as --cross-data.")
