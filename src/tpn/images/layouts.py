"""Common layouts of image files: csv lists, folders of classes, and the archives of ILSVRC-2012."""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from tpn.errors import TPNError
from tpn.images.archives import TarsOfClasses
from tpn.images.dataset_index import SPLITS, DatasetIndex, Problems, SplitIndex
from tpn.images.decoding import image_suffixes
from tpn.images.file_containers import Container
from tpn.text import printable

SPLIT_FOLDERS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
"""The names of split folders."""
NOT_IMAGES = "files have no image extension and are left out"


def listed_in_csv(container: Container, where: str) -> DatasetIndex | None:
    """The Ravi layout: train.csv, val.csv and test.csv with columns filename and label, and a folder of images."""
    lists = {split: shallowest(container.names, f"{split}.csv") for split in SPLITS}
    if not all(lists.values()):
        return None
    images = _Images(container, str(PurePosixPath(lists["train"] or "").parent))
    index = DatasetIndex(f"{where} with csv lists (Ravi layout)", {})
    used: set[str] = set()
    for split, name in lists.items():
        assert name is not None, "checked above"
        classes: dict[str, list[str]] = {}
        seen: set[str] = set()
        for row, (file, label) in enumerate(read_rows(container, name, ("filename", "label")), 2):
            image = images.find(file)
            if image is None:
                index.problems.add("rows of the lists have no image", f"{split}.csv, row {row}: {printable(file)}")
            elif image in seen:
                index.problems.add("rows of the lists repeat another", f"{split}.csv, row {row}: {printable(file)}")
            else:
                classes.setdefault(label, []).append(image)
                seen.add(image)
        used |= seen
        index.splits[split] = SplitIndex(container, {label: sorted(names) for label, names in classes.items()})
    for image in sorted(images.names - used):
        index.problems.add("images are not in any list", printable(image))
    return index


class _Images:
    """Finds the image that a row of a list refers to."""

    def __init__(self, container: Container, base: str) -> None:
        self.container, self.base = container, base
        self.names = {name for name in container.names if is_image(name)}
        self.by_file_name: dict[str, list[str]] = {}
        for name in self.names:
            self.by_file_name.setdefault(PurePosixPath(name).name, []).append(name)

    def find(self, file: str) -> str | None:
        """Return the image at this path, relative to the lists or to `images`; or the only one of this file name."""
        path = PurePosixPath(file.replace("\\", "/"))
        for folder in ("images", ""):
            if (name := str(PurePosixPath(self.base, folder, path))) in self.names:
                return name
        found = self.by_file_name.get(path.name, [])
        if len(found) > 1:
            raise TPNError(
                f"{self.container.path} has several images named {printable(path.name)}, such as "
                f"{printable(min(found))} and {printable(max(found))}, and its lists do not say which one is meant."
            )
        return found[0] if found else None


def read_rows(container: Container, name: str, columns: tuple[str, str]) -> list[tuple[str, str]]:
    """Read two columns of a csv file with a header."""
    text = container.read_text(name).replace("\r\n", "\n").replace("\r", "\n")
    try:
        reader = csv.DictReader(io.StringIO(text), strict=True, skipinitialspace=True)
        reader.fieldnames = [column.strip() for column in reader.fieldnames or []]
        if missing := [column for column in columns if column not in reader.fieldnames]:
            raise TPNError(
                f"{container.describe(name)} has no column {missing[0]!r}: its first row must name the columns "
                f"{' and '.join(columns)}."
            )
        rows = []
        for number, row in enumerate(reader, 2):
            first, second = ((row[column] or "").strip() for column in columns)
            if not first or not second:
                raise TPNError(f"{container.describe(name)} is incomplete in row {number}.")
            rows.append((first, second))
    except csv.Error as failure:
        raise TPNError(f"{container.describe(name)} is not a csv file: {failure}.") from failure
    return rows


def split_folders(container: Container, where: str) -> DatasetIndex | None:
    """Folders train, val and test with a folder for each class."""
    best: dict[str, dict[str, dict[str, list[str]]]] = {}
    for name in container.names:
        folders = name.split("/")
        for depth, folder in enumerate(folders[:-2]):
            if folder.lower() in SPLIT_FOLDERS:
                base, split = "/".join(folders[:depth]), SPLIT_FOLDERS[folder.lower()]
                best.setdefault(base, {}).setdefault(split, {}).setdefault(folders[depth + 1], []).append(name)
                break
    complete = [base for base, splits in best.items() if len(splits) == len(SPLITS)]
    if not complete:
        return None
    index = DatasetIndex(f"{where} with folders of splits and classes", {})
    for split, classes in best[min(complete, key=len)].items():
        index.splits[split] = SplitIndex(container, of_images(classes, index.problems))
    return index


def of_images(classes: dict[str, list[str]], problems: Problems) -> dict[str, list[str]]:
    """Keep the files of each class that have the extension of an image."""
    kept: dict[str, list[str]] = {}
    for class_, names in classes.items():
        images = [name for name in names if is_image(name)]
        for name in sorted(set(names) - set(images)):
            problems.add(NOT_IMAGES, printable(name))
        kept[class_] = sorted(images)
    return kept


def ilsvrc(container: Container, lists: Mapping[str, Iterable[str]]) -> DatasetIndex | None:
    """The training images of ILSVRC-2012 in these classes (split -> classes), sorted by name.

    They are distributed as a tar of class tars, a folder of class tars, or folders of classes at any depth.
    """
    index = DatasetIndex(f"extracted from ILSVRC-2012 in a {container.kind}", {})
    wanted = {class_ for classes in lists.values() for class_ in classes}
    archives: dict[str, str] = {}
    for name in container.names:
        stem, suffix = PurePosixPath(name).stem, PurePosixPath(name).suffix
        if suffix == ".tar" and stem in wanted:
            archives[stem] = name
    reader = TarsOfClasses(container, archives) if archives else container
    bases: dict[str, dict[str, list[str]]] = {}
    names = reader.names
    if isinstance(reader, TarsOfClasses):
        for name in reader.repeated:
            index.problems.add("images are in the archive of their class more than once", printable(name))
    for name in names:
        *folders, class_, _ = ["", *name.split("/")]
        if class_ in wanted and is_image(name):
            bases.setdefault("/".join(folders), {}).setdefault(class_, []).append(name)
    if not bases:
        return None
    base = max(
        bases, key=lambda base: (base.endswith("train"), len(bases[base]))
    )  # its validation images are in another folder
    for class_ in sorted(wanted - set(bases[base])):
        index.problems.add("classes of the benchmark are missing in this copy of ILSVRC-2012", class_)
    for split, classes in lists.items():
        found = {class_: sorted(bases[base][class_]) for class_ in classes if class_ in bases[base]}
        index.splits[split] = SplitIndex(reader, found)
    return index


def is_image(name: str) -> bool:
    """Whether this can be the name of an image file; one without an extension can."""
    last = name[name.rfind("/") + 1 :]
    dot = last.rfind(".")
    suffix = last[dot:].lower() if 0 < dot < len(last) - 1 else ""  # as that of a PurePath, in a tenth of the time
    return not suffix or suffix in image_suffixes()


def shallowest(names: Iterable[str], file_name: str) -> str | None:
    """Return the least deeply nested file of this name."""
    found = [name for name in names if name == file_name or name.endswith(f"/{file_name}")]
    return min(found, key=lambda name: (name.count("/"), name), default=None)
