"""The parts of a report, whatever it is written as. The templates tell them apart by `kind`."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias


@dataclass(frozen=True)
class Heading:
    """The title of a section."""

    kind: ClassVar = "heading"
    text: str


@dataclass(frozen=True)
class Paragraph:
    """A few sentences; `warning` makes them stand out."""

    kind: ClassVar = "paragraph"
    text: str
    warning: bool = False


@dataclass(frozen=True)
class Entry:
    """A number in a table, with lines below it in smaller type."""

    text: str
    below: tuple[str, ...] = ()
    best: bool = False


@dataclass(frozen=True)
class Grid:
    """A table. The first cell of a row is its name."""

    kind: ClassVar = "grid"
    header: tuple[str, ...]
    rows: tuple[tuple[str | Entry, ...], ...]
    folded: bool = False
    """Whether the page shows it only on request."""

    def is_number(self, column: int) -> bool:
        """Return whether a column holds numbers."""
        return any(isinstance(row[column], Entry) for row in self.rows)


@dataclass(frozen=True)
class Image:
    """A chart."""

    kind: ClassVar = "image"
    name: str
    """The name of its file, without the ending."""
    title: str
    png: bytes
    svg: str


@dataclass(frozen=True)
class Command:
    """A command line."""

    kind: ClassVar = "command"
    text: str


Part: TypeAlias = Heading | Paragraph | Grid | Image | Command


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    parts: tuple[Part, ...]
