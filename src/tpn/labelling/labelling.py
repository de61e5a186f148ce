"""Labels for all pictures of a folder from the labels of a few."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tpn.errors import TPNError
from tpn.files import write_text
from tpn.images.containers import as_text
from tpn.labelling.estimator import LabelPropagator
from tpn.labelling.features import prepare
from tpn.labelling.suggestions import suggest


@dataclass(frozen=True)
class Labelled:
    """What every picture is, and how sure that is."""

    names: list[str]
    classes: list[str]
    best: np.ndarray
    """The most probable class of each picture, as an index."""
    confidence: np.ndarray
    given: np.ndarray
    """Which labels were given."""
    kept: np.ndarray
    """Which are sure enough to be kept."""
    suggestions: np.ndarray
    """Pictures to label next, the most helpful first."""
    unreached: int
    """How many pictures no label reaches on the graph."""

    def label(self, index: int) -> str:
        """The label of a picture; nothing if it is too doubtful."""
        return self.classes[self.best[index]] if self.kept[index] else ""


def label_rest(
    names: list[str],
    features: np.ndarray,
    labels: dict[str, str],
    propagator: LabelPropagator,
    min_confidence: float = 0.0,
    suggestions: int = 0,
) -> Labelled:
    """Spread the labels of some pictures to all of them."""
    classes = sorted({labels[name] for name in names if name in labels})
    if len(classes) < 2:
        raise TPNError(
            f"Of the pictures that can be read, {'those of one class only' if classes else 'none'} have labels: there "
            "must be labelled pictures of two classes at least."
        )
    code = {class_: index for index, class_ in enumerate(classes)}
    y = np.array([code[labels[name]] if name in labels else -1 for name in names])
    points = prepare(features)
    propagator.fit(points, y)
    probabilities, given = propagator.label_distributions_, y >= 0
    confidence = probabilities.max(1)
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


def read_features(file: Path, pictures: int) -> np.ndarray:
    """Features that were made elsewhere: a row for each picture, in the order of their paths."""
    try:
        features = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as failure:
        raise TPNError(f"Cannot read {file} as an array of numbers (.npy): {failure}.") from failure
    if not isinstance(features, np.ndarray) or features.ndim != 2 or features.dtype.kind not in "fiu":
        raise TPNError(f"{file} must hold one matrix of numbers: a row for each picture, a column for each feature.")
    if len(features) != pictures:
        raise TPNError(
            f"{file} has {len(features):,} rows, and the folder {pictures:,} pictures: there must be a row for each, "
            "in the order of their paths."
        )
    features = features.astype(np.float32)
    whole = np.isfinite(features).all(1)
    if not whole.all():
        raise TPNError(f"{file} has values that are not numbers, in row {int(np.argmin(whole)) + 1}.")
    return features


def write_labels(file: Path, labelled: Labelled) -> None:
    """path,label,confidence for every picture; labels that were given have confidence 1."""
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
