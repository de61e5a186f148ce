"""What every source of images becomes: one array per split, its rows grouped by class."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, Shaped, UInt8
from torch import Tensor

from tpn.errors import TPNError
from tpn.images.dataset_index import SPLITS

MOST_CHANNELS = 4
"""Images that can be shown have 1 to 4 channels: grey or colour, with or without an alpha channel."""


@dataclass(frozen=True)
class Split:
    """The images of some classes: those of class c are the rows starts[c] to starts[c + 1].

    Parameters
    ----------
    name : {"train", "val", "test"}
    images : ndarray of shape (n_images, height, width, channels)
        uint8 or floating point; any view will do, such as one of an array with its channels first. Features are images
        of one pixel and as many channels as there are features.
    classes : tuple of str
        The names of the classes.
    starts : ndarray of shape (n_classes + 1,)
        The first row of each class, and the number of rows.
    labelled_share : float, default=0.4
        The share of each class that has labels in semi-supervised training, unless the user chooses another.
    order : ndarray of shape (n_images,), optional
        The place in `images` of each row, if `images` is not grouped by class itself.
    """

    name: str
    images: np.ndarray
    classes: tuple[str, ...]
    starts: Int64[np.ndarray, "bounds"]
    labelled_share: float = 0.4
    order: Int64[np.ndarray, "row"] | None = None

    def __post_init__(self) -> None:
        images = self.images
        if images.ndim != 4 or not is_pixel_type(images.dtype):
            raise TPNError(
                f"The {self.name} split needs images: a NumPy array of uint8 or floating-point values with the shape "
                f"(images, height, width, channels), not {describe(images)}. For other data use tpn.images_from."
            )
        rows = len(images) if self.order is None else len(self.order)
        if len(self.starts) != len(self.classes) + 1 or self.starts[0] != 0 or self.starts[-1] != rows:
            raise TPNError(f"The {self.name} split has {rows} images, which its class boundaries do not cover.")

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def counts(self) -> Int64[np.ndarray, "class"]:
        """The number of images of each class."""
        return np.diff(self.starts)

    def load(self, rows: Int64[np.ndarray, "row"]) -> Float[Tensor, "row channel height width"]:
        """Load the images of these rows in channels-last memory: uint8 as values from 0 to 1, floats as they are."""
        values = torch.from_numpy(self.images[rows if self.order is None else self.order[rows]]).permute(0, 3, 1, 2)
        if values.is_contiguous(memory_format=torch.channels_last):
            loaded = values.to(torch.float32)
        else:  # channel by channel, which is several times as fast as pixel by pixel
            loaded = torch.empty(values.shape, memory_format=torch.channels_last)
            for channel in range(values.shape[1]):
                loaded[:, channel] = values[:, channel]
        return loaded.div_(255) if values.dtype == torch.uint8 else loaded

    def pixels(self, row: SupportsIndex) -> UInt8[np.ndarray, "height width"] | UInt8[np.ndarray, "height width 3"]:
        """Return one image for display. An image of floats outside 0 to 1 is rescaled to the range of its values."""
        image: np.ndarray = self.images[row if self.order is None else self.order[row]]
        if image.shape[:2] == (1, 1) and image.shape[2] > MOST_CHANNELS:
            raise TPNError(f"The {self.name} split holds features, which cannot be shown as images.")
        image = image[..., :3] if image.shape[2] >= 3 else image[..., 0]
        if image.dtype == np.uint8:
            return image
        low, high = float(image.min()), float(image.max())
        if low < 0 or high > 1:
            image = (image - low) / max(high - low, 1e-12)
        shown: np.ndarray = np.rint(255 * image.astype(np.float32)).astype(np.uint8)
        return shown


@dataclass(frozen=True)
class SplitInfo:
    """The size of a split."""

    classes: int
    images: int
    categories: int | None = None
    """Groups of classes, where the source defines them."""


class Images(ABC):
    """An opened source of images."""

    spec: str
    """The name of the source, as --data takes it."""
    image_size: int
    channels: int
    mean: tuple[float, ...]
    """The mean of each channel of the training images, with uint8 values scaled to 0 to 1; empty for features."""
    std: tuple[float, ...]
    digest: str
    """Different for different images."""
    are_features: bool = False
    """Whether these are feature vectors: images of one pixel, with a channel for each feature."""
    layout: str
    """How the source stores its images, in words."""
    folder: Path | None = None
    """The folder of the prepared images, if there is one."""
    problems: Sequence[str] = ()
    """What was left out, and why."""
    remarks: Sequence[str] = ()
    """Worth knowing, but not a problem."""

    @abstractmethod
    def info(self) -> dict[str, SplitInfo]:
        """Return the number of classes and images of each split."""

    @abstractmethod
    def split(self, name: str) -> Split:
        """Return the images of a split: train, val or test."""


def check_split(name: str) -> None:
    """Refuse a name that is not one of the splits."""
    if name not in SPLITS:
        raise TPNError(f"Unknown split {name!r}: choose one of {', '.join(SPLITS)}.")


def is_pixel_type(dtype: "np.dtype[Any]") -> bool:
    """Whether an array of this type can hold images."""
    return dtype == np.uint8 or dtype.kind == "f"


def describe(value: Any) -> str:
    """Describe an object of the wrong kind in an error message."""
    if isinstance(value, np.ndarray | Tensor):
        return f"an array of shape {tuple(value.shape)} and type {value.dtype}"
    return f"an object of type {type(value).__name__}"


def resize(
    images: Shaped[np.ndarray, "image height width channel"], size: int
) -> Shaped[np.ndarray, "image {size} {size} channel"]:
    """Resize images to size x size with antialiasing, a few at a time."""
    rounded = images.dtype == np.uint8
    resized = np.empty((len(images), size, size, images.shape[3]), np.uint8 if rounded else np.float32)
    for block in blocks(len(images), 1024):
        values = torch.from_numpy(images[block].astype(np.float32)).permute(0, 3, 1, 2)
        values = F.interpolate(values, (size, size), mode="bilinear", antialias=True, align_corners=False)
        values = values.round_().clamp_(0, 255).byte() if rounded else values
        resized[block] = values.permute(0, 2, 3, 1).numpy()
    return resized


def blocks(total: int, size: int) -> Iterator[slice]:
    """Divide `total` rows into consecutive blocks of at most `size`."""
    return (slice(start, min(start + size, total)) for start in range(0, total, size))
