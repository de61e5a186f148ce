"""The images of a folder, and what is known of them: labels from lists or from sub-folders."""

import csv
import io
import os
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tpn.errors import TPNError
from tpn.files import resolved
from tpn.images.dataset_index import Problems
from tpn.images.file_containers import Folder
from tpn.images.layouts import NOT_IMAGES, is_image
from tpn.text import as_text, printable

UNLABELLED_FOLDERS = {"unlabelled", "unlabeled"}
"""Sub-folders that are no class."""
DELIMITERS = ",;\t|"
LARGEST_LIST = 2**28


@dataclass
class LabelledFolder:
    """The images of a folder, and the labels of some of them."""

    path: Path
    names: list[str]
    """Relative to the folder, with / between parts."""
    labels: dict[str, str]
    """Name -> label."""
    problems: Problems = field(default_factory=Problems)

    @property
    def classes(self) -> list[str]:
        return sorted(set(self.labels.values()))

    def check(self) -> None:
        """Refuse what cannot be labelled."""
        if not self.labels:
            raise TPNError(f"None of the {len(self.names):,} images in {self.path} has a label: label some.")
        if len(self.classes) < 2:
            raise TPNError(
                f"All labels are {self.classes[0]!r}: there is nothing to tell apart. Label another class too."
            )


def find_images(folder: Path) -> LabelledFolder:
    """The images in a folder and everything below it, none of them labelled yet."""
    path = resolved(folder)
    if not path.is_dir():
        raise TPNError(f"{folder} {'is a file, not a folder' if path.exists() else 'does not exist'}.")
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


def label_by_folders(images: LabelledFolder) -> None:
    """The first folder of an image's path is its class; images outside, or in `unlabelled`, have none."""
    for name in images.names:
        folder, inside, _ = name.partition("/")
        if inside and folder.lower() not in UNLABELLED_FOLDERS:
            images.labels[name] = as_text(folder)
    if not images.labels:
        raise TPNError(
            f"{images.path} has no class sub-folders: name a list of labels with --labels FILE.csv (columns path and "
            "label), or put labelled images into a sub-folder for each class."
        )
    if len(images.labels) == len(images.names):
        raise TPNError(
            f"All {len(images.names):,} images in {images.path} lie in class sub-folders, so all have a label. "
            "Put those to be labelled beside these folders, or into one called `unlabelled`; or give --labels."
        )


def label_by_lists(images: LabelledFolder, lists: Iterable[Path]) -> None:
    """Labels from csv files with the columns path and label; rows without a label say nothing."""
    finder = Finder(images)
    missing, said = Problems(), dict[str, tuple[str, str]]()
    unknown = 0
    for file in lists:
        for number, path, label in read_rows(file):
            name = finder.find(path)
            where = f"{file.name}, row {number}"
            if name is None:
                unknown += 1
                missing.add("images with a label are missing", f"{printable(path)} ({where})")
            elif name in said and said[name][0] != label:
                before, place = said[name]
                raise TPNError(
                    f"{printable(name)} has two labels: {before!r} ({place}) and {label!r} ({where}). Remove one."
                )
            else:
                said[name] = (label, where)
    if unknown:
        raise TPNError(f"In {images.path}, {missing.sentences[0]}. Paths are relative to the folder: correct the list.")
    images.labels.update({name: label for name, (label, _) in said.items()})


class Finder:
    """Finds the image that a path in a list means."""

    def __init__(self, images: LabelledFolder) -> None:
        self.root, self.names = images.path, set(images.names)
        self.is_root: dict[PurePosixPath, bool] = {}
        self.composed = {unicodedata.normalize("NFC", as_text(name)): name for name in images.names}

    def find(self, path: str) -> str | None:
        """As it stands, from the folder or absolute, with spaces around it or \\ for /, composed letters or not."""
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
        """An absolute path from the folder on, which links may lead to, and which may have links inside."""
        for parent in PurePosixPath(path).parents:
            if parent not in self.is_root:
                try:
                    self.is_root[parent] = Path(parent).resolve() == self.root
                except (ValueError, OSError, RuntimeError):
                    self.is_root[parent] = False
            if self.is_root[parent]:
                return PurePosixPath(path).relative_to(parent).as_posix()
        return path


def read_rows(file: Path) -> list[tuple[int, str, str]]:
    """Row number, path and label of each row of a csv file that has a label."""
    text = read_text(file)
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(DELIMITERS, key=first.count) if any(mark in first for mark in DELIMITERS) else ","
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as failure:
        raise TPNError(f"{file} is no csv file: {failure}.") from failure
    header: list[str] | None = None
    found = []
    for number, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if header is None:
            header = [cell.lower() for cell in cells]
            if missing := [column for column in ("path", "label") if column not in header]:
                raise TPNError(
                    f"{file} has no column {missing[0]!r}: its first row must name the columns path and label, such as "
                    f"`path,label`, and it is {printable(first)[:80]!r}."
                )
            continue
        if len(cells) < len(header) and header.index("path") >= len(cells):
            raise TPNError(f"{file} is incomplete in row {number}.")
        path = row[header.index("path")]
        label = cells[header.index("label")] if header.index("label") < len(cells) else ""
        if label and not path.strip():
            raise TPNError(f"{file} has a label without a path in row {number}.")
        if label:
            found.append((number, path, label))
    return found


def read_text(file: Path) -> str:
    """A text file, in whichever encoding it is: as its first bytes say, else UTF-8, else that of Western Windows."""
    try:
        if file.stat().st_size > LARGEST_LIST:
            raise TPNError(f"{file} is far too large for a list of labels.")
        content = file.read_bytes()
    except OSError as failure:
        raise TPNError(f"Cannot read {file}: {failure.strerror or failure}.") from failure
    marks = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
    named = next((encoding for mark, encoding in marks.items() if content.startswith(mark)), None)
    for encoding in [named] if named else ["utf-8-sig", "cp1252"]:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text
    raise TPNError(f"{file} is not a text file: save it as csv in UTF-8.")
