"""Label propagation as a scikit-learn estimator, for thousands to millions of points."""

import warnings
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from tpn.errors import TPNWarning
from tpn.semi_supervised import postprocessing as post
from tpn.semi_supervised import prior_models as priors
from tpn.semi_supervised import sparse_graph as graphs
from tpn.semi_supervised.conjugate_gradients import SparsePropagation
from tpn.semi_supervised.feature_scaling import factor_into_range
from tpn.semi_supervised.label_encoding import encode
from tpn.semi_supervised.neighbours import Neighbours, Points, Search
from tpn.semi_supervised.prior_models import PriorModel, Standardised

MOST_PSEUDO_LABELS = 5_000
"""The most pseudo-labelled points that the prior model is refitted on."""
ROUGH_TOLERANCE = 1e-2
"""The tolerance of all rounds but the last."""
WALK_CONTINUATION = 0.9
"""The probability of each further step of the random walks behind `familiarity_`."""


class LabelPropagator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Label propagation from a few labelled points to all others.

    Points are the nodes of a k-nearest-neighbour graph with edge weights exp(-d²/(σ_i σ_j)) and a length scale σ for
    each point. A prior model, by default logistic regression, is fitted on the labelled points and predicts a class
    distribution for every point. Propagation then makes each point the weighted mean of its neighbours (`alpha`) and of
    its prior (1 - `alpha`), for all points at once, by conjugate gradients; labelled points keep their label. The prior
    model is fitted again with the more confident half of each class as pseudo-labels, and so on for a few rounds.
    Finally the class balance is corrected and the scores are sharpened to calibrated probabilities.

    Parameters
    ----------
    n_neighbors : int, default=10
        Neighbours of each point in the graph.
    alpha : float, default=0.9
        The weight of the neighbours, in [0, 1); the rest is the weight of the prior.
    prior_model : {"auto", "linear", "prototypes", "none"}, default="auto"
        The class model on the labelled points: logistic regression ("linear"), a softmax over cosines to the class
        means ("prototypes") or the same class balance for all points ("none"). "auto" is "linear" up to 300 classes and
        "prototypes" beyond.
    rounds : int, default=2
        How often the prior model is fitted again with pseudo-labels.
    class_prior : "estimated", array-like of shape (n_classes,) or None, default="estimated"
        The class balance of the unlabelled points, in the order of `classes_`. "estimated" draws the classes towards
        equal size, the more the fewer labels there are; None makes no correction.
    length_scale : "local" or float, default="local"
        The length scale of each point: the distance of its seventh neighbour ("local"), or one number for all.
    search : {"auto", "exact", "approximate"}, default="auto"
        How neighbours are found: "exact" compares all points, "approximate" uses an index of k-means trees, "auto" is
        exact up to 10,000 points. Sparse points are always searched exactly.
    tol : float, default=1e-3
        The propagation has converged when its residual is this small, relative to the right-hand side.
    max_iter : int, default=1000
        The most iterations of conjugate gradients.
    n_jobs : int, default=None
        The number of threads; None and -1 use all cores.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    transduction_ : ndarray of shape (n_samples,)
        The label of each point of `fit`.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        The probability of each class for each point of `fit`, given that it is of one of them.
    familiarity_ : ndarray of shape (n_samples,)
        From 0 to 1, how familiar each point of `fit` is: how often random walks on the graph from it reach a labelled
        point, compared to others of its class. Low for points of none of the classes.
    unreached_ : ndarray of shape (n_samples,)
        Which points no label reaches on the graph. Their labels are those of the prior model.
    n_iter_ : int
        Iterations of the last propagation, at least 1.
    n_features_in_ : int
        The number of features of `fit`.

    See Also
    --------
    sklearn.semi_supervised.LabelSpreading : propagation on the graph alone, without a prior model.
    tpn.propagation : the propagation of few-shot episodes, on dense graphs of some hundred nodes with gradients.

    References
    ----------
    .. [1] Zhou, Bousquet, Lal, Weston and Schölkopf, "Learning with Local and Global Consistency", NIPS 2003.
    .. [2] Zelnik-Manor and Perona, "Self-Tuning Spectral Clustering", NIPS 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from tpn import LabelPropagator
    >>> X = np.concatenate([np.random.default_rng(0).normal(middle, 1, (50, 2)) for middle in (0, 6)])
    >>> y = np.full(100, -1)
    >>> y[[0, 50]] = 0, 1
    >>> model = LabelPropagator().fit(X, y)
    >>> bool((model.transduction_ == np.repeat([0, 1], 50)).all())
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 (as scikit-learn has it)
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, 1, closed="left")],
        "prior_model": [StrOptions({"auto", "linear", "prototypes", "none"})],
        "rounds": [Interval(Integral, 0, None, closed="left")],
        "class_prior": [None, StrOptions({"estimated"}), "array-like"],
        "length_scale": [StrOptions({"local"}), Interval(Real, 0, None, closed="neither")],
        "search": [StrOptions({"auto", "exact", "approximate"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        n_neighbors: int = 10,
        *,
        alpha: float = 0.9,
        prior_model: Literal["auto", "linear", "prototypes", "none"] = "auto",
        rounds: int = 2,
        class_prior: Any = "estimated",
        length_scale: Literal["local"] | float = "local",
        search: Search = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.prior_model = prior_model
        self.rounds = rounds
        self.class_prior = class_prior
        self.length_scale = length_scale
        self.search = search
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any) -> "LabelPropagator":
        """Propagate labels to all points.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points, labelled and unlabelled.
        y : array-like of shape (n_samples,)
            The labels, numbers or text; -1 for unlabelled points.

        Returns
        -------
        self : LabelPropagator
        """
        X, codes = self._validate(X, y)
        self._factor = factor_into_range(X)
        X = X if self._factor == 1 else X * X.dtype.type(self._factor)
        labelled = codes >= 0
        self._class_balance = self._known_class_balance(len(self.classes_))
        self._scale = None if self.length_scale == "local" else float(self.length_scale) * self._factor
        self._neighbours = Neighbours(X, self.n_neighbors, self.search, self.n_jobs)
        graph, self._scales = graphs.connect(self._neighbours, self._scale)
        self._find_unreached(graph, labelled)
        self._propagate(graph, X, codes, labelled)
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]
        return self

    def _validate(self, X: Any, y: Any) -> tuple[Points, np.ndarray]:
        """Check points and labels, and encode the labels as indices of `classes_`."""
        if y is None:
            raise ValueError("This LabelPropagator estimator requires y to be passed, but the target y is None.")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        self.classes_, codes = encode(y, X.shape[0])
        return X, codes

    def _known_class_balance(self, number: int) -> np.ndarray | None:
        """Return the class balance that the user gave, if any."""
        if self.class_prior is None or isinstance(self.class_prior, str):
            return None
        prior = np.asarray(self.class_prior, np.float64)
        if prior.shape != (number,) or not np.isfinite(prior).all() or (prior <= 0).any():
            raise ValueError(f"class_prior must be {number} positive numbers, one for each class: {prior}.")
        return np.asarray(prior / prior.sum())

    def _find_unreached(self, graph: sparse.csr_array, labelled: np.ndarray) -> None:
        _, component = connected_components(graph, connection="strong")  # faster, and the same: it is symmetric
        self.unreached_ = ~np.isin(component, component[labelled])
        if self.unreached_.any():
            warnings.warn(
                f"No label reaches {self.unreached_.sum()} of {len(labelled)} points on the graph: their labels are "
                "those of the prior model alone. More neighbours (n_neighbors) connect more points.",
                TPNWarning,
                stacklevel=3,
            )

    def _propagate(self, graph: sparse.csr_array, points: Points, codes: np.ndarray, labelled: np.ndarray) -> None:
        """Alternate between the prior model and the graph."""
        number = len(self.classes_)
        one_hot = np.eye(number, dtype=points.dtype)[codes[labelled]]
        self._model = Standardised(self._build_prior_model(number), points)
        given = np.flatnonzero(labelled)
        fitted, labels = given, codes[given]
        self._factors = np.ones(number)
        rounds = 0 if self.prior_model == "none" or labelled.all() else self.rounds
        propagated, system = None, SparsePropagation(graph, labelled, self._neighbours.workers)
        for turn in range(rounds + 1):
            prior = self._model.fit(points[fitted], labels).predict_proba(points)
            tol = self.tol if turn == rounds else max(self.tol, ROUGH_TOLERANCE)
            solution = system.solve(one_hot, prior, self.alpha, tol, self.max_iter, propagated)
            propagated = solution.values
            if self.class_prior is not None:
                self._factors = post.class_balance_factors(propagated[~labelled], len(given), self._class_balance)
            scores = post.balance_classes(propagated, self._factors)
            if turn < rounds:
                confident = post.most_confident(scores, ~labelled, MOST_PSEUDO_LABELS)
                fitted = np.concatenate([given, confident])
                labels = np.concatenate([codes[given], scores[confident].argmax(1)])
        assert propagated is not None, "there is at least one round"
        if not solution.converged:
            warnings.warn(
                f"The propagation did not converge in {self.max_iter} iterations: increase max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.n_iter_ = max(1, solution.iterations)
        self._propagated: np.ndarray = propagated
        self.label_distributions_ = post.sharpen(scores)
        self.label_distributions_[labelled] = one_hot
        walks = system.solve(
            np.ones_like(one_hot[:, :1]), np.zeros_like(scores[:, :1]), WALK_CONTINUATION, ROUGH_TOLERANCE
        )
        predicted = self.label_distributions_.argmax(1)
        self.familiarity_ = post.familiarity(walks.values.ravel(), predicted, ~labelled, number)

    def _build_prior_model(self, number: int) -> PriorModel:
        if self.prior_model == "none":
            return priors.ConstantModel(
                self._class_balance if self._class_balance is not None else np.full(number, 1 / number)
            )
        linear = self.prior_model == "linear" or (self.prior_model == "auto" and number <= priors.MOST_LINEAR_CLASSES)
        return priors.LinearModel() if linear else priors.PrototypeModel()

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the class probabilities of new points, from their neighbours among the points of `fit` and the prior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            New points.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The probability of each class, in the order of `classes_`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        X = X.astype(self._neighbours.dtype, copy=False)
        X = X if self._factor == 1 else X * X.dtype.type(self._factor)
        squares, found = self._neighbours.query(X)
        scales = np.full(len(squares), self._scale, X.dtype) if self._scale else None
        scales = graphs.length_scales(squares, self._scales) if scales is None else scales
        weights = graphs.edge_weights(squares, scales, self._scales[found])
        total = weights.sum(1, keepdims=True)
        starts = np.arange(0, weights.size + 1, weights.shape[1])
        edges = sparse.csr_array((weights.ravel(), found.ravel(), starts), shape=(len(found), len(self._propagated)))
        near = edges @ self._propagated / np.where(total > 0, total, 1)
        alpha = np.where(total > 0, self.alpha, 0).astype(X.dtype)
        scores = post.balance_classes(alpha * near + (1 - alpha) * self._model.predict_proba(X), self._factors)
        return post.sharpen(scores)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of new points.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            New points.

        Returns
        -------
        ndarray of shape (n_samples,)
            The most probable class of each point.
        """
        best = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[best])
