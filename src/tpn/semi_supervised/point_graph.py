"""From points to the graph: range, copies, neighbours, edges; and edges from new points to those of the graph."""

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse

from tpn.semi_supervised import sparse_graph as graphs
from tpn.semi_supervised.copies import Nodes, find_nodes
from tpn.semi_supervised.feature_scaling import SafeRange, unit_length
from tpn.semi_supervised.neighbours import Neighbours, Points, Search
from tpn.semi_supervised.sparse_graph import Graph


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

    def edges_from(self, points: Points) -> Edges:
        """Connect new points with the nodes."""


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
    ) -> "PointGraph":
        """Find the neighbours of points and connect them."""
        in_range = SafeRange(points)
        prepared = _prepare(points, in_range, metric)
        nodes = find_nodes(prepared, sample_weight, effective_n_jobs(n_jobs))
        own = nodes.gather(prepared)
        neighbours = Neighbours(own, n_neighbors, search, n_jobs)
        squares, found = neighbours.query_self()
        scales = graphs.length_scales(squares)
        common = None if length_scale == "local" else usable_scale(length_scale * in_range.factor, own.dtype)
        used = scales if common is None else np.full_like(scales, common)
        graph = graphs.normalise(graphs.connect(squares, found, used, nodes.mass))
        return cls(nodes, own, graph, scales, common, in_range, metric, n_neighbors, search, n_jobs, neighbours)

    @property
    def neighbours(self) -> Neighbours:
        """The index of the nodes; a graph from a file builds it when it is first asked for."""
        if self._neighbours is None:
            self._neighbours = Neighbours(self.points, self.n_neighbors, self.search, self.n_jobs)
        return self._neighbours

    def edges_from(self, points: Any) -> Edges:
        """Connect new points with their nearest nodes."""
        if sparse.issparse(points) != sparse.issparse(self.points):
            points = points.toarray() if sparse.issparse(points) else sparse.csr_array(points)
        points = _prepare(points.astype(self.points.dtype, copy=False), self.range, self.metric)
        squares, found = self.neighbours.query(points)
        own, theirs = graphs.length_scales(squares, self.scales), self.scales[found]
        if self.common_scale is None:
            weights = graphs.edge_weights(squares, own, theirs)
        else:
            weights = graphs.edge_weights(
                squares, np.full_like(own, self.common_scale), np.full_like(theirs, self.common_scale)
            )
        if self.nodes.mass is not None:
            weights = weights * graphs.edge_weights_of_copies(self.nodes.mass).astype(weights.dtype)[found]
        starts = np.arange(0, weights.size + 1, weights.shape[1])
        edges = sparse.csr_array((weights.ravel(), found.ravel(), starts), shape=(len(found), len(self.scales)))
        return Edges(edges, points, np.minimum(np.median(theirs, axis=1) / own, 1))


def usable_scale(scale: float, dtype: Any) -> float:
    """Return a length scale that is a positive number of this kind."""
    limits = np.finfo(dtype)
    return float(min(max(scale, float(limits.tiny)), float(limits.max)))


def _prepare(points: Points, in_range: SafeRange, metric: str) -> Points:
    points = in_range(points)
    return unit_length(points) if metric == "cosine" else points
