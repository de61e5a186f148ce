"""What a report is made of, whatever it is written as."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Heading:
    """The title of what follows."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """A few sentences; a warning if they must not be overlooked."""

    text: str
    warning: bool = False


@dataclass(frozen=True)
class Entry:
    """A number in a table, with what stands below it in smaller type."""

    text: str
    below: tuple[str, ...] = ()
    best: bool = False


@dataclass(frozen=True)
class Grid:
    """A table. A row begins with its name."""

    header: tuple[str, ...]
    rows: tuple[tuple[str | Entry, ...], ...]
    folded: bool = False
    """Is it for those who want to know more?"""


@dataclass(frozen=True)
class Image:
    """A drawing."""

    name: str
    """Of its file, without the ending."""
    title: str
    png: bytes
    svg: str


@dataclass(frozen=True)
class Command:
    """What was typed."""

    text: str


Part: TypeAlias = Heading | Paragraph | Grid | Image | Command


@dataclass(frozen=True)
class Document:
    """A report."""

    title: str
    parts: tuple[Part, ...]
