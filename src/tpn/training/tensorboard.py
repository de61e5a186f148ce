"""A TensorBoard log of a training, if TensorBoard is installed."""

import json
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tpn.methods._method import Learned

STEPS_PER_POINT = 10
"""Training steps averaged in one point of the training curves."""


class TensorBoard:
    """Log of curves, settings and an episode of a run; does nothing if TensorBoard is not installed.

    It complements metrics.jsonl: if it cannot be written, training continues without it. It is opened when there is
    something to write, so that a finished run that is resumed stays as it is.
    """

    def __init__(self, folder: Path, episode: int, settings: dict[str, Any]) -> None:
        self._folder, self._episode, self._settings = folder, episode, settings
        self._writer: Any = None
        self._steps: list[Learned] = []
        self._works = find_spec("tensorboard") is not None

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
        self._write(lambda writer: writer.add_figure(name, figure, episode))

    @property
    def writes(self) -> bool:
        """Whether there is a log to write to."""
        return self._writer is not None

    def close(self) -> None:
        if self._writer is not None:
            self._write(lambda writer: writer.close())
        self._writer = None

    def _add(self, name: str, value: float, episode: int) -> None:
        self._write(lambda writer: writer.add_scalar(name, value, episode))

    def _write(self, write: Callable[[Any], None]) -> None:
        """Write to the log; give it up if that fails, on a full or read-only disk."""
        if not self._works:
            return
        try:
            if self._writer is None:
                self._writer = self._opened()
            write(self._writer)
        except Exception:  # the writer is another package's, and raises errors of all kinds
            self._works, self._writer = False, None

    def _opened(self) -> Any:
        from torch.utils.tensorboard import SummaryWriter

        _silence_writing_threads()
        writer = SummaryWriter(str(self._folder / "tensorboard"), purge_step=self._episode + 1)
        writer.add_text("settings", f"```json\n{json.dumps(self._settings, indent=2)}\n```", self._episode)
        return writer


def _silence_writing_threads() -> None:
    """Keep the thread of TensorBoard from printing a traceback if it cannot write; `_write` learns of it next time."""
    before = threading.excepthook
    if getattr(before, "silences_tensorboard", False):
        return

    def hook(failure: Any) -> None:
        if type(failure.thread).__module__.partition(".")[0] != "tensorboard":
            before(failure)

    hook.silences_tensorboard = True  # type: ignore[attr-defined]
    threading.excepthook = hook
