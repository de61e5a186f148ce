"""Prior models: graph-free class models fitted on the labelled points.

Their predictions are the prior of every point in the propagation.
"""

import warnings
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from tpn.semi_supervised.label_encoding import MANY_CLASSES
from tpn.semi_supervised.neighbours import Points
from tpn.semi_supervised.threads import threads

REGULARISATION = 30.0
"""C of the logistic regression, for points of length one."""
TEMPERATURE = 12.0
"""The factor of the cosine to a class mean before the softmax."""
MOST_ITERATIONS = 200
MOST_LINEAR_CLASSES = 300
"""With more classes "auto" takes prototypes: a linear model takes too long."""
MOST_MEASURED = 100_000
"""The most points from which mean and length are computed."""
ROWS = 2**15
"""Points that are predicted at once."""


@runtime_checkable
class PriorModel(Protocol):
    """A class model on points."""

    def fit(self, points: Points, labels: np.ndarray) -> "PriorModel":
        """Fit the model; labels are indices of classes, and each class occurs."""

    def predict_proba(self, points: Points) -> np.ndarray:
        """Return the probability of each class for each point."""


class Standardised:
    """A prior model on points that are centred (if they are dense) and scaled to a mean length of one."""

    def __init__(self, model: PriorModel, points: Points) -> None:
        self.model = model
        sample = points[:: max(1, points.shape[0] // MOST_MEASURED)]
        self.mean: Any = 0 if sparse.issparse(sample) else sample.mean(0)
        self.length = np.asarray(np.sqrt(_squares(self._centred(sample)).mean()) or 1).astype(points.dtype)

    def fit(self, points: Points, labels: np.ndarray) -> "Standardised":
        self.model.fit(self._centred(points) / self.length, labels)
        return self

    def predict_proba(self, points: Points) -> np.ndarray:
        parts = [points[first : first + ROWS] for first in range(0, points.shape[0], ROWS)]
        return np.concatenate([self.model.predict_proba(self._centred(part) / self.length) for part in parts])

    def _centred(self, points: Points) -> Points:
        return points if sparse.issparse(points) else points - self.mean


class LinearModel:
    """Logistic regression."""

    def __init__(self) -> None:
        self.model = LogisticRegression(C=REGULARISATION, max_iter=MOST_ITERATIONS, tol=1e-3, warm_start=True)

    def fit(self, points: Points, labels: np.ndarray) -> "LinearModel":
        with warnings.catch_warnings(), threads(1):  # its matrices are so small that several threads take longer
            warnings.simplefilter("ignore", ConvergenceWarning)  # good enough as a prior
            warnings.filterwarnings("ignore", MANY_CLASSES)
            self.model.fit(points, labels)
        return self

    def predict_proba(self, points: Points) -> np.ndarray:
        scores = np.asarray(points @ self.model.coef_.T.astype(points.dtype))
        scores += self.model.intercept_.astype(points.dtype)
        return _softmax(np.hstack([-scores / 2, scores / 2]) if scores.shape[1] == 1 else scores)


class PrototypeModel:
    """Softmax over the cosines to the class means."""

    def fit(self, points: Points, labels: np.ndarray) -> "PrototypeModel":
        number = int(labels.max()) + 1
        places = (labels, np.arange(len(labels)))
        members = sparse.csr_array((np.ones(len(labels), points.dtype), places), shape=(number, len(labels)))
        sums = members @ points
        self.prototypes = _directions(sums.toarray() if sparse.issparse(sums) else sums)
        return self

    def predict_proba(self, points: Points) -> np.ndarray:
        lengths = np.sqrt(_squares(points))
        scores = np.asarray(points @ self.prototypes.T) * (TEMPERATURE / np.where(lengths > 0, lengths, 1))[:, None]
        return _softmax(scores.astype(points.dtype, copy=False))


class ConstantModel:
    """The same class balance for every point."""

    def __init__(self, class_balance: np.ndarray) -> None:
        self.class_balance = class_balance

    def fit(self, points: Points, labels: np.ndarray) -> "ConstantModel":
        return self

    def predict_proba(self, points: Points) -> np.ndarray:
        return np.tile(self.class_balance.astype(points.dtype), (points.shape[0], 1))


def _softmax(scores: np.ndarray) -> np.ndarray:
    """Compute the softmax of each row in place."""
    scores -= scores.max(1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(1, keepdims=True)
    return scores


def _squares(points: Any) -> np.ndarray:
    """Return the squared length of each point."""
    if sparse.issparse(points):
        return np.asarray(points.multiply(points).sum(1)).ravel()
    return np.asarray(np.square(points).sum(1))


def _directions(vectors: np.ndarray) -> np.ndarray:
    lengths = np.sqrt(np.square(vectors).sum(1, keepdims=True))
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1))
