"""Learning curves in TensorBoard, where that is installed."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Board(Protocol):
    """Where scalars can be written."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None: ...
    def close(self) -> None: ...


class NoBoard:
    """TensorBoard is not installed: write nothing."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        pass

    def close(self) -> None:
        pass


def open_board(folder: Path, episode: int) -> Board:
    """A TensorBoard log that continues after `episode`."""
    if find_spec("tensorboard") is None:
        return NoBoard()
    from torch.utils.tensorboard import SummaryWriter

    writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=episode + 1)
    board: Board = writer
    return board
