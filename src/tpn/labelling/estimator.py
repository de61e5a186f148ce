"""Label propagation as a scikit-learn estimator, for thousands to millions of points."""

import warnings
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from tpn.errors import TPNWarning
from tpn.labelling import graph as graphs
from tpn.labelling.direct import MOST_LINEAR, Direct, Linear, Nothing, Prototypes, Scaled
from tpn.labelling.features import factor_into_range
from tpn.labelling.neighbours import Neighbours, Points, Search
from tpn.labelling.solver import Spreading

UNLABELLED = -1
CONFIDENT_SHARE = 0.5
"""The share of each class, the surest first, that the direct model learns from in the next round."""
MOST_LEARNED = 5_000
"""It learns from no more points than this."""
SHARPNESS = 1.7
"""The power that makes shares probabilities: means over neighbours are less sure than they ought to be."""
BALANCING_STEPS = 20
ROUGHLY = 1e-2
"""The tolerance of all rounds but the last."""


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
    label_distributions_ : the probability of each class for each point of `fit`.
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
        y = column_or_1d(y, warn=True)
        if len(y) != X.shape[0]:
            raise ValueError(f"Found input variables with inconsistent numbers of samples: {[X.shape[0], len(y)]}")
        if y.dtype.kind == "f":
            assert_all_finite(y, input_name="y")
        labelled = is_labelled(y)
        if not labelled.any():
            raise ValueError("There are no labels: all of y is -1.")
        known = as_one_kind(y[labelled]) if y.dtype == object else y[labelled]
        check_classification_targets(known)
        self.classes_, of_known = np.unique(known, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"There must be at least two classes; there is one class only: {self.classes_[0]!r}.")
        codes = np.full(len(y), UNLABELLED)
        codes[labelled] = of_known
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
        rounds = 0 if self.direct == "none" or fixed.all() else self.rounds
        spreading, system = None, Spreading(graph, fixed, self.alpha, self._neighbours.workers)
        for turn in range(rounds + 1):
            said = self._model.fit(points[learned], labels).proba(points)
            tol = self.tol if turn == rounds else max(self.tol, ROUGHLY)
            solution = system.solve(given, said, tol, self.max_iter, spreading)
            spreading = solution.values
            self._factors = self._balance(spreading[~fixed], len(labelled))
            shares = self._as_shares(spreading)
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
        self.label_distributions_ = self._as_probabilities(spreading)
        self.label_distributions_[fixed] = given

    def _build_model(self, number: int) -> Direct:
        if self.direct == "none":
            return Nothing(self._prior if self._prior is not None else np.full(number, 1 / number))
        linear = self.direct == "linear" or (self.direct == "auto" and number <= MOST_LINEAR)
        return Linear() if linear else Prototypes()

    def _balance(self, shares: np.ndarray, labelled: int) -> np.ndarray:
        """A factor for each class that brings it to its share of the unlabelled points."""
        number = shares.shape[1]
        factors = np.ones(number)
        if self.class_prior is None or not len(shares):
            return factors
        target = self._prior
        if target is None:
            equality = 1 / (1 + labelled / number)
            target = np.maximum(shares.mean(0, dtype=np.float64), 1e-12) ** (1 - equality)
            target = target / target.sum()
        least = np.finfo(shares.dtype).tiny
        for _ in range(BALANCING_STEPS):
            scaled = shares * factors.astype(shares.dtype)
            masses = (scaled / np.maximum(scaled.sum(1, keepdims=True), least)).mean(0, dtype=np.float64)
            change = target / np.maximum(masses, 1e-12)
            factors *= change
            if np.abs(change - 1).max() < 1e-2:
                break
        return np.asarray(factors / factors.max())

    def _as_shares(self, spreading: np.ndarray) -> np.ndarray:
        scaled: np.ndarray = np.maximum(spreading, np.finfo(spreading.dtype).tiny) * self._factors.astype(
            spreading.dtype
        )
        return np.asarray(scaled / scaled.sum(1, keepdims=True))

    def _as_probabilities(self, spreading: np.ndarray) -> np.ndarray:
        sharp = self._as_shares(spreading)
        sharp = (sharp / sharp.max(1, keepdims=True)) ** SHARPNESS
        return np.asarray(sharp / sharp.sum(1, keepdims=True))

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
        return self._as_probabilities(alpha * near + (1 - alpha) * self._model.proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each new point."""
        best = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[best])


def is_labelled(y: np.ndarray) -> np.ndarray:
    """Which points have a label. NumPy makes text of a -1 among text: it is no label either."""
    if y.dtype == object:
        return np.array([not (isinstance(label, Integral) and label == UNLABELLED) for label in y], bool)
    if y.dtype.kind == "U":
        return np.asarray(y != str(UNLABELLED))
    return np.asarray(y != UNLABELLED) if y.dtype.kind in "iuf" else np.ones(len(y), bool)


def as_one_kind(labels: np.ndarray) -> np.ndarray:
    """Labels that were any objects as an array of numbers or of text."""
    known = np.array(labels.tolist())
    if known.dtype.kind not in "biuf" and not all(isinstance(label, str) for label in labels):
        raise ValueError("Labels must be all text or all numbers, with -1 where there is no label.")
    return known


def surest(shares: np.ndarray, free: np.ndarray, most: int) -> np.ndarray:
    """The surest points of each class: half of those that are in it most probably, as far as there is room."""
    best = shares.argmax(1)
    sureness = shares[np.arange(len(shares)), best]
    order = np.lexsort((-sureness, best))
    order = order[free[order]]
    members = best[order]
    starts = np.searchsorted(members, members)
    rank = np.arange(len(order)) - starts
    sizes = np.bincount(members, minlength=shares.shape[1])[members]
    room = max(1, most // shares.shape[1])
    return np.asarray(order[rank < np.minimum(np.ceil(CONFIDENT_SHARE * sizes), room)])
