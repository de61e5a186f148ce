"""Sorting labelled images into a folder for each class."""

import os
import shutil
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Literal

from tpn.errors import TPNError
from tpn.files import building, resolved
from tpn.labelling.folder_labels import FolderLabels
from tpn.progress import progress

UNLABELLED = "unlabelled"
"""The folder for images without a label; `tpn label` takes no class from it."""
NOT_IN_NAMES = '<>:"/\\|?*'
"""Characters that some file systems do not allow in names."""


def check_sorting(target: Path, folder: Path) -> None:
    """Refuse a target folder that is not empty, cannot be made, or lies among the images."""
    place = resolved(target)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise TPNError(f"{target} exists and is not an empty folder: choose another, or remove it.")
    above = next(parent for parent in place.parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise TPNError(f"{target} cannot be created: {above} is {'read-only' if above.is_dir() else 'a file'}.")
    if place.is_relative_to(folder):
        raise TPNError(f"{target} lies among the images of {folder}: choose another folder.")


def sort_images(labels: FolderLabels, target: Path, how: Literal["copy", "link"], rest: str = UNLABELLED) -> int:
    """Copy or link every image into the folder of its class; all of them or nothing.

    Images without a label go into a folder called `rest`.
    """
    places = plan(labels, rest)
    with building(resolved(target)) as part, progress("sorting", len(places), "images") as advance:
        for name, place in places.items():
            new = part / place
            new.parent.mkdir(exist_ok=True)
            if how == "copy":
                shutil.copy2(labels.folder / name, new)
            else:
                new.symlink_to((labels.folder / name).resolve())
            advance(1)
    return len(places)


def plan(labels: FolderLabels, rest: str = UNLABELLED) -> dict[str, str]:
    """Return the new path CLASS/FILE of each image; those without a label go into the folder `rest`.

    If several files of a class have the same name, the folders that they come from become part of it.
    """
    folders = {"": rest, **class_folders(labels.classes, rest)}
    pairs = list(zip(labels.paths, labels.labels, strict=True))
    count = Counter((label, PurePosixPath(name).name.lower()) for name, label in pairs)
    places: dict[str, str] = {}
    taken: set[str] = set()
    for name, label in pairs:
        file = PurePosixPath(name).name
        if count[label, file.lower()] > 1:
            file = name.replace("/", "-")
        path, number = PurePosixPath(file), 1
        while f"{folders[label]}/{file}".lower() in taken:
            number += 1
            file = f"{path.stem}-{number}{path.suffix}"
        taken.add(f"{folders[label]}/{file}".lower())
        places[name] = f"{folders[label]}/{file}"
    return places


def class_folders(classes: list[str], *taken: str) -> dict[str, str]:
    """Return a folder name for each class that every file system allows, and that is not taken."""
    names: dict[str, str] = {}
    used = {name.lower() for name in taken}
    for class_ in classes:
        name = "".join("_" if mark in NOT_IN_NAMES or not mark.isprintable() else mark for mark in class_).strip(" .")
        name, number = name or "_", 1
        while name.lower() in used:
            number += 1
            name = f"{name}-{number}"
        used.add(name.lower())
        names[class_] = name
    return names
