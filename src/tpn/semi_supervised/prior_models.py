"""Prior models: graph-free class models fitted on the labelled points.

Their predictions are the prior of every point in the propagation.
"""

import inspect
import warnings
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from tpn.semi_supervised.evidence import Evidence, squared_lengths
from tpn.semi_supervised.label_encoding import MANY_CLASSES
from tpn.semi_supervised.neighbours import Points
from tpn.semi_supervised.threads import threads

REGULARISATION = 30.0
"""C of the logistic regression, for points of length one."""
TEMPERATURE = 12.0
"""The factor of the cosine to a class mean before the softmax."""
MOST_ITERATIONS = 1000
LINEAR_TOLERANCE = 1e-5
"""So small that it does not matter where the logistic regression starts."""
MOST_LINEAR_CLASSES = 300
"""With more classes "auto" takes prototypes: a linear model takes too long."""
MOST_FEATURES = 1024
"""With more features "auto" does not take linear discriminant analysis: a covariance matrix would be too large."""
SHRINKAGE = 0.1
"""Of a covariance matrix towards a multiple of the identity, beside what the number of points asks for."""

SMALLEST_RIDGE = 1e-4
"""The least variance within classes in each direction, as a fraction of the variance of all points."""


@runtime_checkable
class PriorModel(Protocol):
    """A class model on points."""

    def fit(self, evidence: Evidence, start: "Any | None") -> "PriorModel":
        """Fit the model. `start` is a model of the same kind and classes to begin with, if there is one."""

    def predict_proba(self, points: Points) -> np.ndarray:
        """Return the probability of each class for each point, after standardisation."""

    def reorder(self, places: np.ndarray) -> "PriorModel | None":
        """Return a model to start from, whose classes are those at these places or new ones (-1), if there is one."""


def build_prior_model(
    estimator: Any, n_classes: int, class_balance: np.ndarray | None, shape: tuple[int, int], dense: bool
) -> PriorModel:
    """Build the prior model that the parameter `estimator` of LabelPropagator names."""
    n_features = shape[1]
    if not isinstance(estimator, str):
        return ClassifierModel(estimator)
    if estimator == "none" or not n_features:
        return ConstantModel(np.full(n_classes, 1 / n_classes) if class_balance is None else class_balance)
    if estimator == "discriminant" and not dense:
        raise ValueError('The \'estimator\' parameter cannot be "discriminant" for sparse points: use "linear".')
    if uses_discriminant(estimator, shape, dense):
        return DiscriminantModel()
    if estimator == "auto":
        estimator = "linear" if n_classes <= MOST_LINEAR_CLASSES else "prototypes"
    return LinearModel() if estimator == "linear" else PrototypeModel()


def uses_discriminant(estimator: Any, shape: tuple[int, int], dense: bool) -> bool:
    """Return whether the prior model that the parameter `estimator` names is discriminant analysis."""
    if not isinstance(estimator, str) or not dense or not shape[1]:
        return False
    return estimator == "discriminant" or (estimator == "auto" and shape[1] <= min(shape[0], MOST_FEATURES))


class DiscriminantModel:
    """Linear discriminant analysis on all points, each weighted by its probability of each class.

    The covariance within classes is that of all points less that of the class means, so a round costs no more than the
    means. Before the first propagation only the means of labelled points are known, and the covariance of all points
    stands in for that within classes. There is nothing to iterate: the same scores give the same model.
    """

    def fit(self, evidence: Evidence, start: Any | None) -> "DiscriminantModel":
        sums, sizes = evidence.class_sums()
        means = sums / sizes[:, None]
        covariance = evidence.moment.copy()
        if evidence.scores is not None:
            with threads(1):  # so small that several threads take longer, and keep waiting for more
                covariance -= (means * (sizes / sizes.sum())[:, None]).T @ means
        noise = len(covariance) / evidence.standardise.points.shape[0]  # a covariance of few points is mostly noise
        ridge = (SHRINKAGE + noise) * np.trace(covariance) / len(covariance)
        least = SMALLEST_RIDGE * np.trace(evidence.moment) / len(covariance)  # rounding could make eigenvalues negative
        covariance[np.diag_indices_from(covariance)] += max(ridge, least, 1e-9)
        with threads(1):  # so small that several threads take longer
            self.coef = np.linalg.solve(covariance, means.T).T
        self.covariance, self.means = covariance, means
        self.intercept = -np.vecdot(means, self.coef) / 2
        return self

    def predict_proba(self, points: Points) -> np.ndarray:
        scores = np.asarray(points @ self.coef.T.astype(points.dtype))
        scores += self.intercept.astype(points.dtype)
        return _softmax(scores)

    def reorder(self, places: np.ndarray) -> None:
        return None


class LinearModel:
    """Logistic regression."""

    coef: np.ndarray
    intercept: np.ndarray

    def fit(self, evidence: Evidence, start: "LinearModel | None") -> "LinearModel":
        points, labels, weights = evidence.examples()
        model = LogisticRegression(C=REGULARISATION, max_iter=MOST_ITERATIONS, tol=LINEAR_TOLERANCE, warm_start=True)
        if start is not None:
            model.coef_, model.intercept_ = start.coef, start.intercept
            if len(start.coef) == 2:  # one row of numbers tells two classes apart
                model.coef_, model.intercept_ = np.diff(start.coef, axis=0), np.diff(start.intercept)
        with warnings.catch_warnings(), threads(1):  # its matrices are so small that several threads take longer
            warnings.simplefilter("ignore", ConvergenceWarning)  # good enough as a prior
            warnings.filterwarnings("ignore", MANY_CLASSES)
            model.fit(points, labels, weights)
        self.coef, self.intercept = model.coef_, model.intercept_
        if len(self.coef) == 1:
            self.coef = np.concatenate([-self.coef / 2, self.coef / 2])
            self.intercept = np.concatenate([-self.intercept / 2, self.intercept / 2])
        return self

    def predict_proba(self, points: Points) -> np.ndarray:
        scores = np.asarray(points @ self.coef.T.astype(points.dtype))
        scores += self.intercept.astype(points.dtype)
        return _softmax(scores)

    def reorder(self, places: np.ndarray) -> "LinearModel":
        other, new = LinearModel(), places < 0
        other.coef, other.intercept = self.coef[places], self.intercept[places]
        other.coef[new], other.intercept[new] = self.coef.mean(0), self.intercept.min()
        return other


class PrototypeModel:
    """Softmax over the cosines to the class means."""

    def fit(self, evidence: Evidence, start: Any | None) -> "PrototypeModel":
        points, labels, weights = evidence.examples()
        number = int(labels.max()) + 1
        places = (labels, np.arange(len(labels)))
        members = sparse.csr_array((weights.astype(points.dtype), places), shape=(number, len(labels)))
        sums = members @ points
        self.prototypes = _directions(sums.toarray() if sparse.issparse(sums) else sums)
        return self

    def predict_proba(self, points: Points) -> np.ndarray:
        lengths = np.sqrt(squared_lengths(points))
        scores = np.asarray(points @ self.prototypes.T) * (TEMPERATURE / np.where(lengths > 0, lengths, 1))[:, None]
        return _softmax(scores.astype(points.dtype, copy=False))

    def reorder(self, places: np.ndarray) -> None:
        return None


class ConstantModel:
    """The same class balance for every point."""

    def __init__(self, class_balance: np.ndarray) -> None:
        self.class_balance = class_balance

    def fit(self, evidence: Evidence, start: Any | None) -> "ConstantModel":
        return self

    def predict_proba(self, points: Points) -> np.ndarray:
        return np.tile(self.class_balance.astype(points.dtype), (points.shape[0], 1))

    def reorder(self, places: np.ndarray) -> None:
        return None


class ClassifierModel:
    """Any classifier of scikit-learn's kind, with `predict_proba`."""

    def __init__(self, classifier: Any) -> None:
        self.classifier = clone(classifier)
        self._weighted = "sample_weight" in inspect.signature(self.classifier.fit).parameters

    def fit(self, evidence: Evidence, start: Any | None) -> "ClassifierModel":
        points, labels, weights = evidence.examples()
        self.classifier.fit(points, labels, **({"sample_weight": weights} if self._weighted else {}))
        self._number = int(labels.max()) + 1
        return self

    def predict_proba(self, points: Points) -> np.ndarray:
        found = np.asarray(self.classifier.predict_proba(points), points.dtype)
        if found.shape[1] == self._number:
            return found
        probabilities = np.zeros((points.shape[0], self._number), points.dtype)
        probabilities[:, self.classifier.classes_] = found
        return probabilities

    def reorder(self, places: np.ndarray) -> None:
        return None


def _softmax(scores: np.ndarray) -> np.ndarray:
    """Compute the softmax of each row in place."""
    scores -= scores.max(1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(1, keepdims=True)
    return scores


def _directions(vectors: np.ndarray) -> np.ndarray:
    lengths = np.sqrt(np.square(vectors).sum(1, keepdims=True))
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1))
