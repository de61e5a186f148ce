"""What every source of images becomes: one uint8 array per split, grouped by class."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Split:
    """The images of some classes: those of class c are the rows starts[c] to starts[c + 1]."""

    name: str
    images: UInt8[np.ndarray, "image height width channel"]
    classes: tuple[str, ...]
    starts: Int64[np.ndarray, "bounds"]
    labelled_share: float = 0.4
    """The share of each class that has labels in semi-supervised training, if the user names none."""

    def __len__(self) -> int:
        return len(self.images)

    @property
    def counts(self) -> Int64[np.ndarray, "class"]:
        """How many images each class has."""
        return np.diff(self.starts)

    def load(self, rows: Int64[np.ndarray, "row"]) -> Float[Tensor, "row channel height width"]:
        """The images of these rows as values of 0 to 1, in channels-last memory."""
        return torch.from_numpy(self.images[rows]).permute(0, 3, 1, 2).to(torch.float32).div_(255)


@dataclass(frozen=True)
class SplitInfo:
    """How much there is in a split."""

    classes: int
    images: int
    categories: int | None = None
    """Groups of classes, where classes have such."""


class Images(ABC):
    """An opened source of images."""

    spec: str
    """As --data takes it."""
    image_size: int
    channels: int
    mean: tuple[float, ...]
    """Of each channel of the training images, for values of 0 to 1."""
    std: tuple[float, ...]
    digest: str
    """Different for different images."""
    are_features: bool = False
    """Are they embeddings already (of image_size 1, with a channel for each feature)?"""

    @abstractmethod
    def info(self) -> dict[str, SplitInfo]:
        """Split -> how many classes and images it has."""

    @abstractmethod
    def split(self, name: str) -> Split:
        """The images of one split: train, val or test."""


def resize(
    images: UInt8[np.ndarray, "image height width channel"], size: int
) -> UInt8[np.ndarray, "image size size channel"]:
    """Scale images to size x size with antialiasing, a few at a time."""
    resized = np.empty((len(images), size, size, images.shape[3]), np.uint8)
    for part in _parts(len(images), 1024):
        values = torch.from_numpy(images[part]).permute(0, 3, 1, 2).float()
        values = F.interpolate(values, (size, size), mode="bilinear", antialias=True, align_corners=False)
        resized[part] = values.round_().clamp_(0, 255).byte().permute(0, 2, 3, 1).numpy()
    return resized


def _parts(total: int, size: int) -> Iterable[slice]:
    return (slice(start, min(start + size, total)) for start in range(0, total, size))
