"""Paths of runs: a folder of the user, or one in the package. This module does not import torch."""

import os
from pathlib import Path

import tpn
from tpn.errors import TPNError

SHIPPED = Path(tpn.__file__).parent / "weights"
"""Runs that ship with the package, without their checkpoints."""
CONFIG = "config.json"


def run_folder(name: str | os.PathLike[str]) -> Path:
    """Return the run folder at this path or, if there is none, that of a run of this name in the package."""
    folder, shipped = Path(name), SHIPPED / os.fspath(name)
    in_package = shipped.parent == SHIPPED and (shipped / CONFIG).is_file()
    return shipped if in_package and not (folder / CONFIG).is_file() else folder


def ships(name: str) -> bool:
    """Return whether a run of this name is part of the package."""
    return (SHIPPED / name / CONFIG).is_file()


def check_run(name: str | os.PathLike[str]) -> None:
    """Refuse a path that is not a run folder."""
    folder = run_folder(name)
    if not (folder / CONFIG).is_file():
        problem = "is not a run folder: it has no config.json" if folder.is_dir() else "does not exist"
        raise TPNError(f"{folder} {problem}. `tpn train` writes run folders.")
