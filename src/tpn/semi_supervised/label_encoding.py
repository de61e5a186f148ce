"""Encoding of labels: numbers or text, with -1 for unlabelled points, as in scikit-learn."""

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

UNLABELLED = -1
MANY_CLASSES = "The number of unique classes is greater than 50%"
"""scikit-learn's remark on targets that look like a regression: one label of each class is nothing unusual here."""


def encode(y: Any, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes, and the index of its class for each point, or -1."""
    y = column_or_1d(y, warn=True)
    if len(y) != points:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[points, len(y)]}")
    if y.dtype.kind == "f":
        assert_all_finite(y, input_name="y")
    labelled = _is_labelled(y)
    if not labelled.any():
        raise ValueError("There are no labels: all of y is -1.")
    known = _as_one_kind(y[labelled]) if y.dtype == object else y[labelled]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", MANY_CLASSES)
        check_classification_targets(known)
    classes, of_known = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"There must be at least two classes; there is one class only: {classes[0]!r}.")
    codes = np.full(len(y), UNLABELLED)
    codes[labelled] = of_known
    return classes, codes


def _is_labelled(y: np.ndarray) -> np.ndarray:
    """Return which points have a label. NumPy turns a -1 among text into text, so "-1" means unlabelled there."""
    if y.dtype == object:
        return np.array([not (isinstance(label, Integral) and label == UNLABELLED) for label in y], bool)
    if y.dtype.kind == "U":
        return np.asarray(y != str(UNLABELLED))
    return np.asarray(y != UNLABELLED) if y.dtype.kind in "iuf" else np.ones(len(y), bool)


def _as_one_kind(labels: np.ndarray) -> np.ndarray:
    """Convert an array of objects to one of numbers or of text."""
    known = np.array(labels.tolist())
    if known.dtype.kind not in "biuf" and not all(isinstance(label, str) for label in labels):
        raise ValueError("Labels must be all text or all numbers, with -1 where there is no label.")
    return known
