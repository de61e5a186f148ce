"""Propagation of labels on a graph that is there: after `fit`, after a change of the labels, or from a file."""

import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from tpn.errors import TPNWarning
from tpn.semi_supervised import postprocessing as post
from tpn.semi_supervised.label_encoding import Labels, encode
from tpn.semi_supervised.parameters import check_parameters, class_balance
from tpn.semi_supervised.point_graph import Edges, FittedGraph, PointGraph
from tpn.semi_supervised.prior_models import build_prior_model, uses_discriminant
from tpn.semi_supervised.transduction import Result, Settings, Transduction, automatic_alpha, automatic_rounds

if TYPE_CHECKING:
    from typing_extensions import Self


class GraphPropagation:
    """The part of LabelPropagator that needs the graph and the labels, but not the points as they were given."""

    alpha: Any
    estimator: Any
    rounds: Any
    class_prior: Any
    tol: float
    max_iter: int
    n_jobs: int | None
    n_features_in_: int
    classes_: np.ndarray
    transduction_: np.ndarray

    if TYPE_CHECKING:

        def _connect(self, points: Any) -> Edges: ...

        def _predict(self, edges: Edges) -> tuple[np.ndarray, np.ndarray]: ...

    def update(self, y: Any) -> "Self":
        """Propagate other labels on the same points.

        The graph stays, and every step starts from its last result, so this takes a fraction of the time of `fit`. The
        result is that of `fit`, within the tolerance.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            The labels of all points of `fit`, in the same form. Classes may appear or vanish.

        Returns
        -------
        self : LabelPropagator
        """
        if not hasattr(self, "_transduction"):
            check_is_fitted(self, "classes_")
        check_parameters(self)
        self._propagate(encode(y, self._n_samples))
        return self

    def save_graph(self, folder: str | Path) -> None:
        """Save the points and their graph to a folder, without labels, to be opened by `from_graph`.

        Parameters
        ----------
        folder : str or Path
            The folder, which is made if there is none. Its files are NumPy arrays; nothing in it executes code.
        """
        from tpn.semi_supervised.graph_files import save_graph

        if not hasattr(self, "_transduction"):
            check_is_fitted(self, "classes_")
        if not isinstance(self._graph, PointGraph):
            raise ValueError("save_graph saves only graphs that fit has built from points, not a precomputed graph.")
        details = {"n_samples": self._n_samples, "n_features": self.n_features_in_}
        save_graph(
            self._graph, Path(folder), details, {"sample_weight": self._sample_weight, "left_out": self._left_out}
        )

    @classmethod
    def from_graph(cls, folder: str | Path, **params: Any) -> "Self":
        """Open a graph that `save_graph` wrote: its arrays are memory-mapped, so that this takes almost no time.

        Parameters
        ----------
        folder : str or Path
            The folder.
        **params : Any
            Parameters that do not concern the graph: `alpha`, `estimator`, `rounds`, `class_prior`, `tol`, `max_iter`
            and `n_jobs`. Whether the graph is learned was decided when it was built.

        Returns
        -------
        model : LabelPropagator
            An estimator without labels: `update` propagates some.
        """
        from tpn.semi_supervised.graph_files import open_graph

        graph, details, arrays = open_graph(Path(folder), params.get("n_jobs"))
        own = {
            "n_neighbors": graph.n_neighbors,
            "metric": graph.metric,
            "search": graph.search,
            "learn_graph": graph.candidates is not None,
            "length_scale": "local" if graph.common_scale is None else graph.common_scale / graph.range.factor,
        }
        if twice := sorted(set(own) & set(params)):
            raise ValueError(f"{twice[0]} is a property of the saved graph ({own[twice[0]]!r}): leave it out.")
        model = cls(**own, **params)
        model.n_features_in_ = int(details["n_features"])
        model._start(graph, int(details["n_samples"]), arrays.get("sample_weight"))
        model._left_out = arrays.get("left_out")
        return model

    def _start(self, graph: FittedGraph, n_samples: int, sample_weight: np.ndarray | None) -> None:
        self._graph, self._n_samples, self._sample_weight = graph, n_samples, sample_weight
        workers = effective_n_jobs(self.n_jobs)
        self._transduction = Transduction(graph, workers)
        self._left_out: Any = None
        self._result: Result | None = None

    def _propagate(self, labels: Labels) -> None:
        """Propagate labels on the graph, from the last result if there is one."""
        nodes, number = self._graph.nodes, self._graph.points.shape[0]
        known = labels.of_nodes(nodes, number, self._sample_weight)
        settings = self._settings(labels.classes, float(known.sum()))
        points = self._graph.points
        kind = (points.shape, not sparse.issparse(points))
        build = partial(build_prior_model, self.estimator, len(labels.classes), settings.class_balance, *kind)
        previous = self._result
        if previous is not None and not np.array_equal(self.classes_, labels.classes):
            places = {class_: place for place, class_ in enumerate(self.classes_.tolist())}
            previous = previous.reorder(np.array([places.get(class_, -1) for class_ in labels.classes.tolist()]))
        result = self._transduction.run(known, settings, build, previous)
        self._result, self.classes_, self.n_iter_ = result, labels.classes, max(1, result.iterations)
        self._alpha = settings.alpha
        self._describe(result, labels)
        self._warn_of_unreached()
        if not result.converged:
            warnings.warn(
                f"The propagation did not converge in {self.max_iter} iterations: increase max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _describe(self, result: Result, labels: Labels) -> None:
        """Set the attributes of all points from the result of their nodes."""
        nodes, component = self._graph.nodes, result.graph.component
        predicted, unlabelled = result.probabilities.argmax(1), ~result.labelled
        self._usual_walks = post.usual_walks(result.walks, predicted, unlabelled, len(labels.classes))
        self.unreached_ = nodes.expand(~np.isin(component, component[result.labelled]))
        self.label_distributions_ = nodes.expand(result.probabilities)
        self.familiarity_ = nodes.expand(post.familiarity(result.walks, self._usual_walks[predicted]))
        self.familiarity_[labels.points] = 1
        if nodes.node_of is not None:  # copies may have been given different labels
            self.label_distributions_[labels.points] = 0
            self.label_distributions_[labels.points, labels.codes] = labels.shares
        if self._left_out is not None:  # points without weight, as if they were new
            edges = self._connect(self._left_out)
            places = np.flatnonzero(nodes.of(np.arange(self._n_samples)) < 0)
            self.label_distributions_[places], self.familiarity_[places] = self._predict(edges)
            self.unreached_[places] = False
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]

    def _settings(self, classes: np.ndarray, n_labels: float) -> Settings:
        constant = isinstance(self.estimator, str) and self.estimator == "none"
        points = self._graph.points
        learned = (
            self._graph.candidates is not None
            and uses_discriminant(self.estimator, points.shape, not sparse.issparse(points))
            and self.rounds != 0
        )
        rounds = automatic_rounds(learned) if isinstance(self.rounds, str) else self.rounds
        return Settings(
            alpha=automatic_alpha(n_labels / len(classes), learned) if isinstance(self.alpha, str) else self.alpha,
            rounds=rounds if points.shape[1] and not constant else 0,
            tol=self.tol,
            max_iter=self.max_iter,
            workers=effective_n_jobs(self.n_jobs),
            correct_balance=self.class_prior is not None,
            class_balance=class_balance(self.class_prior, classes),
        )

    def _warn_of_unreached(self) -> None:
        if n_unreached := int(self.unreached_.sum()):
            warnings.warn(
                f"No label reaches {n_unreached} of {self._n_samples} points on the graph: their labels are those of "
                "the prior model alone. A larger n_neighbors connects more points.",
                TPNWarning,
                stacklevel=4,
            )
