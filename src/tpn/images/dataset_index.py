"""What a source holds, before an image is opened: for every split its classes, for every class its images."""

import warnings
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tpn.errors import TPNError, TPNWarning
from tpn.images.split import SPLITS
from tpn.text import as_text, counted

NAMED = 3
"""So many examples of a kind of problem are named; the rest is counted."""


@runtime_checkable
class Reader(Protocol):
    """Something that images can be read from."""

    def read(self, keys: Collection[Any]) -> Iterator[tuple[Any, "bytes | np.ndarray | Exception"]]:
        """These images, in any order: the bytes of a file, decoded pixels, or why there is neither."""

    def describe(self, key: Any) -> str:
        """How to call an image when speaking to people."""


class Problems:
    """What is wrong with a source, but does not prevent its use: counted by kind, the first few of each named."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[int, list[str]]] = {}

    def add(self, kind: str, example: str, count: int = 1) -> None:
        """Note one more problem of a kind, such as 'images could not be read'."""
        known, examples = self._kinds.get(kind, (0, []))
        self._kinds[kind] = (known + count, [*examples, example] if len(examples) < NAMED else examples)

    @property
    def sentences(self) -> list[str]:
        """A sentence for each kind."""
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
        """Class -> how many images it has."""
        return {class_: len(keys) for class_, keys in self.classes.items()}


@dataclass
class DatasetIndex:
    """What a source holds."""

    layout: str
    """In which of the known forms it comes, in words."""
    splits: dict[str, SplitIndex]
    problems: Problems = field(default_factory=Problems)
    """What is left out if the user does not ask to be strict."""
    remarks: list[str] = field(default_factory=list)
    """What is worth knowing in any case."""

    def tidy(self, source: str) -> None:
        """In order: splits and classes sorted, empty ones left out, no class in two splits."""
        for name in list(self.splits):
            split = self.splits[name]
            names = {as_text(class_): class_ for class_ in split.classes}
            if len(names) < len(split.classes):
                raise TPNError(f"{source} has two classes whose names cannot be told apart.")
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


def tell(sentences: Iterable[str], source: str) -> None:
    """Tell the user of these, as a warning."""
    for sentence in sentences:
        warnings.warn(f"{source}: {sentence}", TPNWarning, stacklevel=3)
