"""What all sources of a user's images have in common."""

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

MEMBERS = {".pkl", ".pickle", ".npz", ".csv"}
"""A file of this type is one of several files of a benchmark in the same folder."""


class Source(ABC):
    """A user's images: where they are, and how to read them."""

    kind: str
    """Its name in --data."""
    image_size: int = 84
    """The default size that images are resized to."""
    labelled_share: float = 0.4
    """The default share of each training class that has labels in semi-supervised training."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def spec(self) -> str:
        return f"{self.kind}:{self.path}"

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that determines the store, except the content of the source."""
        return {"kind": self.kind, "path": as_text(str(self.path))}

    @cached_property
    def container(self) -> Container:
        """The folder or archive that holds the images."""
        if self.path.suffix in MEMBERS and self.path.is_file():  # one of several files of a benchmark
            return Folder(self.path.parent)
        return open_container(self.path)

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *_: object) -> None:
        if container := self.__dict__.pop("container", None):
            container.close()

    def index(self) -> DatasetIndex:
        """Return the dataset index, checked and sorted."""
        index = self.find()
        for failure in self.container.unreadable:
            index.problems.add("folders cannot be read", printable(failure))
        for name in self.container.empty_folders:
            index.problems.add("folders are empty", printable(name))
        for name in self.container.repeated:
            index.problems.add("entries of the archive have the name of an earlier one and replace it", printable(name))
        index.tidy(self.spec)
        index.remarks.extend(self.incompleteness(index))
        return index

    @abstractmethod
    def find(self) -> DatasetIndex:
        """Build the dataset index from the files that are found."""

    def incompleteness(self, index: DatasetIndex) -> list[str]:
        """Return a remark if a benchmark is incomplete."""
        return []

    def not_recognised(self, layouts: str) -> TPNError:
        """Return the error for a source in none of the known layouts."""
        names = self.container.names
        example = f", such as {printable(names[0])}" if names else ""
        return TPNError(
            f"{self.path} is in none of the layouts of {self.kind}: {layouts}. It has {len(names):,} files{example}."
        )

    def split_info(self, classes: Mapping[str, int]) -> SplitInfo:
        """Return the size of a split from the number of images of each class."""
        return SplitInfo(len(classes), sum(classes.values()), self.categories(list(classes)))

    def categories(self, classes: list[str]) -> int | None:
        """Return the number of categories of these classes, if the source has categories."""
        return None
