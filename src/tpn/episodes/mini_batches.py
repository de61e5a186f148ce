"""Mini-batches of images of all training classes: what base-class training learns from."""

from typing import Any

import numpy as np

from tpn.episodes.episode_sampler import Pools, generator
from tpn.episodes.setting import Setting
from tpn.episodes.task import Episode, Role
from tpn.errors import TPNError
from tpn.images.split import Split


class MiniBatches:
    """Draws the labelled images of a split, so many at a time, in a new random order each round.

    A mini-batch is an episode of all classes of the split, whose images are all labelled.
    """

    def __init__(self, split: Split, setting: Setting, size: int, seed: int) -> None:
        self.split, self._size = split, size
        labelled = Pools(split, setting).labelled
        self._rows = np.concatenate(labelled)
        self._classes = np.repeat(np.arange(len(labelled)), [len(rows) for rows in labelled])
        if size > len(self._rows):
            raise TPNError(
                f"--batch-size must be at most {len(self._rows)}, the number of labelled images in the {split.name} "
                f"split, not {size}."
            )
        self._generator = generator(seed)
        self._begin_round()

    def draw(self) -> Episode:
        """Draw the next mini-batch; what is left over at the end of a round is too little for one."""
        if self._drawn + self._size > len(self._rows):
            self._begin_round()
        chosen = self._order[self._drawn : self._drawn + self._size]
        self._drawn += self._size
        return Episode(
            images=self._rows[chosen],
            labels=self._classes[chosen],
            role=np.full(self._size, int(Role.SUPPORT)),
            classes=np.arange(len(self.split.classes)),
        )

    def _begin_round(self) -> None:
        self._before = dict(self._generator.bit_generator.state)
        self._order = self._generator.permutation(len(self._rows))
        self._drawn = 0

    @property
    def state(self) -> dict[str, Any]:
        """The generator before this round, and how much of the round is done; set it to continue from there."""
        return {"round": self._before, "drawn": self._drawn}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        drawn = state["drawn"]
        if not isinstance(drawn, int) or not 0 <= drawn <= len(self._rows):
            raise ValueError(f"{drawn!r} images of a round of {len(self._rows)} cannot have been drawn")
        self._generator.bit_generator.state = state["round"]
        self._begin_round()
        self._drawn = drawn
