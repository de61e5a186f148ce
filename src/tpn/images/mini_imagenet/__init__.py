"""miniImageNet in every layout that is in circulation: 100 classes of 600 photographs of 84x84 pixels.

`ravi.csv` holds the lists of Ravi and Larochelle ("Optimization as a Model for Few-Shot Learning", ICLR 2017), by which
it can be cut from ILSVRC-2012: for each class a split, and the ranks of its 600 images among the class's files sorted
by name, as the bits of a base64 number (the first bit stands for rank 1).
"""

import base64
import csv
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from tpn.errors import TPNError
from tpn.images.array_readers import PixelArray, places_of_labels, unpickle
from tpn.images.dataset_index import SPLITS, DatasetIndex, SplitIndex
from tpn.images.layouts import ilsvrc, listed_in_csv, shallowest, split_folders
from tpn.images.pickles.plain_data import as_array, length_of, with_text_keys
from tpn.images.source import Source

CLASSES = {"train": 64, "val": 16, "test": 20}
IMAGES = 600
CATEGORY_SPLIT = {
    "train": ("miniImageNet_category_split_train_phase_train.pickle", "miniImageNet_category_split_train.pickle"),
    "val": ("miniImageNet_category_split_val.pickle",),
    "test": ("miniImageNet_category_split_test.pickle",),
}


class MiniImageNet(Source):
    """Recognises the layout, and checks that nothing is missing."""

    kind = "mini-imagenet"
    labelled_share = 0.4

    def find(self) -> DatasetIndex:
        index = (
            self._cache_pickles()
            or self._category_pickles()
            or listed_in_csv(self.container, self.container.kind)
            or split_folders(self.container, self.container.kind)
            or self._from_ilsvrc()
        )
        if index is None:
            raise self.not_recognised(
                "train.csv, val.csv and test.csv with a folder of images; folders train, val and test with a folder "
                "for each class; mini-imagenet-cache-{train,val,test}.pkl; miniImageNet_category_split_*.pickle; or "
                "the training images of ILSVRC-2012"
            )
        return index

    def incompleteness(self, index: DatasetIndex) -> list[str]:
        found = {split: index.splits[split].classes if split in index.splits else {} for split in SPLITS}
        counts = {split: len(classes) for split, classes in found.items()}
        odd = [keys for classes in found.values() for keys in classes.values() if len(keys) != IMAGES]
        if counts == CLASSES and not odd:
            return []
        classes = "/".join(str(counts[split]) for split in SPLITS)
        return [
            f"this is not the complete miniImageNet of 64/16/20 classes with {IMAGES} images each: it has "
            f"{classes} classes, {len(odd)} of them with another number of images. Results are not comparable with "
            "published ones"
        ]

    def _cache_pickles(self) -> DatasetIndex | None:
        """`image_data`, all pixels, and `class_dict`, class -> indices."""
        names = {split: shallowest(self.container.names, f"mini-imagenet-cache-{split}.pkl") for split in SPLITS}
        if not any(names.values()):
            return None
        index = DatasetIndex(f"{self.container.kind} with cache pickles", {})
        for split, name in self._all_there(names).items():
            content = with_text_keys(unpickle(self.container, name), name)
            pixels = PixelArray(as_array(_get(content, "image_data", name), name), name)
            classes = with_text_keys(_get(content, "class_dict", name), name)
            if sum(map(length_of, classes.values())) > len(pixels):  # one list, named over and over, would take forever
                raise TPNError(f"{name} is damaged: its classes have more images than the {len(pixels):,} that it has.")
            places = {class_: as_array(keys, f"{name}, class {class_!r}") for class_, keys in classes.items()}
            index.splits[split] = SplitIndex(pixels, {c: _places(keys, pixels, c) for c, keys in places.items()})
        return index

    def _category_pickles(self) -> DatasetIndex | None:
        """`data`, all pixels, `labels`, a number for each image, and `catname2label`, class -> number."""
        found = {split: [shallowest(self.container.names, name) for name in CATEGORY_SPLIT[split]] for split in SPLITS}
        names = {split: next(filter(None, candidates), None) for split, candidates in found.items()}
        if not any(names.values()):
            return None
        index = DatasetIndex(f"{self.container.kind} with category-split pickles", {})
        for split, name in self._all_there(names).items():
            content = with_text_keys(unpickle(self.container, name), name)
            pixels = PixelArray(as_array(_get(content, "data", name), name), name)
            labels = as_array(_get(content, "labels", name), name)
            if labels.shape != (len(pixels),) or labels.dtype.kind not in "iu":
                raise TPNError(
                    f"{name} is damaged: it has {len(pixels)} images and {labels.size} labels of type {labels.dtype}."
                )
            numbers = with_text_keys(content.get("catname2label", {}), name)
            if not all(type(number) is int for number in numbers.values()) or len({*numbers.values()}) < len(numbers):
                raise TPNError(f"{name} is damaged: its 'catname2label' does not give each class a number of its own.")
            class_of = {number: class_ for class_, number in numbers.items()}
            classes = {
                class_of.get(label, f"{split} class {label:03}"): places
                for label, places in places_of_labels(labels).items()
            }
            index.splits[split] = SplitIndex(pixels, classes)
        return index

    def _from_ilsvrc(self) -> DatasetIndex | None:
        """Select from the training images of ILSVRC-2012 by the lists of Ravi and Larochelle."""
        lists = read_lists()
        index = ilsvrc(self.container, lists)
        if index is None:
            return None
        for split, found in index.splits.items():
            chosen = {}
            for class_, names in found.classes.items():
                ranks = lists[split][class_]
                chosen[class_] = [names[rank - 1] for rank in ranks if rank <= len(names)]
                if missing := len(ranks) - len(chosen[class_]):
                    example = f"{class_} has {len(names)} files"
                    index.problems.add("images of the benchmark are missing", example, missing)
            found.classes = chosen
        return index

    def _all_there(self, names: dict[str, str | None]) -> dict[str, str]:
        for split, name in names.items():
            if name is None:
                there = PurePosixPath(next(filter(None, names.values()), "")).name
                raise TPNError(
                    f"{self.path} has {there}, but no such file for the {split} split. All three are needed."
                )
        return {split: name for split, name in names.items() if name is not None}


def read_lists() -> dict[str, dict[str, list[int]]]:
    """Return, for each split and class, the ranks of its images among the files of the class, from 1."""
    lists: dict[str, dict[str, list[int]]] = {split: {} for split in SPLITS}
    for row in csv.DictReader(files(__name__).joinpath("ravi.csv").read_text(encoding="utf-8").splitlines()):
        bits = np.unpackbits(np.frombuffer(base64.b64decode(row["ranks"]), np.uint8))
        lists[row["split"]][row["class"]] = [int(bit) + 1 for bit in np.flatnonzero(bits)]
    return lists


def _get(content: dict[str, Any], key: str, name: str) -> Any:
    if key not in content:
        raise TPNError(f"{name} has no {key!r}; it has {', '.join(sorted(content)[:8]) or 'nothing'}.")
    return content[key]


def _places(keys: np.ndarray, pixels: PixelArray, class_: str) -> list[int]:
    if keys.ndim != 1 or (keys.size and (keys.dtype.kind not in "iu" or keys.min() < 0 or keys.max() >= len(pixels))):
        raise TPNError(f"{pixels.name} is damaged: the class {class_!r} has images that do not exist.")
    return sorted(set(keys.tolist()))
