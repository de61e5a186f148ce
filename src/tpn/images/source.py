"""What is common to all places that a user's images come from."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from tpn.errors import TPNError
from tpn.images.archives import open_container
from tpn.images.dataset_index import DatasetIndex
from tpn.images.file_containers import Container, Folder
from tpn.images.split import SplitInfo
from tpn.text import as_text, printable

PARTS = {".pkl", ".pickle", ".npz", ".csv"}
"""Files that are a part of a benchmark, the other parts being beside them."""


class Source(ABC):
    """Images of a user: where they lie, and how they are to be read."""

    kind: str
    """What --data calls it."""
    image_size: int = 84
    """The size that images are scaled to, if the user names none."""
    labelled_share: float = 0.4
    """The share of each training class that has labels, in semi-supervised training."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def spec(self) -> str:
        return f"{self.kind}:{self.path}"

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides what the store holds, but the contents of the source."""
        return {"kind": self.kind, "path": as_text(str(self.path))}

    @cached_property
    def container(self) -> Container:
        """The folder or archive that holds the images."""
        if self.path.suffix in PARTS and self.path.is_file():  # one of several files of a benchmark
            return Folder(self.path.parent)
        return open_container(self.path)

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *_: object) -> None:
        if container := self.__dict__.pop("container", None):
            container.close()

    def index(self) -> DatasetIndex:
        """What it holds, in order."""
        index = self.find()
        for failure in self.container.unreadable:
            index.problems.add("folders may not be read", printable(failure))
        for name in self.container.empty_folders:
            index.problems.add("folders are empty", printable(name))
        index.tidy(self.spec)
        index.remarks.extend(self.incompleteness(index))
        return index

    @abstractmethod
    def find(self) -> DatasetIndex:
        """What it holds, as it is found."""

    def incompleteness(self, index: DatasetIndex) -> list[str]:
        """A remark if something is missing of what everybody has."""
        return []

    def not_recognised(self, forms: str) -> TPNError:
        """What to say of a source that comes in none of the known forms."""
        names = self.container.names
        example = f", such as {printable(names[0])}" if names else ""
        return TPNError(
            f"{self.path} holds none of the forms that {self.kind} comes in: {forms}. "
            f"It has {len(names):,} files{example}."
        )

    def split_info(self, classes: Mapping[str, int]) -> SplitInfo:
        """How much is in a split of so many images in each class."""
        return SplitInfo(len(classes), sum(classes.values()), self.categories(list(classes)))

    def categories(self, classes: list[str]) -> int | None:
        """How many categories these classes fall into, where classes have such."""
        return None
