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
from tpn.semi_supervised import sparse_graph as graphs
from tpn.semi_supervised.conjugate_gradients import Spreading
from tpn.semi_supervised.feature_scaling import factor_into_range
from tpn.semi_supervised.label_encoding import encode
from tpn.semi_supervised.neighbours import Neighbours, Points, Search
from tpn.semi_supervised.postprocessing import as_probabilities, balanced, class_factors, familiarity, surest
from tpn.semi_supervised.prior_models import MOST_LINEAR, Direct, Linear, Nothing, Prototypes, Scaled

MOST_LEARNED = 5_000
"""The direct model learns from no more of the surest points than this."""
ROUGHLY = 1e-2
"""The tolerance of all rounds but the last."""
STRIDE = 0.9
"""The chance of each step of the walks that are to arrive at a label."""


class LabelPropagator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Spread a few labels to all other points.

    Points are the nodes of a graph of nearest neighbours, with weights exp(-d²/(σ_i σ_j)) and a length scale σ for each
    point. A linear model learns from the labelled points, and says of every point which class it may be. Then each
    point becomes the mean of what its neighbours are (`alpha`) and what the model says (1 - `alpha`), all at once, by
    conjugate gradients; labels that are given stay. The model learns again, from the surest half of each class too, and
    so on for a few rounds. Each class is drawn towards an equal share of the points, the more the fewer labels there
    are; or towards the share that is known.

    Parameters
    ----------
    n_neighbors : neighbours of each point in the graph.
    alpha : how much of what a point becomes comes from its neighbours, at least 0 and below 1.
    direct : what labelled points say of others directly: a "linear" model, "prototypes" (class means), "none", or
        "auto" (linear; prototypes where there are more than 300 classes).
    rounds : how often the direct model learns again from what came out.
    class_prior : the share of each class among the unlabelled points, in the order of `classes_`; "estimated"; or None,
        which leaves the shares as they come out.
    length_scale : "local", the distance of each point's seventh neighbour; or one number for all points.
    search : how neighbours are found: "exact", "approximate", or "auto" (exact up to 10,000 points). Sparse points are
        always searched exactly.
    tol, max_iter : when the propagation ends: relative to what is to be reached, and in iterations.
    n_jobs : threads for the search; None is all.

    Attributes
    ----------
    classes_ : the labels that occur, sorted.
    transduction_ : the label of each point of `fit`.
    label_distributions_ : the probability of each class for each point of `fit`, if it is of one of them.
    familiarity_ : from 0 to 1, how far each point of `fit` is of one of the classes at all: how many random walks on
        the graph come from it to a label, compared with other points of its class.
    unreached_ : which of the points no label reaches on the graph. They have what the direct model says.
    n_iter_ : iterations of the last propagation (at least 1).

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

    References
    ----------
    Zhou, Bousquet, Lal, Weston and Schölkopf, "Learning with Local and Global Consistency", NIPS 2003.
    Zelnik-Manor and Perona, "Self-Tuning Spectral Clustering", NIPS 2004.
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 (scikit-learn's name, and kind)
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, 1, closed="left")],
        "direct": [StrOptions({"auto", "linear", "prototypes", "none"})],
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
        direct: Literal["auto", "linear", "prototypes", "none"] = "auto",
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
        self.direct = direct
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
        """Spread the labels `y` over the points `X`; -1 stands where there is no label."""
        X, codes = self._take(X, y)
        self._factor = factor_into_range(X)
        X = X if self._factor == 1 else X * X.dtype.type(self._factor)
        fixed = codes >= 0
        number = len(self.classes_)
        given = np.eye(number, dtype=X.dtype)[codes[fixed]]
        self._prior = self._check_prior(number)
        self._scale = None if self.length_scale == "local" else float(self.length_scale) * self._factor
        self._neighbours = Neighbours(X, self.n_neighbors, self.search, self.n_jobs)
        graph, self._scales = graphs.connect(self._neighbours, self._scale)
        self._tell_of_unreached(graph, fixed)
        self._propagate(graph, X, codes, fixed, given)
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]
        return self

    def _take(self, X: Any, y: Any) -> tuple[Points, np.ndarray]:
        """Check points and labels. Labels become numbers from 0, in the order of `classes_`."""
        if y is None:
            raise ValueError("This LabelPropagator estimator requires y to be passed, but the target y is None.")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        self.classes_, codes = encode(y, X.shape[0])
        return X, codes

    def _check_prior(self, number: int) -> np.ndarray | None:
        """Known shares of the classes, if they are."""
        if self.class_prior is None or isinstance(self.class_prior, str):
            return None
        prior = np.asarray(self.class_prior, np.float64)
        if prior.shape != (number,) or not np.isfinite(prior).all() or (prior <= 0).any():
            raise ValueError(f"class_prior must be {number} positive numbers, one for each class: {prior}.")
        return np.asarray(prior / prior.sum())

    def _tell_of_unreached(self, graph: sparse.csr_array, fixed: np.ndarray) -> None:
        _, component = connected_components(graph, connection="strong")  # faster, and the same: it is symmetric
        self.unreached_ = ~np.isin(component, component[fixed])
        if self.unreached_.any():
            warnings.warn(
                f"No label reaches {self.unreached_.sum()} of {len(fixed)} points on the graph: they have what the "
                "labelled points say of them directly. More neighbours (n_neighbors) connect more.",
                TPNWarning,
                stacklevel=3,
            )

    def _propagate(
        self, graph: sparse.csr_array, points: Points, codes: np.ndarray, fixed: np.ndarray, given: np.ndarray
    ) -> None:
        """Let the direct model and the graph take turns."""
        self._model = Scaled(self._build_model(given.shape[1]), points)
        labelled = np.flatnonzero(fixed)
        learned, labels = labelled, codes[labelled]
        self._factors = np.ones(given.shape[1])
        rounds = 0 if self.direct == "none" or fixed.all() else self.rounds
        spreading, system = None, Spreading(graph, fixed, self._neighbours.workers)
        for turn in range(rounds + 1):
            said = self._model.fit(points[learned], labels).proba(points)
            tol = self.tol if turn == rounds else max(self.tol, ROUGHLY)
            solution = system.solve(given, said, self.alpha, tol, self.max_iter, spreading)
            spreading = solution.values
            if self.class_prior is not None:
                self._factors = class_factors(spreading[~fixed], len(labelled), self._prior)
            shares = balanced(spreading, self._factors)
            if turn < rounds:
                sure = surest(shares, ~fixed, MOST_LEARNED)
                learned = np.concatenate([labelled, sure])
                labels = np.concatenate([codes[labelled], shares[sure].argmax(1)])
        assert spreading is not None, "there is one round at least"
        if not solution.converged:
            warnings.warn(
                f"The propagation did not converge in {self.max_iter} iterations: give it more (max_iter), or a "
                "larger tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.n_iter_ = max(1, solution.iterations)
        self._spread: np.ndarray = spreading
        self.label_distributions_ = as_probabilities(shares)
        self.label_distributions_[fixed] = given
        walks = system.solve(np.ones_like(given[:, :1]), np.zeros_like(shares[:, :1]), STRIDE, ROUGHLY)
        best = self.label_distributions_.argmax(1)
        self.familiarity_ = familiarity(walks.values.ravel(), best, ~fixed, given.shape[1])

    def _build_model(self, number: int) -> Direct:
        if self.direct == "none":
            return Nothing(self._prior if self._prior is not None else np.full(number, 1 / number))
        linear = self.direct == "linear" or (self.direct == "auto" and number <= MOST_LINEAR)
        return Linear() if linear else Prototypes()

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class for new points: what their neighbours are, and what the model says of them."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        X = X.astype(self._neighbours.dtype, copy=False)
        X = X if self._factor == 1 else X * X.dtype.type(self._factor)
        squares, found = self._neighbours.of(X)
        scales = np.full(len(squares), self._scale, X.dtype) if self._scale else None
        scales = graphs.length_scales(squares, self._scales) if scales is None else scales
        weights = graphs.weights(squares, scales, self._scales[found])
        total = weights.sum(1, keepdims=True)
        starts = np.arange(0, weights.size + 1, weights.shape[1])
        tied = sparse.csr_array((weights.ravel(), found.ravel(), starts), shape=(len(found), len(self._spread)))
        near = tied @ self._spread / np.where(total > 0, total, 1)
        alpha = np.where(total > 0, self.alpha, 0).astype(X.dtype)
        shares = balanced(alpha * near + (1 - alpha) * self._model.proba(X), self._factors)
        return as_probabilities(shares)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each new point."""
        best = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[best])
