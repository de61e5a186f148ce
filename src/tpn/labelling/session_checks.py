"""Labels that the rest of the folder contradicts, found by cross-validation."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tpn.labelling.session_engine import Engine

FOLDS = 5
FEWEST_OF_A_CLASS = 3
"""Labels of smaller classes are not checked: without one of them, too little would be known of the class."""
SURE_OF_ANOTHER, UNSURE_OF_GIVEN = 0.6, 0.15
"""A label is contradicted if another class has at least the first probability, and its own at most the second."""


@dataclass(frozen=True)
class Contradiction:
    """A given label that the other labels contradict."""

    index: int
    given: int
    other: int
    """The class that the image seems to be of."""
    probability: float


@dataclass(frozen=True)
class Check:
    """What cross-validation says of the given labels."""

    contradictions: list[Contradiction]
    """The surest first."""
    checked: int
    right: int
    """Of the labels that were checked, how many the others predict."""
    expected: float
    """How many of them the confidence promised."""


def check_labels(
    engine: Engine, codes: np.ndarray, seed: int = 0, goes_on: Callable[[], bool] = lambda: True
) -> Check | None:
    """Predict each label from the others: in five parts, each left out once, the same share of every class in each.

    Near-duplicates of an image are left out with it, for they would give the label away. Before each part `goes_on` is
    asked: if it says no, the result is None.
    """
    given = np.flatnonzero(codes >= 0)
    classes, sizes = np.unique(codes[given], return_counts=True)
    enough = classes[sizes >= FEWEST_OF_A_CLASS]
    candidates = given[np.isin(codes[given], enough)]
    if len(classes) < 2 or not len(candidates):
        return Check([], 0, 0, 0.0)
    engine = engine.apart()
    fold = _folds(codes, candidates, np.random.default_rng(seed))
    if engine.groups is not None:
        groups = engine.groups[candidates]
        _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
        fold = np.where(groups >= 0, fold[first][inverse], fold)
    found: list[Contradiction] = []
    checked = right = 0
    expected = 0.0
    for part in range(FOLDS):
        if not goes_on():
            return None
        held_out = candidates[fold == part]
        if not len(held_out):
            continue
        rest = codes.copy()
        rest[held_out] = -1
        if not np.isin(codes[held_out], np.unique(rest[rest >= 0])).all():
            held_out = held_out[np.isin(codes[held_out], rest[rest >= 0])]
        guesses = engine.guess(rest)
        if guesses is None or not len(held_out):
            continue
        best, probability = guesses.best[held_out], guesses.probability[held_out]
        own = np.where(best == codes[held_out, None], probability, 0).sum(1)
        checked, right = checked + len(held_out), right + int((best[:, 0] == codes[held_out]).sum())
        expected += float(guesses.confidence[held_out].sum())
        wrong = (best[:, 0] != codes[held_out]) & (probability[:, 0] >= SURE_OF_ANOTHER) & (own <= UNSURE_OF_GIVEN)
        found += [
            Contradiction(int(index), int(codes[index]), int(other), float(sure))
            for index, other, sure in zip(held_out[wrong], best[wrong, 0], probability[wrong, 0], strict=True)
        ]
    return Check(sorted(found, key=lambda one: -one.probability), checked, right, expected)


def _folds(codes: np.ndarray, candidates: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Assign labelled images to parts, the images of each class evenly."""
    fold = np.zeros(len(candidates), int)
    for class_ in np.unique(codes[candidates]):
        members = np.flatnonzero(codes[candidates] == class_)
        fold[rng.permutation(members)] = (np.arange(len(members)) + rng.integers(FOLDS)) % FOLDS
    return fold
