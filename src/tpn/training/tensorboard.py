"""A TensorBoard log of a training, if TensorBoard is installed."""

import json
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tpn.methods._method import Learned

STEPS_PER_POINT = 10
"""Training steps averaged in one point of the training curves."""


class TensorBoard:
    """Log of curves, settings and an episode of a run; does nothing if TensorBoard is not installed.

    It complements metrics.jsonl: if it cannot be written, training continues without it.
    """

    def __init__(self, folder: Path, episode: int, settings: dict[str, Any]) -> None:
        self._writer: Any = None
        self._steps: list[Learned] = []
        if find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            with suppress(OSError, UnicodeError):
                self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=episode + 1)
                self._writer.add_text("settings", f"```json\n{json.dumps(settings, indent=2)}\n```", episode)

    def step(self, learned: Learned, episode: int) -> None:
        """Add a training step to the training curves."""
        self._steps.append(learned)
        if len(self._steps) >= STEPS_PER_POINT:
            mean = Learned.mean(self._steps)
            self._steps = []
            self._add("train/loss", mean.loss, episode)
            self._add("train/accuracy", mean.accuracy, episode)

    def validation(self, metrics: dict[str, Any]) -> None:
        """Add a validation to the validation curves."""
        for name, tag in (("val_accuracy", "val/accuracy"), ("val_ci95", "val/ci95"), ("lr", "train/lr")):
            if metrics[name] is not None:
                self._add(tag, metrics[name], metrics["episode"])

    def figure(self, name: str, figure: Any, episode: int) -> None:
        """Add a matplotlib figure."""
        with suppress(OSError, UnicodeError):
            if self._writer is not None:
                self._writer.add_figure(name, figure, episode)

    @property
    def writes(self) -> bool:
        """Whether there is a log to write to."""
        return self._writer is not None

    def close(self) -> None:
        with suppress(OSError, UnicodeError):
            if self._writer is not None:
                self._writer.close()

    def _add(self, name: str, value: float, episode: int) -> None:
        with suppress(OSError, UnicodeError):
            if self._writer is not None:
                self._writer.add_scalar(name, value, episode)
