"""From points to the graph: range, copies, neighbours, edges; and edges from new points to those of the graph."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse

from tpn.semi_supervised import sparse_graph as graphs
from tpn.semi_supervised.copies import Nodes, find_nodes
from tpn.semi_supervised.feature_scaling import SafeRange, unit_length
from tpn.semi_supervised.neighbours import Neighbours, Points, Search
from tpn.semi_supervised.sparse_graph import Graph

CANDIDATES = 3
"""Candidates of each point for a learned graph, in multiples of its neighbours."""
Compare: TypeAlias = Callable[[Points, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""A function of new points and the candidates of each: the weights of its edges, and the nodes they lead to."""


@dataclass(frozen=True)
class Edges:
    """Edges from new points to the nodes of a graph."""

    weights: sparse.csr_array
    points: Points
    """The new points, as the prior model takes them."""
    crowding: np.ndarray
    """The length scale of the nearest nodes, relative to that of each new point: near 0 far from all nodes."""


@runtime_checkable
class FittedGraph(Protocol):
    """A graph over the points of `fit`."""

    nodes: Nodes
    points: Points
    graph: Graph
    candidates: np.ndarray | None
    n_neighbors: int

    def edges_from(self, points: Points, compare: Compare | None = None) -> Edges:
        """Connect new points with the nodes; by other distances, if `compare` computes them."""


@dataclass
class PointGraph:
    """The graph of the nearest neighbours of points."""

    nodes: Nodes
    points: Points
    """The points of the nodes, in range, and of length one if the metric is cosine."""
    graph: Graph
    scales: np.ndarray
    """The distance of the seventh neighbour of each node, its own length scale."""
    common_scale: float | None
    """The length scale of all edges, where there is one."""
    range: SafeRange
    metric: str
    n_neighbors: int
    search: Search
    n_jobs: int | None
    candidates: np.ndarray | None = None
    """The points that the neighbours of each node in a learned graph are chosen from; None if it is not learned."""
    _neighbours: Neighbours | None = field(default=None, repr=False)

    @classmethod
    def build(
        cls,
        points: Points,
        n_neighbors: int,
        *,
        metric: str = "euclidean",
        length_scale: Any = "local",
        search: Search = "auto",
        n_jobs: int | None = None,
        sample_weight: np.ndarray | None = None,
        learned: bool = False,
    ) -> "PointGraph":
        """Find the neighbours of points and connect them; and candidates for a learned graph."""
        in_range = SafeRange(points)
        prepared = _prepare(points, in_range, metric)
        nodes = find_nodes(prepared, sample_weight, effective_n_jobs(n_jobs))
        own = nodes.gather(prepared)
        neighbours = Neighbours(own, n_candidates(n_neighbors, learned), search, n_jobs)
        squares, candidates = neighbours.query_self()
        squares, found = squares[:, :n_neighbors], candidates[:, :n_neighbors]
        scales = graphs.length_scales(squares)
        common = None if length_scale == "local" else usable_scale(length_scale * in_range.factor, own.dtype)
        used = scales if common is None else np.full_like(scales, common)
        graph = graphs.normalise(graphs.connect(squares, found, used, nodes.mass))
        kept = candidates.astype(np.int32) if learned else None
        return cls(nodes, own, graph, scales, common, in_range, metric, n_neighbors, search, n_jobs, kept, neighbours)

    @property
    def neighbours(self) -> Neighbours:
        """The index of the nodes; a graph from a file builds it when it is first asked for."""
        if self._neighbours is None:
            number = n_candidates(self.n_neighbors, self.candidates is not None)
            self._neighbours = Neighbours(self.points, number, self.search, self.n_jobs)
        return self._neighbours

    def edges_from(self, points: Any, compare: Compare | None = None) -> Edges:
        """Connect new points with their nearest nodes; by other distances, if `compare` computes them."""
        if sparse.issparse(points) != sparse.issparse(self.points):
            points = points.toarray() if sparse.issparse(points) else sparse.csr_array(points)
        points = _prepare(points.astype(self.points.dtype, copy=False), self.range, self.metric)
        squares, candidates = self.neighbours.query(points)
        squares, found = squares[:, : self.n_neighbors], candidates[:, : self.n_neighbors]
        own, theirs = graphs.length_scales(squares, self.scales), self.scales[found]
        if self.common_scale is None:
            weights = graphs.edge_weights(squares, own, theirs)
        else:
            weights = graphs.edge_weights(
                squares, np.full_like(own, self.common_scale), np.full_like(theirs, self.common_scale)
            )
        crowding = np.minimum(np.median(theirs, axis=1) / own, 1)
        if compare is not None:
            weights, found = compare(points, candidates)
        if self.nodes.mass is not None:
            weights = weights * graphs.edge_weights_of_copies(self.nodes.mass).astype(weights.dtype)[found]
        starts = np.arange(0, weights.size + 1, weights.shape[1])
        edges = sparse.csr_array((weights.ravel(), found.ravel(), starts), shape=(len(found), len(self.scales)))
        return Edges(edges, points, crowding)


def n_candidates(n_neighbors: int, learned: bool) -> int:
    """Return how many neighbours of each point are searched for."""
    return CANDIDATES * n_neighbors if learned else n_neighbors


def usable_scale(scale: float, dtype: Any) -> float:
    """Return a length scale that is a positive number of this kind."""
    limits = np.finfo(dtype)
    return float(min(max(scale, float(limits.tiny)), float(limits.max)))


def _prepare(points: Points, in_range: SafeRange, metric: str) -> Points:
    points = in_range(points)
    return unit_length(points) if metric == "cosine" else points
