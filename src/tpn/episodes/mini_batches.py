"""Mini-batches of labelled images of all training classes, for classifier training."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from tpn.episodes.partition import ClassPools
from tpn.episodes.sampler import generator
from tpn.episodes.setting import Setting
from tpn.episodes.task import LabelledBatch
from tpn.errors import TPNError
from tpn.images.split import Split


@dataclass(frozen=True)
class MiniBatch:
    """One mini-batch as indices."""

    images: Int64[np.ndarray, "image"]
    """Rows of the split."""
    classes: Int64[np.ndarray, "image"]


class MiniBatches:
    """Sampler of mini-batches of the labelled images of a split, in a new random order each epoch."""

    def __init__(self, split: Split, setting: Setting, size: int, seed: int) -> None:
        self.split, self._size = split, size
        labelled = ClassPools(split, setting).labelled
        self._rows = np.concatenate(labelled)
        self._classes = np.repeat(np.arange(len(labelled)), [len(rows) for rows in labelled])
        if size > len(self._rows):
            raise TPNError(
                f"--batch-size must be at most {len(self._rows)}, the number of labelled images in the {split.name} "
                f"split, not {size}."
            )
        self._generator = generator(seed)
        self._begin_epoch()

    def draw(self) -> MiniBatch:
        """Draw the next mini-batch. At the end of an epoch, images too few for a whole mini-batch are skipped."""
        if self._drawn + self._size > len(self._rows):
            self._begin_epoch()
        chosen = self._order[self._drawn : self._drawn + self._size]
        self._drawn += self._size
        return MiniBatch(self._rows[chosen], self._classes[chosen])

    def collate(self, drawn: list[MiniBatch], inputs: Float[Tensor, "batch image *shape"]) -> LabelledBatch:
        """Combine mini-batches with the images that belong to them."""
        labels = torch.from_numpy(np.stack([batch.classes for batch in drawn]))
        return LabelledBatch(inputs, labels.to(inputs.device))

    def _begin_epoch(self) -> None:
        self._before = dict(self._generator.bit_generator.state)
        self._order = self._generator.permutation(len(self._rows))
        self._drawn = 0

    @property
    def state(self) -> dict[str, Any]:
        """The random generator's state before this epoch, and the images drawn since; assign it to continue there."""
        return {"round": self._before, "drawn": self._drawn}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        drawn = state["drawn"]
        if not isinstance(drawn, int) or not 0 <= drawn <= len(self._rows):
            raise ValueError(f"{drawn!r} images of an epoch of {len(self._rows)} cannot have been drawn")
        self._generator.bit_generator.state = state["round"]
        self._begin_epoch()
        self._drawn = drawn
