"""The images of a folder, and the labels that are known, from sub-folders or lists."""

import os
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tpn.errors import TPNError
from tpn.files import find_folder
from tpn.images.dataset_index import Problems
from tpn.images.file_containers import Folder
from tpn.images.layouts import NOT_IMAGES, is_image
from tpn.labelling.label_lists import KnownLabel, KnownLabels, label_files, read_labels
from tpn.text import as_text, printable

UNLABELLED_FOLDERS = {"unlabelled", "unlabeled", "_unlabeled"}
"""Sub-folders that are not classes."""

GUESSES = "rows are guesses (confidence below 1), not labels; to confirm one, change its confidence to 1"
OVERRIDDEN = "images have another label in an earlier list; the later list counts"


@dataclass
class LabelledFolder:
    """The images of a folder, and the labels of some of them."""

    path: Path
    names: list[str]
    """Paths relative to the folder, with / between parts."""
    labels: dict[str, str]
    """Name -> label."""
    problems: Problems = field(default_factory=Problems)

    @property
    def classes(self) -> list[str]:
        return sorted(set(self.labels.values()))

    def check(self) -> None:
        """Refuse labels that are too few to tell classes apart."""
        if not self.labels:
            raise TPNError(f"None of the {len(self.names):,} images in {self.path} has a label: label some of them.")
        if len(self.classes) < 2:
            raise TPNError(
                f"All labels are {self.classes[0]!r}: there must be at least two classes. Label another class too."
            )


def find_images(folder: Path) -> LabelledFolder:
    """Find the images in a folder and below; none of them has a label yet."""
    path = find_folder(folder)
    container = Folder(path)
    found = LabelledFolder(path, [], {})
    for name in container.names:
        if is_image(name):
            found.names.append(name)
        else:
            found.problems.add(NOT_IMAGES, printable(name))
    for why in container.unreadable:
        found.problems.add("folders cannot be read", printable(why))
    if not found.names:
        why = f" {'. '.join(found.problems.sentences)}." if found.problems.sentences else ""
        raise TPNError(f"There are no images in {folder}.{why}")
    return found


def read_known_labels(images: LabelledFolder, labels: KnownLabels, needed: bool = True) -> None:
    """Take the known labels from lists or, if there are none, from sub-folders; if `needed`, refuse too few."""
    if label_files(labels) == []:
        label_by_folders(images, needed)
    else:
        label_by_list(images, labels)
    if needed:
        images.check()


def label_by_folders(images: LabelledFolder, needed: bool = True) -> None:
    """Take the first folder of a path as the label; images outside, or in `unlabelled`, have none."""
    for name in images.names:
        folder, inside, _ = name.partition("/")
        if inside and folder.lower() not in UNLABELLED_FOLDERS:
            images.labels[name] = as_text(folder)
    if not needed:
        return
    if not images.labels:
        raise TPNError(
            f"{images.path} has no class sub-folders: name a list of labels with --labels FILE.csv (columns path and "
            "label), or put labelled images into a sub-folder for each class. To begin without any label, --suggest 20 "
            "lists images to label first, and `tpn studio` shows them in the browser."
        )
    if len(images.labels) == len(images.names):
        raise TPNError(
            f"All {len(images.names):,} images in {images.path} lie in class sub-folders, so all have a label. "
            "Put those to be labelled beside these folders, or into one called `unlabelled`; or give --labels."
        )


def label_by_list(images: LabelledFolder, labels: KnownLabels) -> None:
    """Take labels from lists or, in Python, from a mapping, pairs or a table.

    Later lists override earlier ones, with a note; two labels of an image in one list are refused. Rows that
    `tpn label` has written as guesses are no labels.
    """
    finder = PathFinder(images)
    missing, unknown = Problems(), 0
    found: dict[str, KnownLabel] = {}
    for known in read_labels(labels):
        name = finder.find(known.path)
        if name is None:
            unknown += 1
            missing.add("images with a label are missing", f"{printable(known.path)} ({known.where})")
            continue
        if known.guess:
            images.problems.add(GUESSES, f"{printable(name)} ({known.where})")
            continue
        before = found.get(name)
        if before is not None and before.label != known.label:
            if before.source == known.source:
                raise TPNError(
                    f"{printable(name)} has two labels: {before.label!r} ({before.where}) and {known.label!r} "
                    f"({known.where}). Remove one."
                )
            change = f"{printable(name)}: {printable(before.label)}, now {printable(known.label)} ({known.where})"
            images.problems.add(OVERRIDDEN, change)
        found[name] = known
    if unknown:
        raise TPNError(f"In {images.path}, {missing.sentences[0]}. Paths are relative to the folder: correct the list.")
    images.labels.update({name: known.label for name, known in found.items()})


class PathFinder:
    """Finds the image that a path in a list refers to."""

    def __init__(self, images: LabelledFolder) -> None:
        self.root, self.names = images.path, set(images.names)
        self.is_root: dict[PurePosixPath, bool] = {}
        self.composed = {unicodedata.normalize("NFC", as_text(name)): name for name in images.names}

    def find(self, path: str) -> str | None:
        """Find a path, relative to the folder or absolute; spaces around it, \\ for / and Unicode forms do not matter.

        Returns None if there is no such image.
        """
        for candidate in (path, path.strip(), path.strip().replace("\\", "/")):
            name = PurePosixPath(os.path.normpath(candidate)).as_posix()
            if os.path.isabs(candidate):
                name = self._below_root(name)
            if name in self.names:
                return name
            if (composed := self.composed.get(unicodedata.normalize("NFC", name))) is not None:
                return composed
        return None

    def _below_root(self, path: str) -> str:
        """Make an absolute path relative to the folder. Links may lead to the folder, and out of it."""
        for parent in PurePosixPath(path).parents:
            if parent not in self.is_root:
                try:
                    self.is_root[parent] = Path(parent).resolve() == self.root
                except (ValueError, OSError, RuntimeError):
                    self.is_root[parent] = False
            if self.is_root[parent]:
                return PurePosixPath(path).relative_to(parent).as_posix()
        return path
