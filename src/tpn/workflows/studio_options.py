"""The options of `tpn.studio` and `tpn studio`. Nothing here needs torch or NumPy: `--help` answers at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from tpn.errors import TPNError
from tpn.labelling.label_lists import KnownLabels
from tpn.workflows.label_options import Array, SessionOptions
from tpn.workflows.options import CacheOptions, Flag

HIGHEST_PORT = 65_535


@dataclass(frozen=True, kw_only=True)
class StudioOptions(CacheOptions, SessionOptions):
    """How to open a folder in the studio."""

    labels: Annotated[KnownLabels, arg(constructor=tuple[Path, ...], metavar="FILE ...")] = ()
    """Lists of labels to begin with, as for tpn label; they are added to the session. By default, labelled images are
    in a sub-folder for each class (if there are any)."""
    backbone: str | None = None
    """The network, as for tpn label (default: the best at hand)."""
    features: Annotated[str | Path | Array | None, arg(constructor=Path, metavar="FILE")] = None
    """Features that you have already, instead of a network's: a matrix (.npy; in Python also an array) with a row for
    each image, in the order of their paths."""
    host: str = "127.0.0.1"
    """The address to listen on. Any other than 127.0.0.1 can be reached by other computers: whoever knows the printed
    address, with its token, can see the images and change labels, and the connection is not encrypted."""
    port: int = 0
    """The port to listen on (default: any that is free)."""
    no_browser: Flag = False
    """Print the address only; do not open the browser."""
    threads: int | None = None
    """Number of CPU threads (default: all cores)."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= HIGHEST_PORT:
            raise TPNError(f"--port must be from 0 to {HIGHEST_PORT}, not {self.port}.")
        if self.threads is not None and self.threads < 1:
            raise TPNError(f"--threads must be at least 1, not {self.threads}.")
