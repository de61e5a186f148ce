"""Zip and tar archives as sets of files. Nothing is ever extracted to the path that an archive names."""

import io
import re
import stat
import tarfile
import zipfile
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from tpn.errors import TPNError
from tpn.images.archive_ends import check_tar_end, check_zip_end
from tpn.images.file_containers import DAMAGES, LARGEST_FILE, Container, Content, Folder, too_large
from tpn.images.pickles.plain_data import not_what_it_seems
from tpn.text import printable

ENCRYPTED = 0x1
"""The flag of an encrypted entry of a zip archive."""


class _Archive(Container):
    """An archive that is opened on first use."""

    @cached_property
    def _archive(self) -> Any:
        try:
            return self._opened()
        except DAMAGES as failure:
            raise TPNError(f"{self.path} is damaged: {failure}.") from failure

    @abstractmethod
    def _opened(self) -> Any: ...

    def close(self) -> None:
        if "_archive" in vars(self):  # it has been opened
            self._archive.close()


class Zip(_Archive):
    """A zip archive."""

    kind = "zip archive"

    def _opened(self) -> zipfile.ZipFile:
        archive = zipfile.ZipFile(self.path)
        try:
            check_zip_end(archive, self.path)
        except TPNError:
            archive.close()
            raise
        return archive

    @cached_property
    def _entries(self) -> dict[str, zipfile.ZipInfo]:
        entries = {}
        for entry in self._archive.infolist():
            if not entry.filename:
                raise TPNError(f"{self.path} is damaged: one of its entries has no name.")
            name = _plain(entry.filename)
            _check_name(name, self.path)
            if stat.S_ISLNK(entry.external_attr >> 16):
                raise _link(name, self.path)
            if not entry.is_dir():
                if name in entries:
                    self.repeated.append(name)
                entries[name] = entry
            elif entry.file_size:
                raise TPNError(f"{self.path} is damaged: its entry {printable(name)!r} is a folder with content.")
        return entries

    def _list(self) -> Iterable[str]:
        return self._entries

    def open(self, name: str) -> io.BufferedIOBase:
        return cast(io.BufferedIOBase, self._archive.open(self._entries[name]))

    def size(self, name: str) -> int:
        return self._entries[name].file_size

    def read(self, names: Collection[str]) -> Iterator[tuple[str, Content]]:
        for name in sorted(names, key=lambda name: self._entries[name].header_offset):
            yield name, self._read(self._entries[name])

    def _read(self, entry: zipfile.ZipInfo) -> Content:
        if entry.flag_bits & ENCRYPTED:
            return OSError("it is encrypted")
        if entry.file_size > LARGEST_FILE:
            return too_large(entry.file_size)
        try:
            return cast(bytes, self._archive.read(entry))
        except Exception as failure:  # a damaged entry: zlib, lzma and zipfile all have their own errors
            return OSError(f"damaged in the archive ({failure})")


class Tar(_Archive):
    """A tar archive, compressed or not."""

    kind = "tar archive"

    def _opened(self) -> tarfile.TarFile:
        return tarfile.open(self.path)

    @cached_property
    def _members(self) -> dict[str, tarfile.TarInfo]:
        members = {}
        try:
            for member in self._archive:
                name = _plain(member.name)
                _check_name(name, self.path)
                if member.islnk() or member.issym():
                    raise _link(name, self.path)
                if member.isfile():
                    if name in members:
                        self.repeated.append(name)
                    members[name] = member
                elif not member.isdir():
                    raise TPNError(f"{self.path} is refused: its entry {printable(name)!r} is not a regular file.")
            check_tar_end(self._archive, self.path)
        except DAMAGES as failure:
            raise TPNError(f"{self.path} is damaged: {failure}.") from failure
        return members

    def _list(self) -> Iterable[str]:
        return self._members

    def open(self, name: str) -> io.BufferedIOBase:
        return cast(io.BufferedIOBase, self._archive.extractfile(self._members[name]))

    def size(self, name: str) -> int:
        return self._members[name].size

    def read(self, names: Collection[str]) -> Iterator[tuple[str, Content]]:
        for name in sorted(names, key=lambda name: self._members[name].offset_data):
            yield name, _read_member(self._archive, self._members[name])


class TarsOfClasses:
    """Images in tar archives inside a container, one archive per class, as ILSVRC-2012 is distributed."""

    def __init__(self, outer: Container, archives: dict[str, str]) -> None:
        """`archives` maps each class to the name of its archive in `outer`."""
        self.outer, self.archives = outer, archives
        self.repeated: list[str] = []

    @cached_property
    def names(self) -> list[str]:
        """class/file of every image, sorted."""
        count = Counter(f"{class_}/{Path(member.name).name}" for class_, _, member in self._members())
        self.repeated = [name for name, times in count.items() if times > 1]
        return sorted(count)

    def describe(self, name: str) -> str:
        return self.outer.describe(name)

    def read(self, names: Collection[str]) -> Iterator[tuple[str, Content]]:
        wanted = set(names)
        for class_, images, member in self._members():
            if (name := f"{class_}/{Path(member.name).name}") in wanted:
                yield name, _read_member(images, member)

    def _members(self) -> Iterator[tuple[str, tarfile.TarFile, tarfile.TarInfo]]:
        for class_, archive in self.archives.items():
            try:
                with self.outer.open(archive) as stream, tarfile.open(fileobj=stream, mode="r:") as images:
                    for member in images:
                        _check_name(member.name, self.outer.path)
                        if member.isfile():
                            yield class_, images, member
                    check_tar_end(images, self.outer.describe(archive))
            except DAMAGES as failure:
                where = self.outer.describe(archive)
                raise TPNError(f"{where}, the archive of the class {class_}, is damaged: {failure}.") from failure


def open_container(path: Path) -> Container:
    """Open the folder or archive at a path."""
    if path.is_dir():
        return Folder(path)
    if not path.exists():
        raise TPNError(f"{path} does not exist.")
    if not path.is_file():
        raise TPNError(f"{path} is neither a file nor a folder.")
    try:
        with path.open("rb") as stream:
            start = stream.read(512)
        if reason := not_what_it_seems(start):
            raise TPNError(f"{path} is not an archive: {reason}")
        if start.startswith(b"PK") and zipfile.is_zipfile(path):  # a tar that contains a zip passes is_zipfile, too
            return Zip(path)
        if tarfile.is_tarfile(path):
            return Tar(path)
    except OSError as failure:
        raise TPNError(f"Cannot read {path}: {failure.strerror or failure}.") from failure
    except DAMAGES as failure:  # a compressed archive that is cut off within its first block
        raise TPNError(f"{path} is damaged: {failure}.") from failure
    raise TPNError(f"{path} is not a folder, a zip archive or a tar archive, or it is damaged.")


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Content:
    if member.size > LARGEST_FILE:
        return too_large(member.size)
    try:
        with cast(io.BufferedIOBase, archive.extractfile(member)) as stream:
            content = stream.read()
        return content if len(content) == member.size else OSError("the archive ends within it")
    except DAMAGES as failure:
        return OSError(f"damaged in the archive ({failure})")


def _plain(name: str) -> str:
    """Remove the ./ that some programs put before names."""
    return re.sub(r"^(\./)+", "", name)


def _check_name(name: str, archive: Path) -> None:
    """Refuse an archive with an entry that points outside of it, which only malicious archives have."""
    parts = re.split(r"[/\\]", name)
    if name.startswith(("/", "\\")) or ".." in parts or re.match(r"[A-Za-z]:", name) or "\0" in name:
        raise TPNError(f"{archive} is refused: its entry {printable(name)!r} points outside of the archive.")


def _link(name: str, archive: Path) -> TPNError:
    return TPNError(
        f"{archive} is refused: its entry {printable(name)!r} is a link. Archive the images themselves, "
        "or extract the archive if you trust it, and give the folder."
    )
