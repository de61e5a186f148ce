"""The labels of a folder: what `tpn.label_folder` returns."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tpn.files import write_text
from tpn.labelling.labelled_rows import LabelledRow
from tpn.labelling.spreadsheet_cells import as_csv
from tpn.results import Result
from tpn.text import as_text, counted, printable

MOST_CLASSES_SHOWN = 20
UNSURE = 0.5
"""Below this confidence, images of none of the classes are frequent."""
COLUMNS = ("path", "label", "confidence", "source", "guess", "second_guess", "second_confidence")


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
    second : ndarray of shape (n_images,)
        The index of the second most probable class of each image, or -1.
    second_confidence : ndarray of shape (n_images,)
        Its confidence.
    contradicted : list of (str, str, str, float)
        Given labels that the other labels contradict, the surest first: path, given label, the class that it seems to
        be of, and the probability of that.
    unfamiliar : int
        The number of images that are unlike all classes: their familiarity is below a half.
    duplicates : int
        The number of images that have near-duplicates.
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
    second: np.ndarray | None = None
    second_confidence: np.ndarray | None = None
    contradicted: list[tuple[str, str, str, float]] = field(default_factory=list)
    unfamiliar: int = 0
    duplicates: int = 0
    files: dict[str, Path] = field(default_factory=dict)
    seconds: float = 0.0

    @cached_property
    def labels(self) -> list[str]:
        return [
            self._name(index) if kept else ""
            for index, kept in zip(self.predicted.tolist(), self.kept.tolist(), strict=True)
        ]

    def _name(self, index: int) -> str:
        return self.classes[index] if index >= 0 else ""

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
            "unfamiliar": self.unfamiliar,
            "near_duplicates": self.duplicates,
            "check_these": [
                {"path": path, "label": label, "seems": other, "probability": probability}
                for path, label, other, probability in self.contradicted
            ],
            "suggestions": self.suggestions,
            "backbone": self.backbone,
            "files": {name: str(path) for name, path in self.files.items()},
            "seconds": self.seconds,
        }

    def labelled_rows(self) -> list[LabelledRow]:
        """Return each image with its label and its two best guesses, as exports take it."""
        number = len(self.paths)
        second = self.second if self.second is not None else np.full(number, -1)
        surety = self.second_confidence if self.second_confidence is not None else np.zeros(number)
        columns = zip(
            self.paths,
            self.labels,
            self.confidence.tolist(),
            self.given.tolist(),
            self.predicted.tolist(),
            second.tolist(),
            surety.tolist(),
            strict=True,
        )
        return [
            LabelledRow(path, label, confidence, given, self._name(best), self._name(next_best), next_confidence)
            for path, label, confidence, given, best, next_best, next_confidence in columns
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Return path, label, confidence and second guess of each image."""
        return [
            {
                "path": row.path,
                "label": row.label,
                "confidence": row.confidence,
                "source": row.source,
                "guess": row.guess,
                "second_guess": row.second,
                "second_confidence": row.second_confidence,
            }
            for row in self.labelled_rows()
        ]

    def summary(self) -> str:
        """Return a table of the classes, and the images to label next."""
        if not self.classes:
            return "\n".join([self.totals(), *self._next()])
        shown = [printable(name) for name in self.classes[:MOST_CLASSES_SHOWN]]
        width = max(len("class"), *map(len, shown))
        lines = [f"{'class':<{width}}  given  labelled  confidence"]
        for index, name in enumerate(shown):
            given, found, _ = self.count(index)
            confidence = self.confidence[(self.predicted == index) & self.kept & ~self.given]
            mean = f"{100 * confidence.mean():.0f} %" if found else ""
            lines.append(f"{name:<{width}}  {given:>5}  {found:>8}  {mean:>10}")
        if len(self.classes) > MOST_CLASSES_SHOWN:
            lines.append(f"… and {counted(len(self.classes) - MOST_CLASSES_SHOWN, 'more classes')}")
        lines.append(self.totals())
        if doubt := self.doubt():
            lines.append(
                f"{doubt}. If some of them belong to none of the classes, label a few of those as a class of their "
                f"own, such as other; or leave doubtful images without a label with --min-confidence {UNSURE}."
            )
        if self.contradicted:
            lines.append("Check these labels, which the other labels contradict:")
            lines += [
                f"  {printable(path)}: {printable(label)}, seems to be {printable(other)} ({100 * sure:.0f} %)"
                for path, label, other, sure in self.contradicted[:MOST_CLASSES_SHOWN]
            ]
        return "\n".join([*lines, *self._next()])

    def doubt(self) -> str:
        """Return how many of the labels that were found are doubtful, in words; images of no class are among them."""
        unsure = int((self.kept & ~self.given & (self.confidence < UNSURE)).sum())
        if not unsure:
            return ""
        unlike = f", {min(self.unfamiliar, unsure):,} of them unlike all classes" if self.unfamiliar else ""
        return f"{counted(unsure, 'images have')} a confidence below {100 * UNSURE:.0f} %{unlike}"

    def _next(self) -> list[str]:
        return ["To label next:", *(f"  {printable(path)}" for path in self.suggestions)] if len(self.suggested) else []

    def totals(self) -> str:
        """Return the numbers of labels, and the mean confidence, in a sentence."""
        if not self.classes:
            return f"{counted(len(self.paths), 'images')}, no labels yet."
        found, doubtful = int((self.kept & ~self.given).sum()), int((~self.kept).sum())
        rest = self.confidence[~self.given]
        mean = f"; mean confidence {100 * rest.mean():.0f} %" if len(rest) else ""
        left = f", {doubtful:,} too doubtful" if doubtful else ""
        return f"{int(self.given.sum()):,} labels given, {found:,} found{left}{mean}."

    def write_csv(self, file: str | Path) -> None:
        """Write path, label and confidence of each image, where the label comes from, and the two best guesses.

        Handed back to --labels, rows that are still as they were written (source `guess`) count as guesses; rows whose
        label was changed or filled in count as labels.
        """
        rows = [
            (
                as_text(row.path),
                row.label,
                f"{row.confidence:.4f}",
                row.source,
                "" if row.given else row.guess,
                row.second,
                f"{row.second_confidence:.4f}" if row.second else "",
            )
            for row in self.labelled_rows()
        ]
        write_text(Path(file), as_csv([COLUMNS, *rows]))

    def write_suggestions(self, file: str | Path) -> None:
        """Write the suggestions as a list to be filled in: path, an empty label, and the predicted class as a guess."""
        rows = [(as_text(self.paths[i]), "", self._name(int(self.predicted[i]))) for i in self.suggested]
        write_text(Path(file), as_csv([("path", "label", "guess"), *rows]))

    def write_page(self, file: str | Path) -> None:
        """Write a page (HTML) that shows each class from the most to the least confident image."""
        from tpn.labelling.page import make_page  # which reads this class

        write_text(Path(file), make_page(self))
