"""Atomic writing of files, and locks."""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tpn.errors import TPNError
from tpn.leftovers import UNFINISHED, in_use, remove_leftovers, unfinished

LARGEST_TEXT = 2**28
"""The most bytes of a JSON file or a list."""
LOCK = ".lock"
"""The lock file of a folder. It is hidden, so that checks do not mistake it for content."""


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces `path` only once it is complete and on disk.

    Until then any file at `path` stays; a process killed half-way leaves at most a `.part` file beside it, which the
    next one that writes `path` removes.
    """
    path = check_target(path)
    if path.exists() and not path.is_file():  # a device or a pipe cannot be replaced
        with explaining_failure(path), open(path, "wb") as stream:
            yield stream
        return
    remove_leftovers(path)
    part = unfinished(path)
    with explaining_failure(path):
        try:
            with open(part, "wb") as stream, in_use(part):
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(part, path)
            sync_folder(path.parent)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def building(folder: Path) -> Iterator[Path]:
    """Yield a new hidden folder that becomes `folder`, which must be empty or missing, once it is complete.

    A process killed half-way leaves at most the hidden folder, which the next one that builds `folder` removes.
    """
    remove_leftovers(folder)
    part = unfinished(folder)
    shutil.rmtree(part, ignore_errors=True)  # of an earlier process of the same number
    make_folder(part)
    try:
        with explaining_failure(folder), in_use(part):
            yield part
            if folder.is_dir():
                folder.rmdir()
            os.rename(part, folder)
            sync_folder(folder.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def check_target(path: Path) -> Path:
    """Return the path with links resolved; refuse it if no file can be written there."""
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
    """Turn an OSError on writing `path` into a TPNError that the user can act on."""
    try:
        yield
    except OSError as failure:
        raise TPNError(
            f"Cannot write {path}: {failure.strerror or failure}. Nothing that was there before is lost; "
            "free some space or choose a writable location, and run the command again."
        ) from failure


def sync_folder(folder: Path) -> None:
    """Make a rename inside `folder` survive a power failure, where the system supports it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows cannot open folders
        return
    try:
        os.fsync(handle)
    except OSError:  # some network file systems cannot
        pass
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically."""
    with replacing(path) as stream:
        stream.write(text.encode())


def write_json(path: Path, content: Any) -> None:
    """Write `content` to `path` as indented JSON, atomically."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    if not text.isascii() and not is_text(text):  # a path with invalid Unicode, which JSON can escape
        text = json.dumps(content, indent=2, allow_nan=False)
    write_text(path, text + "\n")


def is_text(text: str) -> bool:
    """Return whether the text can be encoded as UTF-8; file names need not be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from `path`."""
    try:
        content = json.loads(read_limited(path).decode("utf-8"))
    except OSError as failure:
        raise TPNError(f"Cannot read {path}: {failure.strerror or failure}.") from failure
    except (ValueError, RecursionError) as failure:
        raise TPNError(f"{path} is damaged: it is not JSON ({failure}).") from failure
    if not isinstance(content, dict):
        raise TPNError(f"{path} is damaged: it holds a JSON {type(content).__name__} where an object was expected.")
    return content


def read_limited(path: Path, most: int = LARGEST_TEXT) -> bytes:
    """Read a file of at most so many bytes; a device can have any number."""
    with open(path, "rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise TPNError(f"{path} is too large: more than {most:,} bytes.")
    return content


def find_folder(folder: Path) -> Path:
    """Return the absolute path of a folder, which must exist."""
    path = resolved(folder)
    if not path.is_dir():
        raise TPNError(f"{folder} {'is a file, not a folder' if path.exists() else 'does not exist'}.")
    return path


def resolved(path: Path) -> Path:
    """Return the absolute path, with ~ and links resolved."""
    try:
        return path.expanduser().resolve()
    except (RuntimeError, OSError, ValueError) as failure:  # an unknown user, or circular links
        raise TPNError(f"The path {path} cannot be resolved: {failure}.") from failure


@contextmanager
def holding(folder: Path, otherwise: str) -> Iterator[None]:
    """Lock a folder, or raise a TPNError with the text `otherwise` if another process has locked it.

    The lock ends with the process, however that ends. A hidden file remains in the folder.
    """
    with file_lock(folder / LOCK, wait=False) as held:
        if not held:
            raise TPNError(otherwise)
        yield


@contextmanager
def file_lock(path: Path, wait: bool, waiting: Callable[[], None] = lambda: None) -> Iterator[bool]:
    """Lock a file, and yield whether it could be locked.

    With `wait`, call `waiting` if another process holds the lock, and wait for it. Where no lock file can be written,
    nothing else can be written either: then there is nothing to protect, and the file counts as locked.
    """
    from filelock import FileLock, Timeout  # imports asyncio, which other commands do not need

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
    """Remove incomplete files that killed processes left in `folder`."""
    for part in folder.glob(f".*{UNFINISHED}"):
        part.unlink(missing_ok=True)
