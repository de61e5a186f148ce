"""What labelled points say of others directly, without a graph: a linear model, or the nearest class mean."""

import warnings
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from tpn.semi_supervised.neighbours import Points
from tpn.semi_supervised.threads import threads

REGULARISATION = 30.0
"""C of the logistic regression, for points of length one."""
SHARPNESS = 12.0
"""What the cosine to a class mean is multiplied by before the softmax."""
MOST_ITERATIONS = 200
MOST_LINEAR = 300
"""With more classes than this a linear model takes too long, and class means take its place."""
MOST_MEASURED = 100_000
"""Points that decide on the scale."""
ROWS = 2**15
"""Points that are looked at at once."""


@runtime_checkable
class Direct(Protocol):
    """A model of the classes."""

    def fit(self, points: Points, labels: np.ndarray) -> "Direct":
        """Learn from these points; labels are numbers from 0, every class among them."""

    def proba(self, points: Points) -> np.ndarray:
        """The share of each class in each point."""


class Scaled:
    """A model of points that are moved around zero (if they are dense), and scaled to length one on average."""

    def __init__(self, model: Direct, points: Points) -> None:
        self.model = model
        some = points[:: max(1, points.shape[0] // MOST_MEASURED)]
        self.centre: Any = 0 if sparse.issparse(some) else some.mean(0)
        self.length = np.asarray(np.sqrt(_squares(self._moved(some)).mean()) or 1).astype(points.dtype)

    def fit(self, points: Points, labels: np.ndarray) -> "Scaled":
        self.model.fit(self._moved(points) / self.length, labels)
        return self

    def proba(self, points: Points) -> np.ndarray:
        parts = [points[first : first + ROWS] for first in range(0, points.shape[0], ROWS)]
        return np.concatenate([self.model.proba(self._moved(part) / self.length) for part in parts])

    def _moved(self, points: Points) -> Points:
        return points if sparse.issparse(points) else points - self.centre


class Linear:
    """Logistic regression."""

    def __init__(self) -> None:
        self.model = LogisticRegression(C=REGULARISATION, max_iter=MOST_ITERATIONS, tol=1e-3, warm_start=True)

    def fit(self, points: Points, labels: np.ndarray) -> "Linear":
        with warnings.catch_warnings(), threads(1):  # its matrices are so small that several threads take longer
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is a start for the propagation, no result
            self.model.fit(points, labels)
        return self

    def proba(self, points: Points) -> np.ndarray:
        scores = np.asarray(points @ self.model.coef_.T.astype(points.dtype))
        scores += self.model.intercept_.astype(points.dtype)
        return _softmax(np.hstack([-scores / 2, scores / 2]) if scores.shape[1] == 1 else scores)


class Prototypes:
    """The class whose mean points in the most similar direction."""

    def fit(self, points: Points, labels: np.ndarray) -> "Prototypes":
        number = int(labels.max()) + 1
        places = (labels, np.arange(len(labels)))
        members = sparse.csr_array((np.ones(len(labels), points.dtype), places), shape=(number, len(labels)))
        means = members @ points
        self.means = _directions(means.toarray() if sparse.issparse(means) else means)
        return self

    def proba(self, points: Points) -> np.ndarray:
        lengths = np.sqrt(_squares(points))
        scores = np.asarray(points @ self.means.T) * (SHARPNESS / np.where(lengths > 0, lengths, 1))[:, None]
        return _softmax(scores.astype(points.dtype, copy=False))


class Nothing:
    """Every class alike, or as given."""

    def __init__(self, prior: np.ndarray) -> None:
        self.prior = prior

    def fit(self, points: Points, labels: np.ndarray) -> "Nothing":
        return self

    def proba(self, points: Points) -> np.ndarray:
        return np.tile(self.prior.astype(points.dtype), (points.shape[0], 1))


def _softmax(scores: np.ndarray) -> np.ndarray:
    """Shares, in place of scores."""
    scores -= scores.max(1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(1, keepdims=True)
    return scores


def _squares(points: Any) -> np.ndarray:
    """The squared length of each point."""
    if sparse.issparse(points):
        return np.asarray(points.multiply(points).sum(1)).ravel()
    return np.asarray(np.square(points).sum(1))


def _directions(vectors: np.ndarray) -> np.ndarray:
    lengths = np.sqrt(np.square(vectors).sum(1, keepdims=True))
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1))
