"""The learned graph: the neighbours of each point are chosen anew, by a metric that follows from the labels so far.

Points are connected by their distance as they are first. Once labels have propagated on that graph, discriminant
analysis knows which directions vary within classes and which between them. Of the candidates of each point, three times
as many as it gets neighbours, those are kept that are nearest by this metric. Candidates are found once, so a learned
graph costs no search.

This suits directions, such as features of images, whose variance within classes is far from the same in all directions.
Where it is the same (points around class means), there is nothing to learn.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from tpn.semi_supervised import sparse_graph as graphs
from tpn.semi_supervised.evidence import squared_lengths
from tpn.semi_supervised.feature_scaling import unit_length
from tpn.semi_supervised.neighbours import Points
from tpn.semi_supervised.prior_models import DiscriminantModel
from tpn.semi_supervised.selection import pick
from tpn.semi_supervised.sparse_graph import Graph
from tpn.semi_supervised.threads import threads

MOST_NUMBERS = 12_000_000
"""With more numbers in all points, `learn_graph="auto"` keeps the first graph: an update would take too long."""
EMPHASIS = 1.0
"""How much longer the directions between class means are than the others: twice as long."""
LENGTH_TOLERANCE = 1e-3
TRANSFORMED = 2**11
"""Points that a thread transforms at once."""
PAIRS = 64
"""Points whose candidates a thread compares at once."""


@dataclass(frozen=True)
class LearnedGraph:
    """A graph, and what connects new points with its nodes."""

    graph: Graph
    metric: np.ndarray
    scales: np.ndarray
    """The length scale of each node by the metric."""


def learned_metric(model: DiscriminantModel) -> np.ndarray:
    """Return the matrix that takes standardised points to where distances are compared.

    There the covariance within classes is the identity, and directions between class means are twice as long.
    """
    with threads(1):  # its matrices are so small that several threads take longer
        factor = np.linalg.cholesky(model.covariance)
        whitening = solve_triangular(factor, np.eye(len(factor)), lower=True).T
        means = (model.means - model.means.mean(0)) @ whitening
        _, sizes, directions = np.linalg.svd(means, full_matrices=False)
        between = directions[sizes > 1e-6 * max(sizes.max(), 1e-300)]
        return np.asarray(whitening + EMPHASIS * (whitening @ between.T) @ between)


def are_directions(points: np.ndarray) -> bool:
    """Return whether all points have length one."""
    inside = np.abs(points).max() <= 1 + LENGTH_TOLERANCE  # squares of larger numbers may overflow
    return bool(inside and np.abs(squared_lengths(points) - 1).max() < LENGTH_TOLERANCE)


def transformed(points: Points, metric: np.ndarray) -> np.ndarray:
    """Return standardised points where distances are compared: directions only, as by cosine similarity."""
    return np.asarray(unit_length(points @ metric.astype(points.dtype)))


def learn_graph(
    rows: Callable[[slice], Points],
    candidates: np.ndarray,
    n_neighbors: int,
    mass: np.ndarray | None,
    metric: np.ndarray,
    workers: int,
) -> LearnedGraph:
    """Connect each point with the nearest of its candidates by this metric. `rows` returns standardised points."""
    number, k = len(candidates), min(n_neighbors, candidates.shape[1])
    kind = rows(slice(0, 1)).dtype
    points = np.empty((number, len(metric)), kind)
    squares, found = np.empty((number, k), kind), np.empty((number, k), candidates.dtype)

    buffers = threading.local()

    def transform(first: int) -> None:
        part = slice(first, first + TRANSFORMED)
        points[part] = transformed(rows(part), metric)

    def choose(first: int) -> None:
        part = slice(first, first + PAIRS)
        some, own = candidates[part], points[part]
        if not hasattr(buffers, "gathered"):  # one for each thread: asking for memory takes long
            buffers.gathered = np.empty((PAIRS, *candidates.shape[1:], len(metric)), kind)
        gathered = buffers.gathered[: len(some)]
        np.take(points, some, axis=0, out=gathered, mode="clip")
        distances = 2 - 2 * np.vecdot(gathered, own[:, None])  # squared, of points of length one
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
        squares[part], found[part] = np.maximum(pick(distances, order), 0), pick(some, order)

    with threads(workers) as run:
        list(run(transform, range(0, number, TRANSFORMED)))
        list(run(choose, range(0, number, PAIRS)))
    scales = graphs.length_scales(squares)
    return LearnedGraph(graphs.normalise(graphs.connect(squares, found, scales, mass)), metric, scales)
