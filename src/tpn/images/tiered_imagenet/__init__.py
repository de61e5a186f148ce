"""tieredImageNet in the layouts that are in circulation: 608 classes in 34 categories, some 780,000 photographs.

The class lists beside this file (class and category, a file per split) are those of Ren et al., "Meta-Learning for
Semi-Supervised Few-Shot Classification", ICLR 2018; `LICENSE.txt` says under which terms.
"""

import csv
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from tpn.errors import TPNError
from tpn.images.array_readers import EncodedImages, NpzPixels, places_of_labels, unpickle
from tpn.images.dataset_index import SPLITS, DatasetIndex, SplitIndex
from tpn.images.layouts import ilsvrc, shallowest, split_folders
from tpn.images.pickles.pickled_array import PickledArray
from tpn.images.pickles.plain_data import as_array, as_strings, with_text_keys
from tpn.images.source import Source


class TieredImageNet(Source):
    """Recognises the layout, and checks that nothing is missing."""

    kind = "tiered-imagenet"
    labelled_share = 0.1

    def find(self) -> DatasetIndex:
        index = (
            self._arrays() or split_folders(self.container, self.container.kind) or ilsvrc(self.container, read_lists())
        )
        if index is None:
            raise self.not_recognised(
                "{train,val,test}_images_png.pkl or _images.npz with _labels.pkl; folders train, val and test with a "
                "folder for each class; or the training images of ILSVRC-2012"
            )
        return index

    def incompleteness(self, index: DatasetIndex) -> list[str]:
        counts = [len(index.splits[split].classes) if split in index.splits else 0 for split in SPLITS]
        whole = [len(classes) for classes in read_lists().values()]
        if counts == whole:
            return []
        return [
            f"this is not the complete tieredImageNet of {'/'.join(map(str, whole))} classes: it has "
            f"{'/'.join(map(str, counts))}. Results are not comparable with published ones"
        ]

    def categories(self, classes: list[str]) -> int | None:
        known = {class_: category for split in read_lists().values() for class_, category in split.items()}
        found = {known[class_] for class_ in classes if class_ in known}
        return len(found) or None

    def _arrays(self) -> DatasetIndex | None:
        """For each split the images, as PNG files or as pixels, and their labels."""
        names = {
            split: shallowest(self.container.names, f"{split}_images_png.pkl")
            or shallowest(self.container.names, f"{split}_images.npz")
            for split in SPLITS
        }
        if not any(names.values()):
            return None
        index = DatasetIndex(f"{self.container.kind} with arrays", {})
        for split, name in names.items():
            labels_name = shallowest(self.container.names, f"{split}_labels.pkl")
            if name is None or labels_name is None:
                missing = f"{split}_images_png.pkl or {split}_images.npz" if name is None else f"{split}_labels.pkl"
                raise TPNError(f"{self.path} has no {missing}. The images and labels of all three splits are needed.")
            reader: Any
            if name.endswith(".npz"):
                reader = NpzPixels(self.container, name, "images")
            else:
                reader = EncodedImages(
                    unpickle(self.container, name), PurePosixPath(name).name, self.container.size(name)
                )
            labels, class_names = self._labels(labels_name, split)
            if len(labels) != len(reader):
                raise TPNError(f"{name} has {len(reader)} images, but {labels_name} {len(labels)} labels.")
            classes = {class_names(label): places for label, places in places_of_labels(labels).items()}
            index.splits[split] = SplitIndex(reader, classes)
        return index

    def _labels(self, name: str, split: str) -> tuple[np.ndarray, Any]:
        """Return the class number of each image, and a function that names a class."""
        content = unpickle(self.container, name)
        if isinstance(content, (list, PickledArray)):
            content = {"label_specific": content}
        content = with_text_keys(content, name)
        key = next((key for key in ("label_specific", "labels") if key in content), None)
        if key is None:
            raise TPNError(f"{name} has no 'label_specific'; it has {', '.join(sorted(content)[:8]) or 'nothing'}.")
        labels = as_array(content[key], name)
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise TPNError(f"{name} is damaged: its labels are not integers.")
        names = as_strings(content.get("label_specific_str", []), name)
        if len(set(names)) < len(names):
            raise TPNError(f"{name} is damaged: two of its classes have the same name.")
        return labels, lambda label: names[label] if 0 <= label < len(names) else f"{split} class {label:03}"


@cache
def read_lists() -> dict[str, dict[str, str]]:
    """Return the category of each class of each split, as WordNet ids."""
    here = files(__name__)
    return {
        split: dict(csv.reader(here.joinpath(f"{split}.csv").read_text(encoding="utf-8").splitlines()))
        for split in SPLITS
    }
