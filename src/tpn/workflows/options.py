"""Options that several journeys share. Nothing here needs torch, so that `--help` answers at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from tyro.conf import FlagCreatePairsOff

from tpn.episodes.setting import TEST_SEED, BatchNorm

Flag = FlagCreatePairsOff[bool]
"""A switch that is off by default: `--strict`, and no `--no-strict`."""
Precision: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
SplitName: TypeAlias = Literal["train", "val", "test"]


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Where to compute."""

    threads: int | None = None
    """CPU threads (default: all cores). A training resumes exactly with the same number."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps, or auto: a CUDA GPU if there is one, otherwise the CPU."""


@dataclass(frozen=True, kw_only=True)
class CacheOptions:
    """Where prepared images and features are kept."""

    cache: Path | None = None
    """The folder for prepared images and features (default: TPN_CACHE if it is set, otherwise ~/.cache/tpn)."""


@dataclass(frozen=True, kw_only=True)
class ImageOptions(CacheOptions):
    """How images are prepared."""

    image_size: int | None = None
    """Resize images to this height and width in pixels (default: 84; QuickDraw: 28)."""
    class_seed: int = 0
    """Which classes of a folder without splits are for training, validation and testing."""
    strict: Flag = False
    """Refuse a source with any problem, instead of leaving out what cannot be used."""


@dataclass(frozen=True, kw_only=True)
class TrainingDeviceOptions(DeviceOptions):
    """Where to train, and in which precision."""

    precision: Precision = "auto"
    """The number format of the backbone in training (auto: bfloat16 where the GPU supports it, otherwise float32).
    Distances, graphs and weights are always float32, and so is evaluation."""
    compile: Flag = False
    """Compile the backbone with torch.compile: slow to start, then faster. It needs a C++ compiler."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions(TrainingDeviceOptions, ImageOptions):
    """What a training is made of, beside the settings of the method and of its episodes."""

    seed: int = 0
    """Decides the initial weights and the episodes: the same seed gives the same run."""
    out: Path | None = None
    """The run folder (default: one in runs/ named after the settings)."""
    resume: Flag = False
    """Continue the run in --out with its own settings (only --threads, --device, --precision and --compile may differ),
    or begin it if it does not exist. With more --episodes, or more --patience after a plateau, it trains on."""
    init: Path | None = None
    """Warm start: begin with the best weights of this run, of its backbone and, if it is a run of the same method, of
    everything that fits. Backbone, data and image size are then those of that run. `tpn pretrain` makes such a run."""


@dataclass(frozen=True, kw_only=True)
class SplitsOptions(TrainOptions):
    """What the semi-supervised protocol is made of."""

    out: Path | None = None
    """The folder for the runs and results.json (default: one in runs/ named after the settings)."""
    splits: int = 10
    """The number of partitions into labelled and unlabelled images, from --split-seed on."""
    test_shots: tuple[int, ...] = (1, 5)
    """The shots to test with."""
    test_unlabelled: int | None = None
    """Unlabelled images per class (and per distractor class) in testing (default: 20, or none if trained with none)."""
    test_episodes: int = 600
    """The number of episodes in each test."""


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(DeviceOptions, CacheOptions):
    """What a test is made of, beside the setting of its episodes."""

    split: SplitName = "test"
    """The classes to test on."""
    episodes: int = 600
    """The number of episodes."""
    seed: int = TEST_SEED
    """Which episodes: the same seed draws the same ones for every method."""
    batch_norm: BatchNorm = "running"
    """Normalise with the statistics of training (running), each image by itself; or with those of the episode (batch),
    which shares information between its queries. MAML and Reptile have no running statistics."""


@dataclass(frozen=True, kw_only=True)
class PlotOptions(DeviceOptions, CacheOptions):
    """What is drawn of a run."""

    out: Path | None = None
    """The folder for the plots (default: the run folder)."""
    split: SplitName = "test"
    """The classes of the episode."""
    seed: int = 0
    """Which episode."""
