"""Labels for all images of a folder from the labels of a few."""

import csv
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tpn.errors import TPNError
from tpn.files import write_text
from tpn.labelling.suggestions import suggest
from tpn.semi_supervised.label_propagator import LabelPropagator
from tpn.text import as_text


@dataclass(frozen=True)
class Labelled:
    """What every image is, and how sure that is."""

    names: list[str]
    classes: list[str]
    best: np.ndarray
    """The most probable class of each image, as an index."""
    confidence: np.ndarray
    """The probability of that class, less where an image seems to be of none."""
    given: np.ndarray
    """Which labels were given."""
    kept: np.ndarray
    """Which are sure enough to be kept."""
    suggestions: np.ndarray
    """Images to label next, the most helpful first."""
    unreached: int
    """How many images no label reaches on the graph."""

    def label(self, index: int) -> str:
        """The label of an image; nothing if it is too doubtful."""
        return self.classes[self.best[index]] if self.kept[index] else ""


def label_rest(
    names: list[str],
    points: np.ndarray,
    labels: dict[str, str],
    propagator: LabelPropagator,
    min_confidence: float = 0.0,
    suggestions: int = 0,
) -> Labelled:
    """Spread the labels of some images, which are these points, to all of them."""
    classes = sorted({labels[name] for name in names if name in labels})
    if len(classes) < 2:
        raise TPNError(
            f"Of the images that can be read, {'those of one class only' if classes else 'none'} have labels: there "
            "must be labelled images of two classes at least."
        )
    code = {class_: index for index, class_ in enumerate(classes)}
    y = np.array([code[labels[name]] if name in labels else -1 for name in names])
    propagator.fit(points, y)
    probabilities, given = propagator.label_distributions_, y >= 0
    confidence = probabilities.max(1) * propagator.familiarity_
    return Labelled(
        names=names,
        classes=classes,
        best=probabilities.argmax(1),
        confidence=confidence,
        given=given,
        kept=given | (confidence >= min_confidence),
        suggestions=suggest(points, probabilities, ~given, suggestions),
        unreached=int(propagator.unreached_.sum()),
    )


def read_features(file: Path, images: int) -> np.ndarray:
    """Features that were made elsewhere: a row for each image, in the order of their paths."""
    try:
        with open(file, "rb") as stream:
            loaded = np.load(stream, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as failure:
        raise TPNError(f"Cannot read {file} as an array of numbers (.npy): {failure}.") from failure
    whole = isinstance(loaded, np.ndarray) and loaded.ndim == 2 and loaded.shape[1] > 0
    if not whole or loaded.dtype.kind not in "fiu":
        raise TPNError(f"{file} must hold one matrix of numbers: a row for each image, a column for each feature.")
    if len(loaded) != images:
        raise TPNError(
            f"{file} has {len(loaded):,} rows, and the folder {images:,} images: there must be a row for each, "
            "in the order of their paths."
        )
    with np.errstate(over="ignore"):
        features = np.asarray(loaded, np.float32)
    finite = np.isfinite(features).all(1)
    if not finite.all():
        raise TPNError(f"{file} has values that are no numbers, or far too large, in row {int(np.argmin(finite)) + 1}.")
    return features


def write_labels(file: Path, labelled: Labelled) -> None:
    """path,label,confidence for every image; labels that were given have confidence 1."""
    rows = [
        (as_text(name), labelled.label(index), f"{1.0 if labelled.given[index] else labelled.confidence[index]:.4f}")
        for index, name in enumerate(labelled.names)
    ]
    write_text(file, _as_csv([("path", "label", "confidence"), *rows]))


def write_suggestions(file: Path, labelled: Labelled) -> None:
    """path,label,guess with empty labels: to be filled in, and handed back with --labels."""
    rows = [(as_text(labelled.names[i]), "", labelled.classes[labelled.best[i]]) for i in labelled.suggestions]
    write_text(file, _as_csv([("path", "label", "guess"), *rows]))


def _as_csv(rows: list[tuple[str, ...]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()
