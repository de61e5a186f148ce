"""Unfinished files and folders that killed processes left behind: told from those of living ones, and removed.

The unfinished form of `labels.csv` is `.labels.csv.PID.part` beside it, locked by the process that writes it.
"""

import glob
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":  # where nobody can remove a file that another process has open
    import fcntl

UNFINISHED = ".part"


def unfinished(path: Path) -> Path:
    """Return the name under which this process writes `path`, until it is complete."""
    return path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")


@contextmanager
def in_use(part: Path) -> Iterator[None]:
    """Lock an unfinished file or folder while this process writes it. The lock ends with the process."""
    if sys.platform == "win32":
        yield
        return
    handle = os.open(part, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def remove_leftovers(path: Path) -> None:
    """Remove what killed processes left of writing `path`."""
    for name in glob.glob(f".{glob.escape(path.name)}.*{UNFINISHED}", root_dir=path.parent):
        part = path.parent / name
        process = name.removesuffix(UNFINISHED).rpartition(".")[2]
        if process.isdecimal() and not _alive(int(process)) and not _is_locked(part):
            with suppress(OSError):
                if part.is_dir() and not part.is_symlink():
                    shutil.rmtree(part)
                else:
                    part.unlink()


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it belongs to somebody else
        return True
    return True


def _is_locked(part: Path) -> bool:
    """Whether a process holds it: one of another computer or container, whose number says nothing here."""
    if sys.platform == "win32":
        return False
    try:
        handle = os.open(part, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
