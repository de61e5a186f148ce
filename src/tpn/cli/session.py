"""What testing commands share: the options of a test, and opening the runs that it is about."""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import torch

from tpn.backbones.batch_norm import keeps_statistics
from tpn.cli.device_options import MachineOptions
from tpn.cli.image_options import CacheOption
from tpn.cli.parsing import SettingOfRun, parse
from tpn.episodes.setting import Setting
from tpn.episodes.task import Episode
from tpn.errors import TPNError, TPNWarning
from tpn.evaluation.protocol import (
    BatchNorm,
    Evaluation,
    check_setting,
    draw_episodes,
    evaluate,
    images_to_embed,
    transduction,
)
from tpn.images.opening import open_images
from tpn.images.split import Split
from tpn.methods._method import Method
from tpn.progress import progress
from tpn.runs.folder import RunConfig, find_run, load
from tpn.training.device import CPU
from tpn.training.preflight import warn_of_unlabelled

QUERY_FLAGS = {"--way", "--query", "--query-counts", "--query-dirichlet"}

AnySetting = TypeVar("AnySetting", bound=Setting)


@dataclass(frozen=True, kw_only=True)
class TestOptions(MachineOptions, CacheOption, Generic[AnySetting]):
    """What a test is made of."""

    episode: AnySetting
    data: str | None = None
    """Where the images come from: quickdraw, mini-imagenet:PATH, tiered-imagenet:PATH or folder:PATH. If not given,
    where the run's came from."""
    split: Literal["train", "val", "test"] = "test"
    """The classes to test on."""
    episodes: int = 600
    """How many episodes."""
    seed: int = 0
    """Which episodes: the same seed draws the same ones for every method."""
    batch_norm: BatchNorm = "running"
    """Normalise with the statistics of the training (running), each image by itself, or with those of the episode at
    hand (batch), which shares information between its queries. MAML and Reptile have no running ones."""


def parse_for_runs(kind: Any, prog: str, arguments: list[str]) -> Any:
    """Read the options of a command on one or more runs: its `run` or `runs`, and what defaults to their settings."""
    given = parse(kind[SettingOfRun], prog, arguments)
    folders = [given.run] if hasattr(given, "run") else list(given.runs)
    configs = [find_run(folder).read_config() for folder in folders]
    which = {name: getattr(given, name) for name in ("run", "runs") if hasattr(given, name)}
    options, *others = [
        parse(kind[Setting], prog, arguments, kind[Setting](episode=inherited(config.episode, arguments), **which))
        for config in configs
    ]
    for folder, other in zip(folders[1:], others, strict=True):
        if other.episode != options.episode:
            raise TPNError(
                f"{folders[0]} and {folder} were trained on different episodes: say on which to compare them, "
                "with --way, --shot, --query and the like."
            )
    return options


def inherited(setting: Setting, arguments: list[str]) -> Setting:
    """What a test takes over from the training: not its unbalanced queries, if the number of queries is given."""
    given = {argument.split("=")[0].replace("_", "-") for argument in arguments}
    return replace(setting, query_counts=None, query_dirichlet=None) if given & QUERY_FLAGS else setting


@dataclass(frozen=True)
class Subject:
    """A trained method and the images to test it on."""

    config: RunConfig
    method: Method
    data: str
    split: Split

    def draw(self, options: TestOptions[Setting]) -> list[Episode]:
        """The episodes of a test."""
        return draw_episodes(self.split, options.episode, options.episodes, options.seed)

    def check(self, setting: Setting) -> None:
        """Refuse to be tested on episodes that the method is not made for, and tell of what is there for nothing."""
        check_setting(self.method, setting)
        warn_of_unlabelled(self.method.info, setting)

    @property
    def name(self) -> str:
        """What it is tested as."""
        return self.method.info.name

    def batch_norm(self, asked: BatchNorm) -> BatchNorm:
        """The statistics that a test normalises with: some methods know those of the batch at hand only."""
        return asked if keeps_statistics(self.method) else "batch"

    def transduction(self, asked: BatchNorm) -> str:
        """Do the queries of a test share information: by the method (yes), by batch statistics (bn), or not (no)."""
        return transduction(self.method, asked)


def open_subject(
    folder: Path,
    data: str | None,
    split: str,
    cache: Path | None,
    as_method: str | None = None,
    device: torch.device = CPU,
) -> Subject:
    """Load a trained method and open the images that it is to be tested on."""
    config = find_run(folder).read_config()
    images = open_images(data or config.data, config.image_size, cache=cache, class_seed=config.class_seed)
    data = images.spec
    if data == config.data and images.digest != config.data_digest:
        warnings.warn(
            f"The images of {data} have changed since {folder} was trained on them: "
            "classes that it was trained on may now be among those that it is tested on.",
            TPNWarning,
            stacklevel=2,
        )
    if images.channels != config.channels:
        raise TPNError(
            f"{folder} was trained on images of {config.channels} channels; those of {data} have {images.channels}."
        )
    return Subject(config, load(folder, as_method).to(device), data, images.split(split))


def test(subject: Subject, episodes: list[Episode], batch_norm: BatchNorm, what: str) -> Evaluation:
    """Test a method on episodes, showing how far it has come."""
    with progress(what, images_to_embed(subject.method, episodes, batch_norm), "images") as advance:
        return evaluate(subject.method, subject.split, episodes, batch_norm, advance)


def describe(options: TestOptions[Setting], subject: Subject) -> str:
    """What is tested on, in one line."""
    setting = options.episode
    return (
        f"{subject.data}, {options.split} split ({len(subject.split.classes)} classes): "
        f"{setting}, {options.episodes} episodes"
    )
