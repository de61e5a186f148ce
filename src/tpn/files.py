"""Writing files so that a reader never meets half of one, whatever happens while they are written."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tpn.errors import TPNError

UNFINISHED = ".part"
LOCK = ".lock"
"""The file that marks a folder as being written. Hidden, so that no check takes it for content."""


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to be written that takes `path`'s place only when it is complete and on the disk.

    Until then whatever was at `path` stays; a process killed half-way leaves at most a `.part` file beside it.
    """
    path = check_target(path)
    if path.exists() and not path.is_file():  # a device or a pipe: nothing to replace
        with explaining_failure(path), open(path, "wb") as stream:
            yield stream
        return
    part = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    with explaining_failure(path):
        try:
            with open(part, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(part, path)
            sync_folder(path.parent)
        finally:
            part.unlink(missing_ok=True)


def check_target(path: Path) -> Path:
    """Refuse a path that no file can be written to. Returns where a link leads."""
    with explaining_failure(path):
        path = Path(os.path.realpath(path))
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, f"There is no folder {path.parent}")
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return path


@contextmanager
def explaining_failure(path: Path) -> Iterator[None]:
    """Turn the operating system's refusal to write `path` into an error that the user can act on."""
    try:
        yield
    except OSError as failure:
        raise TPNError(
            f"Cannot write {path}: {failure.strerror or failure}. Nothing that was there before is lost; "
            "make room or choose a place that can be written, and run the command again."
        ) from failure


def sync_folder(folder: Path) -> None:
    """Make a rename inside `folder` survive a power cut, where the system can do that."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    try:
        os.fsync(handle)
    except OSError:  # some network file systems cannot
        pass
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`, all of it or nothing."""
    with replacing(path) as stream:
        stream.write(text.encode())


def write_json(path: Path, content: Any) -> None:
    """Write `content` as readable JSON to `path`, all of it or nothing."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    if not text.isascii() and not is_text(text):  # a path with bytes that are not text, which JSON can escape
        text = json.dumps(content, indent=2, allow_nan=False)
    write_text(path, text + "\n")


def is_text(text: str) -> bool:
    """Can this be written as UTF-8? Names of files need not be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from `path`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as failure:
        raise TPNError(f"Cannot read {path}: {failure.strerror or failure}.") from failure
    except (ValueError, RecursionError) as failure:
        raise TPNError(f"{path} is damaged: it is not JSON ({failure}).") from failure
    if not isinstance(content, dict):
        raise TPNError(f"{path} is damaged: it holds a JSON {type(content).__name__} where an object was expected.")
    return content


def resolved(path: Path) -> Path:
    """Where a path of the user's leads."""
    try:
        return path.expanduser().resolve()
    except (RuntimeError, OSError, ValueError) as failure:  # a user who is not there, links in a circle
        raise TPNError(f"The path {path} leads nowhere: {failure}.") from failure


@contextmanager
def holding(folder: Path, otherwise: str) -> Iterator[None]:
    """Hold a folder against other processes, or raise a TPNError with the text `otherwise` if one holds it already.

    The lock ends with the process, however that ends. A hidden file stays behind in the folder.
    """
    with file_lock(folder / LOCK, wait=False) as held:
        if not held:
            raise TPNError(otherwise)
        yield


@contextmanager
def file_lock(path: Path, wait: bool, waiting: Callable[[], None] = lambda: None) -> Iterator[bool]:
    """Lock a file, and yield whether it could be locked.

    With `wait`, wait for the process that holds the lock now, after calling `waiting`. Where no lock file can be
    written, nothing else can be written either: then there is nothing to protect, and it counts as locked.
    """
    from filelock import FileLock, Timeout  # it loads asyncio, which other commands do not need

    lock = FileLock(path, thread_local=False)
    held = True
    try:
        try:
            lock.acquire(blocking=False)
        except Timeout:
            held = wait
            if wait:
                waiting()
                lock.acquire()
    except OSError:  # a read-only folder, or a file system without locks
        pass
    try:
        yield held
    finally:
        lock.release()


def make_folder(folder: Path) -> None:
    """Create `folder` and its parents where they do not exist."""
    with explaining_failure(folder):
        folder.mkdir(parents=True, exist_ok=True)


def sweep(folder: Path) -> None:
    """Remove what processes that were killed while writing left in `folder`."""
    for part in folder.glob(f".*{UNFINISHED}"):
        part.unlink(missing_ok=True)
