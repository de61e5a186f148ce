"""Learning curves in TensorBoard, where that is installed."""

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any


class Board:
    """A TensorBoard log of a run that goes on after `episode`; nothing at all where TensorBoard is not installed.

    It is a convenience beside metrics.jsonl: if it cannot be written, training goes on without it.
    """

    def __init__(self, folder: Path, episode: int) -> None:
        self._writer: Any = None
        if find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            with suppress(OSError, UnicodeError):
                self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=episode + 1)

    def write(self, figures: dict[str, Any], episode: int) -> None:
        """Add the numbers among these figures to their curves."""
        with suppress(OSError, UnicodeError):
            for name, value in figures.items():
                if self._writer is not None and isinstance(value, float):
                    self._writer.add_scalar(name, value, episode)

    def close(self) -> None:
        with suppress(OSError, UnicodeError):
            if self._writer is not None:
                self._writer.close()
