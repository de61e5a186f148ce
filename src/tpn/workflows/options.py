"""Options that several journeys share. Nothing here needs torch, so that `--help` answers at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from tyro.conf import FlagCreatePairsOff

Flag = FlagCreatePairsOff[bool]
"""A switch that is off by default: `--strict`, and no `--no-strict`."""
Precision: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
BatchNorm: TypeAlias = Literal["running", "batch"]
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
