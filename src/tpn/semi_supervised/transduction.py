"""Transduction: prior model and graph in turns, from a few labels to class probabilities of all nodes.

What a change of the labels does not touch is kept: the first graph, the candidates of a learned one, and for each round
the weights of the prior model. Only the last round is solved to the tolerance, from the last solution. The rounds
before it serve to fit the prior model, and take few steps, always from zero: so they end the same, whatever was known
before.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import sparse

from tpn.semi_supervised import postprocessing as post
from tpn.semi_supervised import sparse_graph as graphs
from tpn.semi_supervised.conjugate_gradients import SparsePropagation, row_blocks
from tpn.semi_supervised.evidence import ROWS, Evidence, Standardisation
from tpn.semi_supervised.learned_graph import LearnedGraph, learn_graph, learned_metric, transformed
from tpn.semi_supervised.neighbours import Points
from tpn.semi_supervised.point_graph import FittedGraph
from tpn.semi_supervised.prior_models import DiscriminantModel, PriorModel
from tpn.semi_supervised.selection import nearest_of
from tpn.semi_supervised.sparse_graph import Graph
from tpn.semi_supervised.threads import threads

EARLY_TOLERANCE = 0.05
"""The tolerance of the rounds before the last, which start from zero. On features of validation and training classes
of miniImageNet (2 seeds), the accuracy with 5 labels of each class was the same as with 1e-3; with 1 label it was
between 1.0 points lower and 0.6 points higher."""
WALK_TOLERANCE = 1e-2
"""The tolerance of the random walks behind `familiarity_`."""
WALK_CONTINUATION = 0.9
"""The probability of each further step of the random walks behind `familiarity_`."""


def automatic_alpha(labels_per_class: float, learned: bool) -> float:
    """Return the weight of the graph beside the prior model: less the more labels there are, if it is not learned."""
    return 0.9 if learned else 0.8 + 0.1 / max(labels_per_class, 1)


def automatic_rounds(learned: bool) -> int:
    """Return how often the prior model, and a learned graph, are fitted again."""
    return 3 if learned else 2


@dataclass(frozen=True)
class Settings:
    """What the estimator's parameters say about the propagation."""

    alpha: float
    rounds: int
    tol: float
    max_iter: int
    workers: int
    correct_balance: bool
    class_balance: np.ndarray | None
    """The class balance, where it is known."""


@dataclass(frozen=True)
class Round:
    """What a round ended with."""

    model: PriorModel
    factors: np.ndarray
    """Factors of the classes, for their balance."""


@dataclass(frozen=True)
class Result:
    """Class probabilities of all nodes, and what they came from."""

    rounds: list[Round]
    propagated: np.ndarray
    """Scores of each node."""
    probabilities: np.ndarray
    labelled: np.ndarray
    walks: np.ndarray
    """How often random walks from each node reach a labelled one."""
    iterations: int
    converged: bool
    calibration: float
    """The factor of the scores in the calibration."""
    graph: Graph
    """The graph of the last round."""
    learned: LearnedGraph | None
    """The same graph with its metric, if it was learned."""

    @property
    def last(self) -> Round:
        return self.rounds[-1]

    def reorder(self, places: np.ndarray) -> "Result":
        """Return what to start from if the classes are those at these places now, or new ones (-1)."""
        rounds = []
        for one in self.rounds:
            factors = np.where(places < 0, 1, one.factors[places])
            rounds.append(Round(one.model.reorder(places) or one.model, factors))
        propagated = _columns(self.propagated, places)
        return replace(self, rounds=rounds, propagated=propagated)


class Transduction:
    """Alternates between the prior model and the graph."""

    def __init__(self, graph: FittedGraph, workers: int) -> None:
        self.graph, self.points, self.mass, self.workers = graph.graph, graph.points, graph.nodes.mass, workers
        self.candidates, self.n_neighbors = graph.candidates, graph.n_neighbors
        self.standardise = Standardisation(self.points, workers)

    def run(
        self,
        labels: sparse.csr_array,
        settings: Settings,
        build_model: Callable[[], PriorModel],
        previous: Result | None = None,
    ) -> Result:
        """Propagate labels, given as the weight of each class in the labels of each node.

        If there is a previous result for the same classes, prior models and the last round start from it.
        """
        number, n_classes = labels.shape
        weight = np.asarray(labels.sum(1)).ravel()
        labelled = weight > 0
        known = (labels[np.flatnonzero(labelled)].toarray() / weight[labelled, None]).astype(self.graph.S.dtype)
        system = SparsePropagation(self.graph, labelled, settings.workers)
        learned: LearnedGraph | None = None
        counted = settings.class_balance is not None and self.mass is not None  # an estimate takes each point once
        mass = self.mass[~labelled] if counted and self.mass is not None else None
        count = 1 if labelled.all() else settings.rounds + 1
        rounds: list[Round] = []
        factors, scores = np.ones(n_classes), None
        for turn in range(count):
            before = previous.rounds[turn] if previous is not None and turn < len(previous.rounds) else None
            earlier = before or (rounds[-1] if rounds else None)
            evidence = Evidence(self.points, self.standardise, labels, labelled, scores, self.mass, settings.workers)
            model = build_model().fit(evidence, earlier.model if earlier else None)
            if turn and self.candidates is not None and isinstance(model, DiscriminantModel):
                learned = self._learn_graph(learned_metric(model))
                system = SparsePropagation(learned.graph, labelled, settings.workers)
            if turn < count - 1:
                steps, start = (max(settings.tol, EARLY_TOLERANCE), settings.max_iter), None
            else:
                steps, start = (settings.tol, settings.max_iter), previous.propagated if previous else None
            solution = system.solve(known, self.prior(model), settings.alpha, *steps, start)
            if settings.correct_balance:
                factors = post.class_balance_factors(
                    solution.values[~labelled], float(weight.sum()), settings.class_balance, mass, factors
                )
            rounds.append(Round(model, factors))
            scores = self._by_rows(partial(post.balance_classes, factors=factors), solution.values)
        assert scores is not None, "there is at least one round"
        factor = post.calibration_factor(number, self.points.shape[1], learned is not None)
        probabilities = self._by_rows(partial(post.calibrate, factor=factor), scores)
        probabilities[labelled] = known
        walks = system.solve(
            np.ones_like(known[:, :1]),
            np.zeros((number, 1), known.dtype),
            WALK_CONTINUATION,
            WALK_TOLERANCE,
            start=None if previous is None else previous.walks[:, None],
        )
        return Result(
            rounds,
            solution.values,
            probabilities,
            labelled,
            walks.values.ravel(),
            solution.iterations,
            solution.converged,
            factor,
            system.graph,
            learned,
        )

    def _learn_graph(self, metric: np.ndarray) -> LearnedGraph:
        """Choose the neighbours of each node anew by this metric."""
        assert self.candidates is not None
        rows = self.standardise.rows if self._all_measured else lambda part: self.standardise(self.points[part])
        return learn_graph(rows, self.candidates, self.n_neighbors, self.mass, metric, self.workers)

    def compare(self, learned: LearnedGraph, points: Points, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges of new points by a learned metric: their weights, and the nodes they lead to."""
        nodes, places = np.unique(candidates, return_inverse=True)
        theirs = transformed(self.standardise(self.points[nodes]), learned.metric)
        own = transformed(self.standardise(points), learned.metric)
        squares, found = nearest_of(own, theirs, places.reshape(candidates.shape), self.n_neighbors)
        found = nodes[found]
        scales = graphs.length_scales(squares, learned.scales)
        return graphs.edge_weights(squares, scales, learned.scales[found]), found

    @property
    def _all_measured(self) -> bool:
        """Whether the points that were measured are all nodes."""
        return bool(self.standardise.step == 1)

    def _by_rows(self, function: Callable[[np.ndarray], np.ndarray], values: np.ndarray) -> np.ndarray:
        """Apply a function of rows to all of them, in threads."""
        results = np.empty_like(values)

        def apply(part: slice) -> None:
            results[part] = function(values[part])

        with threads(self.workers) as run:
            list(run(apply, row_blocks(values)))
        return results

    def prior(self, model: PriorModel, points: Points | None = None) -> np.ndarray:
        """Return the class probabilities that a prior model predicts for points, by default for all nodes."""
        all_measured = points is None and self._all_measured
        points = self.points if points is None else points

        def predict(first: int) -> np.ndarray:
            part = slice(first, first + ROWS)
            return model.predict_proba(self.standardise.rows(part) if all_measured else self.standardise(points[part]))

        with threads(self.workers) as run:
            parts = list(run(predict, range(0, points.shape[0], ROWS)))
        return np.concatenate(parts) if len(parts) != 1 else parts[0]


def _columns(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the columns at these places; the mean of all for new ones (-1)."""
    columns: np.ndarray = values[:, places]
    if (new := places < 0).any():
        columns[:, new] = 1 / len(places)
    return columns
