"""Exports of labels that other tools read: named as FORMAT:PATH."""

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tpn.errors import TPNError
from tpn.files import building, check_target, resolved, write_text
from tpn.labelling.folder_labels import FolderLabels
from tpn.labelling.label_json import as_coco, as_label_studio
from tpn.labelling.sorting import check_sorting, sort_images
from tpn.progress import progress
from tpn.text import as_text

UNLABELLED_OF_FIFTYONE = "_unlabeled"
METADATA = "metadata.csv"


class Format(NamedTuple):
    """A format: how it is written, whether it is a folder, and what it is in a few words."""

    write: Callable[[FolderLabels, Path], int]
    folder: bool
    title: str


class Export(NamedTuple):
    """A format, and where to write it."""

    format: str
    path: Path

    @property
    def folder(self) -> bool:
        return FORMATS[self.format].folder

    def check(self, images: Path, force: bool) -> None:
        """Refuse a place that cannot be written, lies among the images, or exists (a file: unless `force`)."""
        if self.folder:
            check_sorting(self.path, images)
        elif check_target(self.path).exists() and not force:
            raise TPNError(f"{self.path} exists: choose another place, or replace it with --force.")

    def write(self, labels: FolderLabels) -> int:
        """Write it; returns the number of images with a label."""
        return FORMATS[self.format].write(labels, self.path)


def parse_export(text: str) -> Export:
    """Read FORMAT:PATH."""
    name, _, path = str(text).partition(":")
    if name not in FORMATS or not path.strip():
        known = ", ".join(f"{name}:{'DIR' if one.folder else 'FILE'}" for name, one in FORMATS.items())
        raise TPNError(f"--export must be a format and a place ({known}), not {text!r}.")
    return Export(name, Path(path))


def write_csv(labels: FolderLabels, file: Path) -> int:
    """Write labels as `tpn label --out` does."""
    labels.write_csv(file)
    return int(labels.kept.sum())


def write_coco(labels: FolderLabels, file: Path) -> int:
    """Write COCO-style JSON: images, categories, annotations without boxes."""
    write_text(file, _as_json(as_coco(labels.labelled_rows(), labels.classes)))
    return int(labels.kept.sum())


def write_label_studio(labels: FolderLabels, file: Path) -> int:
    """Write tasks of Label Studio: given labels as annotations, guesses as predictions."""
    write_text(file, _as_json(as_label_studio(labels.labelled_rows())))
    return int(labels.kept.sum())


def write_imagefolder(labels: FolderLabels, target: Path) -> int:
    """Write a folder that `load_dataset("imagefolder")` of Hugging Face reads: labelled images, and metadata.csv."""
    rows = [row for row in labels.labelled_rows() if row.label]
    with building(resolved(target)) as part, progress("copying", len(rows), "images") as advance:
        for row in rows:
            place = part / "images" / row.path
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(labels.folder / row.path, place)
            advance(1)
        stream = io.StringIO()
        # no guards against formulas: the loader takes every cell as it is
        lines = [(f"images/{as_text(row.path)}", row.label, f"{row.confidence:.4f}") for row in rows]
        csv.writer(stream, lineterminator="\n").writerows([("file_name", "label", "confidence"), *lines])
        write_text(part / METADATA, stream.getvalue())
    return len(rows)


def write_fiftyone(labels: FolderLabels, target: Path) -> int:
    """Write the ImageClassificationDirectoryTree of FiftyOne: a folder for each class, the rest in `_unlabeled`."""
    sort_images(labels, target, "copy", UNLABELLED_OF_FIFTYONE)
    return int(labels.kept.sum())


def write_class_folders(labels: FolderLabels, target: Path) -> int:
    """Copy images into a folder for each class."""
    sort_images(labels, target, "copy")
    return int(labels.kept.sum())


def write_links(labels: FolderLabels, target: Path) -> int:
    """Link images into a folder for each class."""
    sort_images(labels, target, "link")
    return int(labels.kept.sum())


def _as_json(content: object) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


FORMATS = {
    "csv": Format(write_csv, False, "table (csv)"),
    "folders": Format(write_class_folders, True, "class folders (copies)"),
    "links": Format(write_links, True, "class folders (links)"),
    "imagefolder": Format(write_imagefolder, True, "Hugging Face imagefolder"),
    "coco": Format(write_coco, False, "COCO-style JSON"),
    "label-studio": Format(write_label_studio, False, "Label Studio JSON"),
    "fiftyone": Format(write_fiftyone, True, "FiftyOne directory tree"),
}
