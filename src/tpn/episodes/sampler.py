"""The interface of samplers, which draw the episodes or mini-batches of a training step."""

from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float
from torch import Tensor

from tpn.episodes.task import LabelledBatch, TrainingTask
from tpn.errors import TPNError
from tpn.images.split import Split

Learnable: TypeAlias = TrainingTask | LabelledBatch
"""What a method learns from in one step."""


@runtime_checkable
class Sampler(Protocol):
    """Draws at random from a split. The seed determines what it draws."""

    split: Split
    state: dict[str, Any]
    """The state of the random generator as plain data for JSON; assign it to continue from there."""

    def draw(self) -> Any:
        """Draw the next episode or mini-batch."""

    def collate(self, drawn: list[Any], inputs: Float[Tensor, "drawn node *shape"]) -> Learnable:
        """Combine several draws with the images that belong to them."""


def load_images(split: Split, drawn: list[Any]) -> Float[Tensor, "drawn node channel height width"]:
    """Load the images of several draws of the same shape."""
    rows = np.stack([one.images for one in drawn])
    images = split.load(rows.reshape(-1))
    return images.view(*rows.shape, *images.shape[1:])


def generator(seed: int) -> np.random.Generator:
    """Return a random generator for the user's seed."""
    if not 0 <= seed < 2**63:
        raise TPNError(f"--seed must be at least 0 and below 2^63, not {seed}.")
    return np.random.default_rng(seed)
