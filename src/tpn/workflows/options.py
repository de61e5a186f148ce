"""Options of the workflows. This module does not import torch, so that `--help` answers at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from tyro.conf import FlagCreatePairsOff

from tpn.episodes.setting import TEST_SEED, BatchNorm

Flag = FlagCreatePairsOff[bool]
"""A switch that is off by default: there is `--strict`, but no `--no-strict`."""
Precision: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
SplitName: TypeAlias = Literal["train", "val", "test"]


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Where to compute."""

    threads: int | None = None
    """Number of CPU threads (default: all cores). Resuming is exact only with the same number."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps, or auto: a CUDA GPU if there is one, otherwise the CPU."""


@dataclass(frozen=True, kw_only=True)
class CacheOptions:
    """Where to keep prepared images and features."""

    cache: Path | None = None
    """The folder for prepared images and features (default: TPN_CACHE if it is set, otherwise ~/.cache/tpn)."""


@dataclass(frozen=True, kw_only=True)
class ImageOptions(CacheOptions):
    """How to prepare images."""

    image_size: int | None = None
    """Resize images to this height and width in pixels (default: 84; QuickDraw: 28)."""
    class_seed: int = 0
    """The seed that assigns the classes of a folder without splits to training, validation and testing."""
    strict: Flag = False
    """Refuse a source with any problem, instead of skipping what cannot be used."""


@dataclass(frozen=True, kw_only=True)
class TrainingDeviceOptions(DeviceOptions):
    """Where to train, and in which precision."""

    precision: Precision = "auto"
    """The precision of the backbone in training (auto: bfloat16 where the GPU supports it, otherwise float32).
    Distances, graphs and weights are always float32, and so is evaluation, except that MAML and Reptile learn the tasks
    of validation (and of the tests of `tpn paper`) as they do in training."""
    compile: Flag = False
    """Compile the backbone with torch.compile, which takes a minute and needs a C++ compiler; steps are then faster.
    By default, long trainings of a Conv-4 on a CPU are compiled if there is a compiler."""
    no_compile: Flag = False
    """Do not compile the backbone."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions(TrainingDeviceOptions, ImageOptions):
    """Options of a training, besides the settings of the method and of its episodes."""

    seed: int = 0
    """The seed of the initial weights and the episodes: the same seed gives the same run."""
    out: Path | None = None
    """The run folder (default: one in runs/ named after the settings)."""
    resume: Flag = False
    """Continue the run in --out with its own settings (only --threads, --device, --precision and --compile may differ),
    or begin it if it does not exist. With more --episodes, or more --patience after a plateau, training continues."""
    init: Path | None = None
    """Warm start: begin with the best weights of this run: its backbone and, if it is a run of the same method, all
    other weights that fit. Backbone, data and image size are by default those of that run. See `tpn pretrain`."""


@dataclass(frozen=True, kw_only=True)
class SplitsOptions(TrainOptions):
    """Options of the semi-supervised protocol."""

    out: Path | None = None
    """The folder for the runs and results.json (default: one in runs/ named after the settings)."""
    splits: int = 10
    """The number of partitions into labelled and unlabelled images, with seeds from --split-seed on."""
    test_shots: tuple[int, ...] = (1, 5)
    """The shots to test with."""
    test_unlabelled: int | None = None
    """Unlabelled images per class (and per distractor class) in testing (default: 20, or none if trained with none)."""
    test_episodes: int = 600
    """The number of episodes in each test."""


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(DeviceOptions, CacheOptions):
    """Options of a test, besides the setting of its episodes."""

    split: SplitName = "test"
    """The split to test on."""
    episodes: int = 600
    """The number of episodes."""
    seed: int = TEST_SEED
    """The seed of the episodes: the same seed draws the same ones for every method."""
    batch_norm: BatchNorm = "running"
    """Batch normalisation with the statistics of training (running), independently for each image; or with those of the
    episode (batch), through which queries share information. MAML and Reptile have no running statistics."""


@dataclass(frozen=True, kw_only=True)
class PlotOptions(DeviceOptions, CacheOptions):
    """Options of the plots of a run."""

    out: Path | None = None
    """The folder for the plots (default: the run folder)."""
    split: SplitName = "test"
    """The split of the episode."""
    seed: int = 0
    """The seed of the episode."""
