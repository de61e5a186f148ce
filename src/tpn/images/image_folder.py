"""A user's own folder of images, or an archive of one."""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tpn.errors import TPNError
from tpn.images.dataset_index import SPLITS, DatasetIndex, SplitIndex
from tpn.images.layouts import SPLIT_FOLDERS, is_image, of_images, read_rows
from tpn.images.source import Source
from tpn.text import printable

VALIDATION_SHARE, TEST_SHARE = 0.16, 0.20
LISTS = ("splits.json", "splits.csv")


class ImageFolder(Source):
    """`PATH/{train,val,test}/CLASS/*`, or `PATH/CLASS/*`; also inside an archive.

    In the second form, a `splits.json` (split -> classes) or `splits.csv` (columns class and split) in the folder
    assigns classes to splits. Without one they are assigned at random, 64/16/20 per cent, as `class_seed` determines.
    """

    kind = "folder"

    def __init__(self, path: Path, class_seed: int = 0) -> None:
        super().__init__(path)
        self.class_seed = class_seed

    @property
    def identity(self) -> dict[str, Any]:
        return {**super().identity, "class_seed": self.class_seed}

    @cached_property
    def base(self) -> str:
        """The single folder that contains everything, as archives often have it, or an empty string."""
        return wrapping_folder(self.container.names)

    def find(self) -> DatasetIndex:
        index = DatasetIndex(self.container.kind, {})
        folders: dict[str, list[str]] = {}
        for name in self.container.names:
            folder, inside, _ = name.removeprefix(self.base).partition("/")
            if inside:
                folders.setdefault(folder, []).append(name)
            elif folder not in LISTS:
                index.problems.add("files are not in a class folder", printable(name))
        splits = {folder: names for folder, names in folders.items() if folder.lower() in SPLIT_FOLDERS}
        if "train" in map(str.lower, splits) and (len(splits) > 1 or splits == folders):
            for folder in sorted(set(folders) - set(splits)):
                index.problems.add("folders are not splits and are left out", printable(folder))
            self._take_split_folders(index, splits)
        else:
            self._assign(index, of_images(folders, index.problems))
        return index

    def _take_split_folders(self, index: DatasetIndex, folders: dict[str, list[str]]) -> None:
        index.layout += " with folders of splits and classes"
        for folder, names in folders.items():
            classes: dict[str, list[str]] = {}
            for name in names:
                class_, inside, _ = name.removeprefix(f"{self.base}{folder}/").partition("/")
                if inside:
                    classes.setdefault(class_, []).append(name)
                else:
                    index.problems.add("files are not in a class folder", printable(name))
            split = SPLIT_FOLDERS[folder.lower()]
            if split in index.splits:
                raise TPNError(f"{self.path} has two folders for the {split} split.")
            index.splits[split] = SplitIndex(self.container, of_images(classes, index.problems))

    def _assign(self, index: DatasetIndex, classes: dict[str, list[str]]) -> None:
        """Assign each class to a split."""
        list_ = next((name for name in LISTS if f"{self.base}{name}" in self.container.names), None)
        if list_ is None:
            index.layout += " of classes, assigned to splits at random"
            chosen = assign_classes(sorted(class_ for class_, names in classes.items() if names), self.class_seed)
        else:
            index.layout += f" of classes, assigned to splits by {list_}"
            chosen = self._read_list(list_)
            for class_ in sorted(set(classes) - {class_ for named in chosen.values() for class_ in named}):
                index.problems.add("classes are in no split and are left out", repr(class_))
        for split, named in chosen.items():
            for class_ in sorted(set(named) - set(classes)):
                index.problems.add(f"classes of {list_} have no folder", repr(class_))
            found = {class_: classes[class_] for class_ in named if class_ in classes}
            index.splits[split] = SplitIndex(self.container, found)

    def _read_list(self, list_: str) -> dict[str, list[str]]:
        """Read the classes of each split from a file in the folder."""
        name, where = f"{self.base}{list_}", self.path / list_
        splits: dict[str, list[str]] = {split: [] for split in SPLITS}
        if list_.endswith(".csv"):
            rows = read_rows(self.container, name, ("class", "split"))
        else:
            rows = _rows_of_json(self.container.read_text(name), where)
        home: dict[str, str] = {}
        for class_, split in rows:
            if split.lower() not in SPLIT_FOLDERS:
                raise TPNError(
                    f"{where} puts {class_!r} into the split {split!r}, which is not one of {', '.join(SPLITS)}."
                )
            if class_ in home:
                raise TPNError(f"{where} names the class {class_!r} twice, in {home[class_]} and in {split}.")
            home[class_] = split
            splits[SPLIT_FOLDERS[split.lower()]].append(class_)
        return splits


def _rows_of_json(text: str, where: Path) -> list[tuple[str, str]]:
    """Return class and split of each entry of {"train": [...], "val": [...], "test": [...]}."""
    try:
        content = json.loads(text)
        if not all(isinstance(classes, list) for classes in content.values()):
            raise TypeError("the classes of a split are not a list")
        if not all(isinstance(class_, str) for classes in content.values() for class_ in classes):
            raise TypeError("a class is not a string")
        return [(class_, split) for split, classes in content.items() for class_ in classes]
    except (ValueError, AttributeError, TypeError, RecursionError) as failure:
        raise TPNError(f"{where} must be an object with a list of class names for each split ({failure}).") from failure


def wrapping_folder(names: list[str]) -> str:
    """Return the single folder that contains all files, if it has folders and no images in it; otherwise ""."""
    base = ""
    while True:
        tops = {name.removeprefix(base).partition("/")[0] for name in names if "/" in name.removeprefix(base)}
        loose = [name for name in names if "/" not in name.removeprefix(base)]
        if len(tops) != 1 or loose or next(iter(tops)).lower() in SPLIT_FOLDERS:
            return base
        inner = f"{base}{next(iter(tops))}/"
        if any(is_image(name) for name in names if "/" not in name.removeprefix(inner)):
            return base
        base = inner


def assign_classes(classes: list[str], seed: int) -> dict[str, list[str]]:
    """Assign 64 per cent of the classes to training, 16 to validation and 20 to testing, at random."""
    order = np.random.default_rng(seed).permutation(len(classes))
    test = max(round(TEST_SHARE * len(classes)), 1 if len(classes) >= 3 else 0)
    validation = max(round(VALIDATION_SHARE * len(classes)), 1 if len(classes) >= 3 else 0)
    chosen = {"test": order[:test], "val": order[test : test + validation], "train": order[test + validation :]}
    return {split: sorted(classes[index] for index in chosen[split]) for split in SPLITS}
