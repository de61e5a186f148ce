"""Named files in a folder or an archive: what both have in common, and folders."""

import hashlib
import io
import lzma
import mmap
import os
import shutil
import stat
import tarfile
import tempfile
import time
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from tpn.errors import TPNError
from tpn.progress import SECONDS_BETWEEN_LINES, say
from tpn.text import printable, size_text

LARGEST_FILE = 2**28
"""Larger files (in bytes) are not read as images."""
DEEPEST = 10
"""Folders nested more deeply are ignored."""
DAMAGES = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
    EOFError, OSError, ValueError, NotImplementedError, RuntimeError,
)  # fmt: skip
"""The errors that reading a damaged or encrypted archive raises."""

Content = bytes | Exception
"""The bytes of a file, or the error that reading it raised."""


class Container(ABC):
    """A set of files, with names relative to the container and separated by /."""

    kind: str

    def __init__(self, path: Path) -> None:
        self.path = path
        self.empty_folders: list[str] = []
        self.unreadable: list[str] = []
        self.repeated: list[str] = []
        """Names of several entries of an archive, of which the last is used."""

    @cached_property
    def names(self) -> list[str]:
        """The names of all files that are not hidden, sorted."""
        return sorted(name for name in self._list() if not _hidden(name))

    @abstractmethod
    def _list(self) -> Iterable[str]: ...

    @abstractmethod
    def open(self, name: str) -> io.BufferedIOBase:
        """Open one of the files."""

    @abstractmethod
    def size(self, name: str) -> int:
        """Return its size in bytes, uncompressed."""

    @abstractmethod
    def read(self, names: Collection[str]) -> Iterator[tuple[str, Content]]:
        """Yield the contents of these files, in the order that is fastest to read."""

    def close(self) -> None:  # noqa: B027 (not every container has something to close)
        """Close the files that are open."""

    @cached_property
    def fingerprint(self) -> str:
        """A digest of sizes and modification times, which changes with the content."""
        return _digest([_facts(self.path)])

    def describe(self, name: str) -> str:
        """Name a file in a message."""
        return f"{printable(name)} in {self.path.name}"

    def read_text(self, name: str) -> str:
        """Read a small text file."""
        try:
            with self.open(name) as stream:
                content = stream.read(LARGEST_FILE + 1)
            if len(content) > LARGEST_FILE:
                raise TPNError(f"{self.describe(name)} is too large for a list.")
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as failure:
            raise TPNError(f"{self.describe(name)} is not text in UTF-8 ({failure}).") from failure
        except DAMAGES as failure:
            raise TPNError(f"{self.describe(name)} cannot be read: {failure}.") from failure

    def mapped(self, name: str) -> memoryview:
        """Memory-map a large file. One inside an archive is extracted to an anonymous temporary file first."""
        if self.size(name) > shutil.disk_usage(tempfile.gettempdir()).free:
            raise TPNError(
                f"{self.describe(name)} needs {size_text(self.size(name))}, and {tempfile.gettempdir()} has less free "
                "space. Extract the archive, and give the folder."
            )
        try:
            with tempfile.TemporaryFile() as copy, self.open(name) as stream:
                while block := stream.read(2**20):
                    copy.write(block)
                return _map(copy)
        except DAMAGES as failure:
            raise TPNError(f"{self.describe(name)} cannot be read: {failure}.") from failure


class Folder(Container):
    """A folder with everything below it; links are followed."""

    kind = "folder"

    def _list(self) -> Iterable[str]:
        def unreadable(failure: OSError) -> None:
            self.unreadable.append(f"{failure.filename}: {failure.strerror}")

        count, told = 0, time.monotonic()
        for folder, below, files in os.walk(self.path, followlinks=True, onerror=unreadable):
            count += len(files)
            if time.monotonic() - told > SECONDS_BETWEEN_LINES:
                told = time.monotonic()
                say(f"Looking for images in {self.path}: {count:,} files so far, now in {printable(folder)}")
            relative = Path(folder).relative_to(self.path)
            if len(relative.parts) > DEEPEST or _leads_up(folder, self.path):
                below.clear()
                continue
            below[:] = sorted(name for name in below if not name.startswith("."))
            if not below and not any(not name.startswith(".") for name in files):
                self.empty_folders.append(relative.as_posix())
            before = "" if folder == str(self.path) else f"{relative.as_posix()}/"
            for name in files:
                yield before + name

    @cached_property
    def fingerprint(self) -> str:
        return _digest(f"{name}\0{_facts(self.path / name)}" for name in self.names)

    def describe(self, name: str) -> str:
        return printable(name)

    def open(self, name: str) -> io.BufferedIOBase:
        if not stat.S_ISREG((self.path / name).stat().st_mode):  # opening a pipe would block
            raise OSError("it is not a regular file")
        return open(self.path / name, "rb")

    def size(self, name: str) -> int:
        return (self.path / name).stat().st_size

    def read(self, names: Collection[str]) -> Iterator[tuple[str, Content]]:
        for name in sorted(names):
            yield name, self._read(name)

    def _read(self, name: str) -> Content:
        try:
            place = self.path / name
            facts = place.stat()
            if not stat.S_ISREG(facts.st_mode):
                return OSError("it is not a regular file")
            if facts.st_size > LARGEST_FILE:
                return too_large(facts.st_size)
            return place.read_bytes()
        except OSError as failure:
            return OSError(failure.strerror or str(failure))

    def mapped(self, name: str) -> memoryview:
        try:
            with self.open(name) as stream:
                return _map(stream)
        except OSError as failure:
            raise TPNError(f"Cannot read {self.path / name}: {failure.strerror or failure}.") from failure


def _leads_up(folder: str, root: Path) -> bool:
    """Whether this is a link to one of its parents."""
    if Path(folder) == root:
        return False
    target, home = os.path.realpath(folder), os.path.realpath(os.path.dirname(folder))
    return os.path.commonpath([target, home]) == target


def _hidden(name: str) -> bool:
    parts = name.split("/")
    return any(part.startswith(".") or part == "__MACOSX" for part in parts) or parts[-1].lower() in _BY_SYSTEMS


_BY_SYSTEMS = {"thumbs.db", "desktop.ini", "icon\r"}
"""Files that operating systems add to folders."""


def too_large(size: int) -> OSError:
    return OSError(f"it has {size:,} bytes, more than the limit of {LARGEST_FILE:,}")


def _facts(path: Path) -> str:
    try:
        facts = path.stat()
    except OSError:
        return "unreadable"
    return f"{facts.st_size} {facts.st_mtime_ns} {facts.st_mode}"


def _digest(lines: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()[:16]


def _map(stream: Any) -> memoryview:
    stream.flush()
    if os.fstat(stream.fileno()).st_size == 0:
        return memoryview(b"")
    return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
