"""Label propagation as a scikit-learn estimator, for thousands to millions of points."""

from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from tpn.semi_supervised.graph_propagation import GraphPropagation
from tpn.semi_supervised.label_encoding import encode
from tpn.semi_supervised.learned_graph import MOST_NUMBERS, are_directions
from tpn.semi_supervised.neighbours import Search
from tpn.semi_supervised.out_of_sample import OutOfSamplePrediction
from tpn.semi_supervised.parameters import check_parameters, check_weights, float_types
from tpn.semi_supervised.point_graph import FittedGraph, PointGraph
from tpn.semi_supervised.precomputed_graph import PrecomputedGraph, looks_like_a_graph
from tpn.semi_supervised.prior_models import MOST_FEATURES, uses_discriminant

Metric: TypeAlias = Literal["euclidean", "cosine", "precomputed", "precomputed_affinity"]


class LabelPropagator(GraphPropagation, OutOfSamplePrediction, BaseEstimator):  # type: ignore[misc]
    """Label propagation from a few labelled points to all others.

    Points are the nodes of a k-nearest-neighbour graph with edge weights exp(-d²/(σ_i σ_j)) and a length scale σ for
    each point; identical points are one node with the weight of all. A prior model, by default linear discriminant
    analysis, is fitted on the labelled points and predicts a class distribution for every point. Propagation then makes
    each point the weighted mean of its neighbours (`alpha`) and of its prior (1 - `alpha`), for all points at once, by
    conjugate gradients; labelled points keep their label. The prior model is fitted again, now on all points with the
    probabilities that they have (discriminant analysis) or on the more confident half of each class (other models), and
    so on for a few rounds; with discriminant analysis, the graph is learned as well (`learn_graph`). Finally the class
    balance is corrected and the scores are turned into calibrated probabilities.

    Parameters
    ----------
    n_neighbors : int, default=10
        Neighbours of each point in the graph.
    alpha : "auto" or float, default="auto"
        The weight of the neighbours, in [0, 1); the rest is the weight of the prior. "auto" is 0.9 with a learned
        graph. Otherwise it is 0.8 + 0.1 / (labels per class), at most 0.9: the more labels, the better the prior model.
    estimator : {"auto", "discriminant", "linear", "prototypes", "none"} or classifier, default="auto"
        The prior model, fitted on the labelled points: linear discriminant analysis ("discriminant"), logistic
        regression ("linear"), a softmax over cosines to the class means ("prototypes"), the same class balance for all
        points ("none"), or any classifier with `predict_proba`. "auto" is "discriminant" if the
        points are dense, have at most 1,024 features and outnumber their features; otherwise "linear" up to 300 classes
        and "prototypes" beyond.
    rounds : "auto" or int, default="auto"
        How often the prior model is fitted again, on pseudo-labels. "auto" is 3 with a learned graph and 2 otherwise.
    learn_graph : "auto" or bool, default="auto"
        Whether the neighbours of each point are chosen anew in each round, among three times as many, by the angle
        between points after discriminant analysis has made classes compact. On features of images this is more
        accurate; it takes up to twice as long. It needs `estimator="discriminant"` (or "auto", where that is the same)
        and local length scales. "auto" does so for points that are directions: with metric="cosine", or if all of them
        have length one, as `FeatureScaler` makes them, and if they are at most 12 million numbers.
    class_prior : "estimated", array-like of shape (n_classes,), dict or None, default="estimated"
        The class balance of the unlabelled points, in the order of `classes_` or as a dict from class to balance.
        "estimated" draws the classes towards equal size, the more the fewer labels there are; None makes no correction.
    length_scale : "local" or float, default="local"
        The length scale of each point: the distance of its seventh neighbour ("local"), or one number for all.
    metric : {"euclidean", "cosine", "precomputed", "precomputed_affinity"}, default="euclidean"
        The distance between points. "cosine" scales points to length one first. "precomputed" takes X as a sparse graph
        of distances, as `KNeighborsTransformer` gives it (each stored entry is an edge), and "precomputed_affinity" as
        symmetric edge weights. Such a graph has no features, so there is no prior model, and `n_neighbors` and `search`
        have no effect.
    search : {"auto", "exact", "approximate"}, default="auto"
        How neighbours are found: "exact" compares all points, "approximate" uses an index of k-means trees, "auto" is
        exact up to 10,000 points. Sparse points are always searched exactly.
    tol : float, default=1e-3
        The propagation has converged when its residual is this small, relative to the right-hand side.
    max_iter : int, default=1000
        The maximum number of iterations of conjugate gradients.
    n_jobs : int or None, default=None
        The number of threads. None means 1 unless in a `joblib.parallel_config` context, -1 all processors.

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
    feature_names_in_ : ndarray of shape (n_features_in_,)
        The names of the features of `fit`, if they were given as a data frame with names that are text.

    See Also
    --------
    LabelledSplit : cross-validation where only some points have labels.
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

    def __init__(
        self,
        n_neighbors: int = 10,
        *,
        alpha: Literal["auto"] | float = "auto",
        estimator: Any = "auto",
        rounds: Literal["auto"] | int = "auto",
        learn_graph: Literal["auto"] | bool = "auto",
        class_prior: Any = "estimated",
        length_scale: Literal["local"] | float = "local",
        metric: Metric = "euclidean",
        search: Search = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.estimator = estimator
        self.rounds = rounds
        self.learn_graph = learn_graph
        self.class_prior = class_prior
        self.length_scale = length_scale
        self.metric = metric
        self.search = search
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        precomputed = isinstance(self.metric, str) and self.metric.startswith("precomputed")
        tags.input_tags.pairwise = tags.input_tags.positive_only = precomputed
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "LabelPropagator":
        """Build the graph and propagate labels to all points.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, n_samples)
            The points, labelled and unlabelled; or their graph, if `metric` is precomputed.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            The labels, numbers or text; -1, NaN, None or pandas' NA for unlabelled points. Or soft labels: a class
            distribution in each row, and zeros, -1 or NaN in rows of unlabelled points.
        sample_weight : array-like of shape (n_samples,), default=None
            The weight of each point: one of weight 2 counts as two copies of it, one of weight 0 takes no part but gets
            a label too. By default all have weight 1.

        Returns
        -------
        self : LabelPropagator
        """
        check_parameters(self)
        if y is None:
            raise ValueError("This LabelPropagator estimator requires y to be passed, but the target y is None.")
        X = validate_data(self, X, accept_sparse="csr", dtype=float_types(X))
        weights = check_weights(sample_weight, X.shape[0])
        labels = encode(y, X.shape[0])
        graph = self._build_graph(X, weights)
        self._start(graph, X.shape[0], weights)
        left_out = graph.nodes.of(np.arange(X.shape[0])) < 0
        self._left_out = X[left_out] if left_out.any() else None
        self._propagate(labels)
        return self

    def _build_graph(self, X: Any, weights: np.ndarray | None) -> FittedGraph:
        if self.metric == "precomputed":
            return PrecomputedGraph.from_distances(X, self.length_scale, weights)
        if self.metric == "precomputed_affinity":
            return PrecomputedGraph.from_affinities(X, weights)
        if looks_like_a_graph(X):
            raise ValueError(
                'X is a neighbour graph, not features: set metric="precomputed" for sparse distances, as '
                'KNeighborsTransformer gives them, or metric="precomputed_affinity" for symmetric affinities.'
            )
        return PointGraph.build(
            X,
            self.n_neighbors,
            metric=self.metric,
            length_scale=self.length_scale,
            search=self.search,
            n_jobs=self.n_jobs,
            sample_weight=weights,
            learned=self._learns(X),
        )

    def _learns(self, X: Any) -> bool:
        """Return whether the graph of these points is learned."""
        local = isinstance(self.length_scale, str)
        possible = local and self.rounds != 0 and uses_discriminant(self.estimator, X.shape, not sparse.issparse(X))
        if self.learn_graph == "auto":
            return possible and X.size <= MOST_NUMBERS and (self.metric == "cosine" or are_directions(X))
        if self.learn_graph and not possible:
            raise ValueError(
                "learn_graph=True needs discriminant analysis as prior model (dense points, more points than features, "
                f"at most {MOST_FEATURES} of them), at least one round, and length_scale='local'."
            )
        return bool(self.learn_graph)

    def fit_predict(self, X: Any, y: Any, sample_weight: Any = None) -> np.ndarray:
        """Build the graph, propagate labels, and return the label of each point.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points, labelled and unlabelled.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            The labels, as in `fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            The weight of each point, as in `fit`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            `transduction_`.
        """
        return self.fit(X, y, sample_weight).transduction_
