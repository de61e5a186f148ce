"""Graphs that others have computed: sparse distances of neighbours, or symmetric affinities."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from tpn.semi_supervised import sparse_graph as graphs
from tpn.semi_supervised.copies import Nodes, merge
from tpn.semi_supervised.point_graph import Compare, Edges, usable_scale
from tpn.semi_supervised.sparse_graph import SCALE_NEIGHBOUR, Graph

SYMMETRY_TOLERANCE = 1e-5


@dataclass
class PrecomputedGraph:
    """A graph of distances or affinities; its points have no features."""

    nodes: Nodes
    points: np.ndarray
    """A row without features for each node."""
    graph: Graph
    scales: np.ndarray | None
    """The length scale of each node; None if there are affinities instead of distances."""
    common_scale: float | None
    n_samples: int
    n_neighbors: int = 0
    candidates: np.ndarray | None = None
    """None, like `n_neighbors`: a graph without features cannot be learned."""
    unit: float = 1.0
    """What distances are divided by, so that their squares are numbers."""

    @classmethod
    def from_distances(cls, X: Any, length_scale: Any, sample_weight: np.ndarray | None) -> "PrecomputedGraph":
        """Take distances as `KNeighborsTransformer` gives them: those stored are edges, also if they are zero."""
        distances = check_graph(X, square=True)
        number = distances.shape[0]
        rows, columns, values = _entries(distances)
        zero = values == 0
        copies = sparse.coo_array((np.ones(zero.sum()), (rows[zero], columns[zero])), shape=distances.shape)
        _, label = connected_components(copies, directed=False)
        first = np.full(label.max() + 1, number)
        np.minimum.at(first, label, np.arange(number))
        nodes = merge(first[label], sample_weight)
        n_nodes = number if nodes.first is None else len(nodes.first)
        rows, columns, values = _nearest_pairs(nodes.of(rows), nodes.of(columns), values)
        unit = float(np.median(values)) if len(values) else 1.0
        values = np.minimum(values / values.dtype.type(unit), np.sqrt(np.finfo(values.dtype).max) / 4)
        scales = _scales(rows, values, n_nodes)
        common = None if length_scale == "local" else usable_scale(length_scale / unit, values.dtype)
        used = scales if common is None else np.full_like(scales, common)
        with np.errstate(over="ignore", under="ignore"):
            weights = np.exp(-(values / used[rows]) * (values / used[columns]))
        chosen = sparse.csr_array(sparse.coo_array((weights, (rows, columns)), shape=(n_nodes, n_nodes)))
        graph = graphs.normalise(graphs.weighted(sparse.csr_array(chosen.maximum(chosen.T)), nodes.mass))
        return cls(nodes, np.empty((n_nodes, 0), values.dtype), graph, scales, common, number, unit=unit)

    @classmethod
    def from_affinities(cls, X: Any, sample_weight: np.ndarray | None) -> "PrecomputedGraph":
        """Take affinities: symmetric, not negative, and zero where there is no edge."""
        affinities = check_graph(X, square=True)
        difference = abs(affinities - affinities.T)
        largest = affinities.max() if affinities.nnz else 0
        if difference.nnz and difference.max() > SYMMETRY_TOLERANCE * largest:
            raise ValueError("Affinities must be symmetric: make them so by (A + A.T) / 2, or A.maximum(A.T).")
        nodes = merge(np.arange(affinities.shape[0]), sample_weight)
        own = affinities if nodes.first is None else affinities[nodes.first][:, nodes.first]
        own = sparse.csr_array(own / (largest or 1))
        graph = graphs.normalise(graphs.weighted(own, nodes.mass))
        return cls(nodes, np.empty((own.shape[0], 0), own.dtype), graph, None, None, affinities.shape[0])

    def edges_from(self, points: Any, compare: Compare | None = None) -> Edges:
        """Take the distances or affinities of new points (rows) to the points of `fit` (columns)."""
        given = check_graph(points, square=False)
        if given.shape[1] != self.n_samples:
            raise ValueError(
                f"The graph of new points has {given.shape[1]} columns; `fit` had {self.n_samples} points."
            )
        kept = np.arange(self.n_samples) if self.nodes.first is None else self.nodes.first
        number = given.shape[0]
        if self.scales is None:
            largest = given.max() if given.nnz else 0
            edges = sparse.csr_array(given[:, kept] / (largest or 1))
            crowding = np.ones(number, edges.dtype)
        else:
            rows, columns, values = _entries(given, loops=True)
            rows, columns, values = _nearest_pairs(rows, self.nodes.of(columns), values, loops=True)
            values = np.minimum(values / values.dtype.type(self.unit), np.sqrt(np.finfo(values.dtype).max) / 4)
            floor = np.median(self.scales) * 1e-3
            own = np.maximum(_scales(rows, values, number), floor)
            used = (own[rows], self.scales[columns])
            if self.common_scale is not None:
                used = (self.common_scale, self.common_scale)
            with np.errstate(over="ignore", under="ignore"):
                weights = np.exp(-(values / used[0]) * (values / used[1]))
            edges = sparse.csr_array(sparse.coo_array((weights, (rows, columns)), shape=(number, len(self.points))))
            near = np.bincount(rows, self.scales[columns], number) / np.maximum(np.bincount(rows, minlength=number), 1)
            crowding = np.minimum(near / own, 1)
        if self.nodes.mass is not None:
            edges.data *= graphs.edge_weights_of_copies(self.nodes.mass).astype(edges.dtype)[edges.indices]
        return Edges(edges, np.empty((number, 0), edges.dtype), crowding)


def check_graph(X: Any, square: bool) -> sparse.csr_array:
    """Return a graph as a sparse array in canonical form, and refuse what is none. Explicit zeros stay."""
    graph = sparse.csr_array(X) if sparse.issparse(X) else _from_dense(X)
    if square and graph.shape[0] != graph.shape[1]:
        raise ValueError(
            f"A precomputed graph must be square, a row and a column for each point; it has the shape {graph.shape}."
        )
    if graph.data.size and graph.data.min() < 0:
        raise ValueError("Negative values in data passed as a graph: distances and affinities are not negative.")
    if graph.data.size and not np.isfinite(graph.data.max()):
        raise ValueError("Distances and affinities must be finite.")
    graph = graph.copy()
    graph.sum_duplicates()
    return graph


def looks_like_a_graph(X: Any) -> bool:
    """Return whether features are a neighbour graph: sparse, square, not negative, with nothing on the diagonal."""
    if not sparse.issparse(X) or X.shape[0] != X.shape[1] or X.shape[0] < 3 or not X.nnz:
        return False
    graph = sparse.csr_array(X)
    if graph.data.min() < 0 or graph.diagonal().any():
        return False
    sizes = np.diff(graph.indptr)
    return bool((sizes == sizes[0]).all()) or (graph != graph.T).nnz == 0


def _from_dense(X: Any) -> sparse.csr_array:
    """Turn a dense matrix into a graph of all pairs."""
    X = np.asarray(X)
    rows, columns = np.indices(X.shape)
    return sparse.csr_array(sparse.coo_array((X.ravel(), (rows.ravel(), columns.ravel())), shape=X.shape))


def _entries(graph: sparse.csr_array, loops: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, columns and values of the stored entries, explicit zeros among them."""
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    kept = np.ones(len(rows), bool) if loops else rows != graph.indices
    return rows[kept], graph.indices[kept].astype(np.int64), graph.data[kept]


def _nearest_pairs(
    rows: np.ndarray, columns: np.ndarray, values: np.ndarray, loops: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each pair of nodes once, with the smallest distance of their copies."""
    kept = (rows >= 0) & (columns >= 0) & ((rows != columns) | loops)
    rows, columns, values = rows[kept], columns[kept], values[kept]
    order = np.lexsort((values, columns, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    first = np.ones(len(rows), bool)
    first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    return rows[first], columns[first], values[first]


def _scales(rows: np.ndarray, values: np.ndarray, number: int) -> np.ndarray:
    """Return the distance of the seventh neighbour of each node, or of its last; 1 where it has none."""
    order = np.lexsort((values, rows))
    sizes = np.bincount(rows, minlength=number)
    ends = np.cumsum(sizes)
    places = ends - sizes + np.minimum(sizes, SCALE_NEIGHBOUR) - 1
    scales = np.ones(number, values.dtype)
    scales[sizes > 0] = values[order][places[sizes > 0]]
    positive = scales[(scales > 0) & (sizes > 0)]
    return np.asarray(np.maximum(scales, np.median(positive) * 1e-3 if len(positive) else 1), values.dtype)
