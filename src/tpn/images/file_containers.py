"""Files with names, wherever they lie: what folders and archives have in common, and folders."""

import hashlib
import io
import lzma
import mmap
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from tpn.errors import TPNError
from tpn.text import printable, size_text

LARGEST_FILE = 2**28
"""An image file of more bytes than this is not read."""
DEEPEST = 10
"""Folders in folders beyond this depth are not looked at."""
DAMAGES = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
    EOFError, OSError, ValueError, NotImplementedError, RuntimeError,
)  # fmt: skip
"""What reading a damaged or encrypted file from an archive raises."""

Content = bytes | Exception
"""A file's bytes, or why they could not be read."""


class Container(ABC):
    """Files with names, relative to the container and with / between their parts."""

    kind: str

    def __init__(self, path: Path) -> None:
        self.path = path
        self.empty_folders: list[str] = []
        self.unreadable: list[str] = []

    @cached_property
    def names(self) -> list[str]:
        """All files, hidden ones left out, sorted."""
        return sorted(name for name in self._list() if not _hidden(name))

    @abstractmethod
    def _list(self) -> Iterable[str]: ...

    @abstractmethod
    def open(self, name: str) -> io.BufferedIOBase:
        """Open one of the files."""

    @abstractmethod
    def size(self, name: str) -> int:
        """How many bytes it has, unpacked."""

    @abstractmethod
    def read(self, names: Collection[str]) -> Iterator[tuple[str, Content]]:
        """The contents of these files, in the order in which they can be read fastest."""

    def close(self) -> None:  # noqa: B027 (not every container has something to close)
        """Let go of the files that are open."""

    @cached_property
    def fingerprint(self) -> str:
        """Changes when the contents do, as far as sizes and times tell."""
        return _digest([_facts(self.path)])

    def describe(self, name: str) -> str:
        """How to call one of the files when speaking to people."""
        return f"{printable(name)} in {self.path.name}"

    def read_text(self, name: str) -> str:
        """A small text file."""
        try:
            with self.open(name) as stream:
                content = stream.read(LARGEST_FILE + 1)
            if len(content) > LARGEST_FILE:
                raise TPNError(f"{self.describe(name)} is far too large for a list.")
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as failure:
            raise TPNError(f"{self.describe(name)} is not text in UTF-8 ({failure}).") from failure
        except DAMAGES as failure:
            raise TPNError(f"{self.describe(name)} cannot be read: {failure}.") from failure

    def mapped(self, name: str) -> memoryview:
        """A large file as memory. One inside an archive is unpacked to a nameless temporary file first."""
        if self.size(name) > shutil.disk_usage(tempfile.gettempdir()).free:
            raise TPNError(
                f"{self.describe(name)} has {size_text(self.size(name))}; {tempfile.gettempdir()} has less room. "
                "Unpack the archive, and name the folder."
            )
        try:
            with tempfile.TemporaryFile() as copy, self.open(name) as stream:
                while block := stream.read(2**20):
                    copy.write(block)
                return _map(copy)
        except DAMAGES as failure:
            raise TPNError(f"{self.describe(name)} cannot be read: {failure}.") from failure


class Folder(Container):
    """A folder with all that is below it; links are followed."""

    kind = "folder"

    def _list(self) -> Iterable[str]:
        def unreadable(failure: OSError) -> None:
            self.unreadable.append(f"{failure.filename}: {failure.strerror}")

        for folder, below, files in os.walk(self.path, followlinks=True, onerror=unreadable):
            relative = Path(folder).relative_to(self.path)
            if len(relative.parts) > DEEPEST or _leads_up(folder, self.path):
                below.clear()
                continue
            below[:] = sorted(name for name in below if not name.startswith("."))
            if not below and not any(not name.startswith(".") for name in files):
                self.empty_folders.append(relative.as_posix())
            for name in files:
                yield (relative / name).as_posix()

    @cached_property
    def fingerprint(self) -> str:
        return _digest(f"{name}\0{_facts(self.path / name)}" for name in self.names)

    def describe(self, name: str) -> str:
        return printable(name)

    def open(self, name: str) -> io.BufferedIOBase:
        if not stat.S_ISREG((self.path / name).stat().st_mode):  # a pipe would wait for somebody to fill it
            raise OSError("it is no ordinary file")
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
                return OSError("it is no ordinary file")
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
    """Is this a link to a folder that it is in?"""
    if Path(folder) == root:
        return False
    target, home = os.path.realpath(folder), os.path.realpath(os.path.dirname(folder))
    return os.path.commonpath([target, home]) == target


def _hidden(name: str) -> bool:
    parts = name.split("/")
    return any(part.startswith(".") or part == "__MACOSX" for part in parts) or parts[-1].lower() in _BY_SYSTEMS


_BY_SYSTEMS = {"thumbs.db", "desktop.ini", "icon\r"}
"""Files that operating systems put among images."""


def too_large(size: int) -> OSError:
    return OSError(f"it has {size:,} bytes, more than any image should ({LARGEST_FILE:,})")


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
