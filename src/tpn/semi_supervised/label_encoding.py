"""Encoding of labels: numbers or text, with -1 or a missing value for unlabelled points; or class distributions."""

import warnings
from dataclasses import dataclass
from numbers import Integral, Number
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from tpn.errors import TPNWarning
from tpn.semi_supervised.copies import Nodes

UNLABELLED = -1
SUM_TOLERANCE = 1e-3
"""How far the sum of a row of soft labels may be from one."""
MANY_CLASSES = "The number of unique classes is greater than 50%"
"""scikit-learn's remark on targets that look like a regression: one label of each class is nothing unusual here."""


@dataclass(frozen=True)
class Labels:
    """The labels that are known: the share of a class in the label of a point, for each pair where it is not zero."""

    classes: np.ndarray
    points: np.ndarray
    codes: np.ndarray
    shares: np.ndarray

    def of_nodes(self, nodes: Nodes, number: int, sample_weight: np.ndarray | None) -> sparse.csr_array:
        """Return the weight of each class in the labels of each node, summed over the copies that are labelled."""
        weights = self.shares if sample_weight is None else self.shares * sample_weight[self.points]
        kept = weights > 0
        if not (present := np.bincount(self.codes[kept], minlength=len(self.classes)) > 0).all():
            name = self.classes[~present].tolist()[0]
            raise ValueError(
                f"All labelled points of class {name!r} have weight 0: give one a weight above 0, or remove the labels."
            )
        places = (nodes.of(self.points[kept]), self.codes[kept])
        return sparse.csr_array(sparse.coo_array((weights[kept], places), shape=(number, len(self.classes))))


def encode(y: Any, points: int) -> Labels:
    """Check labels, and return the sorted classes and the index of its class for each labelled point."""
    names = getattr(y, "columns", None)
    values = _as_array(y)
    if len(values) != points:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[points, len(values)]}")
    if values.ndim == 2 and values.shape[1] > 1:
        return _encode_distributions(values, names)
    values = column_or_1d(values, warn=True)
    labelled = is_labelled(values)
    if not labelled.any():
        raise ValueError("There are no labels: all of y is -1 or missing.")
    known = _as_one_kind(values[labelled]) if values.dtype == object else values[labelled]
    if known.dtype.kind == "f":
        assert_all_finite(known, input_name="y")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", MANY_CLASSES)
        check_classification_targets(known)
    if known.dtype.kind == "f" and (known == np.floor(known)).all() and getattr(y, "dtype", None) != known.dtype:
        known = known.astype(np.int64)  # pandas turns whole numbers with missing ones among them into floats
    classes, codes = np.unique(known, return_inverse=True)
    _warn_of_names_for_missing(classes)
    if len(classes) < 2:
        raise ValueError(f"There must be at least two classes; there is one class only: {classes.tolist()[0]!r}.")
    return Labels(classes, np.flatnonzero(labelled), codes, np.ones(len(codes)))


def is_labelled(y: np.ndarray) -> np.ndarray:
    """Return which points have a label: not -1, NaN, None or pandas' NA.

    NumPy turns a -1 among text into text, so "-1" means unlabelled in its arrays of text.
    """
    if y.dtype == object:
        return np.array([not _is_missing(label) for label in y], bool)
    if y.dtype.kind == "U":
        return np.asarray(y != str(UNLABELLED))
    if y.dtype.kind == "f":
        return np.asarray((y != UNLABELLED) & ~np.isnan(y))
    return np.asarray(y != UNLABELLED) if y.dtype.kind in "iu" else np.ones(len(y), bool)


def _as_array(y: Any) -> np.ndarray:
    """Return labels as an array; missing values of pandas' nullable types stay missing."""
    dtype = getattr(y, "dtype", None)
    if hasattr(y, "to_numpy") and not isinstance(dtype, np.dtype) and not hasattr(y, "columns"):
        return np.asarray(y.to_numpy(dtype=object))  # Categorical, Int64, string, boolean
    values = np.asarray(y)
    if values.dtype.kind == "U" and isinstance(y, list | tuple):
        return np.array(y, object)  # NumPy would turn None, NaN and -1 among text into text
    return values


def _is_missing(label: Any) -> bool:
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(label, Number):
        return bool(label != label) or (
            isinstance(label, Integral | float) and label == UNLABELLED
        )  # NaN differs from itself
    return False


def _as_one_kind(labels: np.ndarray) -> np.ndarray:
    """Convert an array of objects to one of numbers or of text."""
    known = np.array(labels.tolist())
    if known.dtype.kind not in "biuf" and not all(isinstance(label, str) for label in labels):
        raise ValueError("Labels must be all text or all numbers, with -1 or None where there is no label.")
    return known


def _warn_of_names_for_missing(classes: np.ndarray) -> None:
    if classes.dtype.kind != "U":
        return
    for name in ("", str(UNLABELLED)):
        if name in classes:
            warnings.warn(
                f"y has the text {name!r} as a label, which becomes a class of its own. If it stands for points "
                "without a label, replace it by -1, None or NaN.",
                TPNWarning,
                stacklevel=5,
            )


def _encode_distributions(y: np.ndarray, names: Any) -> Labels:
    """Encode soft labels: a distribution over the classes in each row, or a row of zeros, -1 or NaN."""
    try:
        values = y.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"y has {y.shape[1]} columns: soft labels must be numbers.") from None
    labelled = ~(np.isnan(values).all(1) | (values == 0).all(1) | (values == UNLABELLED).all(1))
    rows = values[labelled]
    if not len(rows):
        raise ValueError("There are no labels: every row of y is zero, -1 or missing.")
    if not np.isfinite(rows).all() or (rows < 0).any() or (np.abs(rows.sum(1) - 1) > SUM_TOLERANCE).any():
        raise ValueError("Soft labels must be class distributions: rows of y that are not negative and sum to 1.")
    classes = np.arange(y.shape[1]) if names is None else np.asarray(names)
    if (empty := rows.sum(0) <= 0).any():
        raise ValueError(f"No point has a label of class {classes[empty].tolist()[0]!r}: its column of y is zero.")
    places, codes = np.nonzero(rows)
    return Labels(classes, np.flatnonzero(labelled)[places], codes, rows[places, codes])
