"""The ways in which people arrange picture files: lists in csv files, folders of classes, ILSVRC-2012's archives."""

import csv
import io
from collections.abc import Iterable
from pathlib import PurePosixPath

from tpn.errors import TPNError
from tpn.images.archives import TarsOfClasses
from tpn.images.containers import Container, printable
from tpn.images.decoding import picture_suffixes
from tpn.images.listing import Listing, Problems, SplitListing
from tpn.images.split import SPLITS

SPLIT_FOLDERS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
"""What folders of splits are called."""
NOT_PICTURES = "files are no pictures by their names and are left out"


def listed_in_csv(container: Container, where: str) -> Listing | None:
    """The Ravi layout: train.csv, val.csv and test.csv with columns filename and label, and a folder of pictures."""
    lists = {split: shallowest(container.names, f"{split}.csv") for split in SPLITS}
    if not all(lists.values()):
        return None
    base = str(PurePosixPath(lists["train"] or "").parent)
    pictures = _by_file_name(container.names, preferred=str(PurePosixPath(base, "images")))
    listing = Listing(f"{where} with csv lists (Ravi layout)", {})
    unused = set(pictures)
    for split, name in lists.items():
        assert name is not None, "checked above"
        classes: dict[str, list[str]] = {}
        seen: set[str] = set()
        for row, (file, label) in enumerate(read_rows(container, name, ("filename", "label")), 2):
            file_name = file.replace("\\", "/").rsplit("/", 1)[-1]
            if file_name not in pictures:
                listing.problems.add("rows of the lists have no picture", f"{split}.csv, row {row}: {file}")
            elif file_name in seen:
                listing.problems.add("rows of the lists repeat another", f"{split}.csv, row {row}: {file}")
            else:
                classes.setdefault(label, []).append(pictures[file_name])
                seen.add(file_name)
        unused -= seen
        listing.splits[split] = SplitListing(container, {label: sorted(names) for label, names in classes.items()})
    for file_name in sorted(unused):
        listing.problems.add("pictures are in none of the lists", printable(pictures[file_name]))
    return listing


def read_rows(container: Container, name: str, columns: tuple[str, str]) -> list[tuple[str, str]]:
    """Two columns of a csv file that names them in its first row."""
    try:
        reader = csv.DictReader(io.StringIO(container.read_text(name)), strict=True)
        if missing := [column for column in columns if column not in (reader.fieldnames or [])]:
            raise TPNError(
                f"{container.describe(name)} has no column {missing[0]!r}: its first row must name the columns "
                f"{' and '.join(columns)}."
            )
        rows = []
        for number, row in enumerate(reader, 2):
            first, second = (row[column] for column in columns)
            if not first or not second:
                raise TPNError(f"{container.describe(name)} is incomplete in row {number}.")
            rows.append((first.strip(), second.strip()))
    except csv.Error as failure:
        raise TPNError(f"{container.describe(name)} is no csv file: {failure}.") from failure
    return rows


def split_folders(container: Container, where: str) -> Listing | None:
    """Folders for train, val and test with a folder for each class."""
    best: dict[str, dict[str, dict[str, list[str]]]] = {}
    for name in container.names:
        parts = name.split("/")
        for depth, part in enumerate(parts[:-2]):
            if part.lower() in SPLIT_FOLDERS:
                base, split = "/".join(parts[:depth]), SPLIT_FOLDERS[part.lower()]
                best.setdefault(base, {}).setdefault(split, {}).setdefault(parts[depth + 1], []).append(name)
                break
    complete = [base for base, splits in best.items() if len(splits) == len(SPLITS)]
    if not complete:
        return None
    listing = Listing(f"{where} with folders of splits and classes", {})
    for split, classes in best[min(complete, key=len)].items():
        listing.splits[split] = SplitListing(container, of_pictures(classes, listing.problems))
    return listing


def of_pictures(classes: dict[str, list[str]], problems: Problems) -> dict[str, list[str]]:
    """Class -> its files that are pictures by their names."""
    kept: dict[str, list[str]] = {}
    for class_, names in classes.items():
        pictures = [name for name in names if is_picture(name)]
        for name in sorted(set(names) - set(pictures)):
            problems.add(NOT_PICTURES, printable(name))
        kept[printable(class_)] = sorted(pictures)
    return kept


def ilsvrc(container: Container, wanted: Iterable[str], problems: Problems) -> tuple[Container, dict[str, list[str]]]:
    """The training pictures of ILSVRC-2012: of each of the wanted classes the names of its files, sorted.

    They come as a tar of class tars, a folder of class tars, or folders of classes at any depth.
    """
    wanted = set(wanted)
    archives: dict[str, str] = {}
    for name in container.names:
        stem, suffix = PurePosixPath(name).stem, PurePosixPath(name).suffix
        if suffix == ".tar" and stem in wanted:
            archives[stem] = name
    reader: Container = TarsOfClasses(container, archives) if archives else container
    classes: dict[str, list[str]] = {}
    for name in reader.names:
        parts = name.split("/")
        if len(parts) >= 2 and parts[-2] in wanted and is_picture(name):
            classes.setdefault(parts[-2], []).append(name)
    for class_ in sorted(wanted - set(classes)):
        if classes:
            problems.add("classes of the benchmark are missing in this copy of ILSVRC-2012", class_)
    return reader, {class_: sorted(names) for class_, names in classes.items()}


def is_picture(name: str) -> bool:
    """Is this the name of a picture file? One without an ending may be."""
    suffix = PurePosixPath(name).suffix.lower()
    return not suffix or suffix in picture_suffixes()


def shallowest(names: Iterable[str], file_name: str) -> str | None:
    """The file of this name that lies in the fewest folders."""
    found = [name for name in names if name == file_name or name.endswith(f"/{file_name}")]
    return min(found, key=lambda name: (name.count("/"), name), default=None)


def _by_file_name(names: Iterable[str], preferred: str) -> dict[str, str]:
    """File name -> the picture of that name, the one in the preferred folder if there are several."""
    found: dict[str, str] = {}
    for name in names:
        path = PurePosixPath(name)
        if is_picture(name) and (path.name not in found or str(path.parent) == preferred):
            found[path.name] = name
    return found
