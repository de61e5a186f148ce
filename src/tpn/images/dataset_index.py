"""The dataset index: the classes of each split and the images of each class, before any image is decoded."""

import warnings
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tpn.errors import TPNError, TPNWarning
from tpn.text import as_text, counted

SPLITS = ("train", "val", "test")
NAMED = 3
"""The number of examples that are named for each kind of problem."""


@runtime_checkable
class Reader(Protocol):
    """Reads images from a source."""

    def read(self, keys: Collection[Any]) -> Iterator[tuple[Any, "bytes | np.ndarray | Exception"]]:
        """Yield these images in any order: the bytes of a file, pixels, or the error that reading it raised."""

    def describe(self, key: Any) -> str:
        """Name an image in a message."""


class Problems:
    """Problems of a source that do not prevent its use: counted by kind, with the first few of each named."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[int, list[str]]] = {}

    def add(self, kind: str, example: str, count: int = 1) -> None:
        """Add a problem of a kind, such as 'images cannot be read'."""
        known, examples = self._kinds.get(kind, (0, []))
        self._kinds[kind] = (known + count, [*examples, example] if len(examples) < NAMED else examples)

    @property
    def sentences(self) -> list[str]:
        """One sentence for each kind of problem."""
        return [
            f"{counted(count, kind)}: {'; '.join(examples)}{' …' if count > len(examples) else ''}"
            for kind, (count, examples) in self._kinds.items()
        ]


@dataclass
class SplitIndex:
    """The classes of a split and the keys of their images."""

    reader: Reader
    classes: Mapping[str, Sequence[Hashable]]

    @property
    def counts(self) -> dict[str, int]:
        """The number of images of each class."""
        return {class_: len(keys) for class_, keys in self.classes.items()}


@dataclass
class DatasetIndex:
    """The splits, classes and images of a source."""

    layout: str
    """The layout that was recognised, in words."""
    splits: dict[str, SplitIndex]
    problems: Problems = field(default_factory=Problems)
    """What is left out, or refused under --strict."""
    remarks: list[str] = field(default_factory=list)
    """Worth knowing, but not a problem."""

    def tidy(self, source: str) -> None:
        """Sort splits and classes, leave out empty ones, and refuse a class in two splits."""
        for name in list(self.splits):
            split = self.splits[name]
            names = {as_text(class_): class_ for class_ in split.classes}
            if len(names) < len(split.classes):
                raise TPNError(f"{source} has two classes whose names look the same.")
            split.classes = {text: split.classes[class_] for text, class_ in names.items()}
            for class_, keys in split.classes.items():
                if not keys:
                    self.problems.add("classes have no images and are left out", f"{class_!r} ({name})")
            split.classes = {class_: keys for class_, keys in sorted(split.classes.items()) if keys}
            if not split.classes:
                del self.splits[name]
        self.splits = {name: self.splits[name] for name in SPLITS if name in self.splits}
        if not self.splits:
            why = f" {'. '.join(self.problems.sentences)}." if self.problems.sentences else ""
            raise TPNError(f"{source} has no images that belong to a class.{why}")
        check_disjoint(
            {name: split.classes for name, split in self.splits.items()},
            source,
            "If these are ordinary training and test images of the same classes, put all class folders side by side "
            "into one folder: tpn then assigns each class to a split.",
        )


def check_disjoint(splits: Mapping[str, Iterable[str]], source: str, advice: str) -> None:
    """Refuse a class that is in two splits: the classes of a test must not have been trained on."""
    home: dict[str, str] = {}
    for name, classes in splits.items():
        for class_ in classes:
            if class_ in home:
                raise TPNError(
                    f"The class {class_!r} is in two splits of {source}, {home[class_]} and {name}. Few-shot methods "
                    f"are tested on classes that they have never seen, so a class belongs to one split only. {advice}"
                )
            home[class_] = name


def warn_of(sentences: Iterable[str], source: str) -> None:
    """Issue a warning for each sentence."""
    for sentence in sentences:
        warnings.warn(f"{source}: {sentence}", TPNWarning, stacklevel=3)
