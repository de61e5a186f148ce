"""Prediction for points that were not there when the graph was built."""

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tpn.semi_supervised import postprocessing as post
from tpn.semi_supervised.neighbours import Points
from tpn.semi_supervised.parameters import float_types
from tpn.semi_supervised.point_graph import Edges, FittedGraph
from tpn.semi_supervised.transduction import WALK_CONTINUATION, Result, Transduction


class OutOfSamplePrediction(ClassifierMixin):  # type: ignore[misc]
    """Predicts new points from their edges to the points of `fit`, and from the prior model."""

    classes_: np.ndarray
    _graph: FittedGraph
    _transduction: Transduction
    _result: Result
    _usual_walks: np.ndarray
    _alpha: float

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the class probabilities of new points, from their neighbours among the points of `fit` and the prior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            New points.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            The probability of each class, in the order of `classes_`, given that a point is of one of them.
        """
        return self._predict(self._edges(X))[0]

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of new points.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            New points.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The most probable class of each point.
        """
        best = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[best])

    def familiarity(self, X: Any) -> np.ndarray:
        """Compute how familiar new points are.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            New points.

        Returns
        -------
        familiarity : ndarray of shape (n_samples,)
            From 0 to 1, as `familiarity_`; low for points of none of the classes, and for points far from all points of
            `fit`.
        """
        return self._predict(self._edges(X))[1]

    def _edges(self, X: Any) -> Edges:
        check_is_fitted(self, "classes_")
        X = validate_data(self, X, accept_sparse="csr", dtype=float_types(X), reset=False)
        return self._connect(X)

    def _connect(self, points: Points) -> Edges:
        """Connect new points with the nodes of the last graph."""
        learned = self._result.learned
        return self._graph.edges_from(points, partial(self._transduction.compare, learned) if learned else None)

    def _predict(self, edges: Edges) -> tuple[np.ndarray, np.ndarray]:
        """Return the class probabilities and the familiarity of new points, given their edges."""
        result = self._result
        total = np.asarray(edges.weights.sum(1)).reshape(-1, 1)
        reached = total > 0
        edges.weights.data /= np.repeat(np.where(reached, total, 1), np.diff(edges.weights.indptr))
        alpha = np.where(reached, self._alpha, 0).astype(result.propagated.dtype)
        prior = self._transduction.prior(result.last.model, edges.points)
        scores = alpha * (edges.weights @ result.propagated) + (1 - alpha) * prior
        balanced = post.balance_classes(scores, result.last.factors)
        probabilities = post.calibrate(balanced, result.calibration)
        walks = WALK_CONTINUATION * (edges.weights @ result.walks)
        familiar = post.familiarity(walks, self._usual_walks[probabilities.argmax(1)])
        return probabilities, familiar * post.nearness(edges.crowding)
