"""The labels of a folder: what `tpn.label_folder` returns."""

import csv
import io
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tpn.files import write_text
from tpn.results import Result
from tpn.text import as_text, printable

MOST_CLASSES_SHOWN = 20


@dataclass(frozen=True, eq=False, repr=False)
class FolderLabels(Result):
    """Labels for all images of a folder, with confidences; prints as a table of the classes.

    Attributes
    ----------
    folder : Path
        The folder, as an absolute path.
    paths : list of str
        The images, relative to the folder.
    labels : list of str
        The label of each image; empty if it is too doubtful.
    confidence : ndarray of shape (n_images,)
        The probability of the label, lower for images that seem to be of none of the classes; 1 for given labels.
    given : ndarray of shape (n_images,)
        Which labels were given.
    suggestions : list of str
        Images whose labels would help most, the most helpful first.
    classes : list of str
        The classes, sorted.
    predicted : ndarray of shape (n_images,)
        The index of the most probable class of each image, also of doubtful ones.
    kept : ndarray of shape (n_images,)
        Which images have a label: it was given, or the confidence is high enough.
    unreached : int
        The number of images that no label reaches on the graph.
    backbone : str
        The network, or the file of the features.
    files : dict of str to Path
        The files that were written: out, suggestions, page.
    seconds : float
        The time that all of it took.
    """

    folder: Path
    title: str
    paths: list[str]
    classes: list[str]
    predicted: np.ndarray
    confidence: np.ndarray
    given: np.ndarray
    kept: np.ndarray
    suggested: np.ndarray
    """The suggestions, as indices of `paths`."""
    unreached: int
    backbone: str
    files: dict[str, Path] = field(default_factory=dict)
    seconds: float = 0.0

    @cached_property
    def labels(self) -> list[str]:
        names = [self.classes[index] for index in self.predicted]
        return [name if kept else "" for name, kept in zip(names, self.kept, strict=True)]

    @property
    def suggestions(self) -> list[str]:
        return [self.paths[index] for index in self.suggested]

    def count(self, class_: int) -> tuple[int, int, int]:
        """Return how many images of a class have a given label, a found one, and none because they are too doubtful."""
        members = self.predicted == class_
        found = members & self.kept & ~self.given
        return int((members & self.given).sum()), int(found.sum()), int((members & ~self.kept).sum())

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the single images as plain Python data, as `tpn label --json` prints it."""
        counts = {name: self.count(index) for index, name in enumerate(self.classes)}
        return {
            "pictures": len(self.paths),
            "classes": {name: {"given": given, "labelled": found} for name, (given, found, _) in counts.items()},
            "too_doubtful": int((~self.kept).sum()),
            "mean_confidence": float(self.confidence[~self.given].mean()) if not self.given.all() else None,
            "unreached": self.unreached,
            "suggestions": self.suggestions,
            "backbone": self.backbone,
            "files": {name: str(path) for name, path in self.files.items()},
            "seconds": self.seconds,
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return path, label and confidence of each image."""
        columns = zip(self.paths, self.labels, self.confidence.tolist(), strict=True)
        return [{"path": path, "label": label, "confidence": confidence} for path, label, confidence in columns]

    def summary(self) -> str:
        """Return a table of the classes, and the images to label next."""
        shown = [printable(name) for name in self.classes[:MOST_CLASSES_SHOWN]]
        width = max(len("class"), *map(len, shown))
        lines = [f"{'class':<{width}}  given  labelled  confidence"]
        for index, name in enumerate(shown):
            given, found, _ = self.count(index)
            confidence = self.confidence[(self.predicted == index) & self.kept & ~self.given]
            mean = f"{100 * confidence.mean():.0f} %" if found else ""
            lines.append(f"{name:<{width}}  {given:>5}  {found:>8}  {mean:>10}")
        if len(self.classes) > MOST_CLASSES_SHOWN:
            lines.append(f"… and {len(self.classes) - MOST_CLASSES_SHOWN:,} more classes")
        lines.append(self.totals())
        if len(self.suggested):
            lines += ["To label next:", *(f"  {printable(path)}" for path in self.suggestions)]
        return "\n".join(lines)

    def totals(self) -> str:
        """Return the numbers of labels, and the mean confidence, in a sentence."""
        found, doubtful = int((self.kept & ~self.given).sum()), int((~self.kept).sum())
        rest = self.confidence[~self.given]
        mean = f"; mean confidence {100 * rest.mean():.0f} %" if len(rest) else ""
        left = f", {doubtful:,} too doubtful" if doubtful else ""
        return f"{int(self.given.sum()):,} labels given, {found:,} found{left}{mean}."

    def write_csv(self, file: str | Path) -> None:
        """Write path, label and confidence of each image."""
        rows = [(as_text(row["path"]), row["label"], f"{row['confidence']:.4f}") for row in self.rows()]
        write_text(Path(file), _as_csv([("path", "label", "confidence"), *rows]))

    def write_suggestions(self, file: str | Path) -> None:
        """Write the suggestions as a list to be filled in: path, an empty label, and the predicted class as a guess."""
        rows = [(as_text(self.paths[i]), "", self.classes[self.predicted[i]]) for i in self.suggested]
        write_text(Path(file), _as_csv([("path", "label", "guess"), *rows]))

    def write_page(self, file: str | Path) -> None:
        """Write a page (HTML) that shows each class from the most to the least confident image."""
        from tpn.labelling.page import make_page  # which reads this class

        write_text(Path(file), make_page(self))


def _as_csv(rows: list[tuple[str, ...]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()
