"""The labels of a folder from those of a few images: guesses, suggestions and checks, as one result."""

from pathlib import Path

import numpy as np

from tpn.labelling.folder_graph import FolderGraph
from tpn.labelling.folder_labels import FolderLabels
from tpn.labelling.session_checks import Check, check_labels
from tpn.labelling.session_engine import Guesses
from tpn.labelling.suggestions import suggest, suggest_first

UNFAMILIAR = 0.5
"""Images of lower familiarity may be of none of the classes."""


def label_images(
    folder: Path,
    names: list[str],
    labels: dict[str, str],
    none: set[str],
    graph: FolderGraph,
    number: int,
    max_per_class: int | None,
) -> FolderLabels:
    """Propagate labels, suggest images to label next, and check the given labels.

    Parameters
    ----------
    folder : Path
        The folder of the images.
    names : list of str
        The images.
    labels : dict of str to str
        The labels that are known.
    none : set of str
        Images that are of none of the classes.
    graph : FolderGraph
        The images as points of a graph.
    number : int
        How many suggestions are wanted.
    max_per_class : int, optional
        The most suggestions with the same guess.
    """
    classes = sorted(set(labels.values()))
    place = {class_: index for index, class_ in enumerate(classes)}
    outside = len(classes)  # the code of images of none of the classes
    codes = np.array([place[labels[name]] if name in labels else outside if name in none else -1 for name in names])
    points, engine, groups = graph.points, graph.engine, graph.engine.groups
    guesses = engine.guess(codes)
    if guesses is None:
        chosen = suggest_first(points, number, groups)
        return as_folder_labels(folder, names, classes, codes, None, groups, chosen)
    # a copy of the probabilities suffices for suggestions: only the two highest count
    chosen = suggest(points, _two_columns(guesses), codes < 0, number, groups)
    if max_per_class is not None:
        ranked = suggest(points, _two_columns(guesses), codes < 0, 4 * number, groups)
        chosen = _at_most(ranked, guesses.best[:, 0], max_per_class)[:number]
    found = as_folder_labels(folder, names, classes, codes, guesses, groups, chosen)
    check = check_labels(engine, np.where(codes == outside, -1, codes))
    found.contradicted.extend(contradictions(check, names, classes) if check is not None else [])
    return found


def as_folder_labels(
    folder: Path,
    names: list[str],
    classes: list[str],
    codes: np.ndarray,
    guesses: Guesses | None,
    groups: np.ndarray | None,
    suggested: np.ndarray,
) -> FolderLabels:
    """Return labels and guesses as the result of `label_folder`.

    Codes are indices of `classes`, -1 for images without a label, or above them for images of none of the classes.
    """
    outside = len(classes)
    number = len(names)
    given = (codes >= 0) & (codes < outside)
    best = np.where(given, codes, -1) if guesses is None else guesses.best[:, 0]
    confidence = given.astype(float) if guesses is None else guesses.confidence
    second = np.full(number, -1) if guesses is None else np.where(given, -1, guesses.best[:, 1])
    surety = np.zeros(number) if guesses is None else guesses.probability[:, 1] * guesses.familiarity
    none = best >= outside  # guessed or said to be of none
    unfamiliar = 0 if guesses is None else int((~given & ~none & (guesses.familiarity < UNFAMILIAR)).sum())
    return FolderLabels(
        folder=folder,
        title="",
        paths=names,
        classes=classes,
        predicted=np.where(none, -1, best),
        confidence=confidence,
        given=given,
        kept=(best >= 0) & ~none,
        suggested=suggested,
        unreached=0 if guesses is None else int(guesses.unreached.sum()),
        backbone="",
        second=np.where(second >= outside, -1, second),
        second_confidence=surety,
        unfamiliar=unfamiliar,
        duplicates=0 if groups is None else int((groups >= 0).sum()),
    )


def contradictions(check: Check, names: list[str], classes: list[str]) -> list[tuple[str, str, str, float]]:
    """Return contradicted labels by name: path, label, the class that it seems to be of, and its probability."""
    return [(names[one.index], classes[one.given], classes[one.other], one.probability) for one in check.contradictions]


def _two_columns(guesses: Guesses) -> np.ndarray:
    return guesses.probability[:, :2]


def _at_most(chosen: np.ndarray, classes: np.ndarray, most: int) -> np.ndarray:
    """Keep the first `most` suggestions of each guessed class."""
    of = classes[chosen]
    rank = np.array([(of[:place] == one).sum() for place, one in enumerate(of)], int)
    return np.asarray(chosen[rank < most])
