"""Where runs lie: in a folder of the user's, or in the package. Nothing here needs torch."""

import os
from pathlib import Path

import tpn
from tpn.errors import TPNError

SHIPPED = Path(tpn.__file__).parent / "weights"
"""Runs that come with the package, without what resuming would need."""
CONFIG = "config.json"


def run_folder(name: str | os.PathLike[str]) -> Path:
    """Return the run folder of this name or, if it is not one, that of a run of this name in the package."""
    folder, shipped = Path(name), SHIPPED / os.fspath(name)
    in_package = shipped.parent == SHIPPED and (shipped / CONFIG).is_file()
    return shipped if in_package and not (folder / CONFIG).is_file() else folder


def check_run(name: str | os.PathLike[str]) -> None:
    """Refuse what is not a run folder."""
    folder = run_folder(name)
    if not (folder / CONFIG).is_file():
        there = "is not a run folder: it has no config.json" if folder.is_dir() else "does not exist"
        raise TPNError(f"{folder} {there}. A run folder is what `tpn train` writes.")
