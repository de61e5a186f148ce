"""The sparse graph on which labels propagate: each point and its nearest neighbours.

`tpn.propagation` builds the graphs of few-shot episodes, as dense tensors of some hundred nodes.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

SCALE_NEIGHBOUR = 7
"""The neighbour whose distance is the length scale of a point."""
MOST_MASS = 10.0
"""The most that the mass of a node counts in the weights of its edges, in multiples of the median."""


@dataclass(frozen=True)
class Graph:
    """A symmetric graph, normalised for propagation."""

    S: sparse.csr_array
    """D^-1/2 W D^-1/2 of the edge weights W, where D has the sums of W on its diagonal."""
    root: np.ndarray
    """The square root of D, one number for each node; 1 for nodes without edges."""
    component: np.ndarray
    """The connected component of each node."""

    @cached_property
    def isolated(self) -> np.ndarray:
        """Which nodes have no edge."""
        return np.asarray(np.diff(self.S.indptr) == 0)


def length_scales(squares: np.ndarray, reference: np.ndarray | None = None) -> np.ndarray:
    """Return a length scale for each point: the distance of its seventh neighbour, or of its last if it has fewer.

    A point may have neighbours so near that the distance rounds to zero, so the scale is at least a thousandth of the
    median scale, here or in `reference`.
    """
    if not squares.shape[1]:
        return np.ones(len(squares), squares.dtype)
    scales = np.sqrt(squares[:, min(SCALE_NEIGHBOUR, squares.shape[1]) - 1])
    usual = scales if reference is None else reference
    positive = usual[usual > 0]
    floor = np.median(positive) * 1e-3 if len(positive) else 1.0
    return np.asarray(np.maximum(scales, floor), squares.dtype)


def edge_weights(squares: np.ndarray, scales: np.ndarray, neighbour_scales: np.ndarray) -> np.ndarray:
    """Return the weights exp(-d²/(σ_i σ_j)) of the edges from each point to its neighbours."""
    with np.errstate(over="ignore", under="ignore"):  # a distance of very many length scales: the weight is zero
        ratios = np.divide(squares, scales[:, None])
        ratios /= neighbour_scales
        np.negative(ratios, out=ratios)
        return np.asarray(np.exp(ratios, out=ratios))


def connect(
    squares: np.ndarray, found: np.ndarray, scales: np.ndarray, mass: np.ndarray | None = None
) -> sparse.csr_array:
    """Return the edge weights of the symmetric graph of each point and the neighbours found for it.

    An edge stays if either of its ends chose it. Points that stand for several copies have `mass`: the weight of an
    edge is the sum over all pairs of copies.
    """
    number, k = found.shape
    data = edge_weights(squares, scales, scales[found])
    kind = np.int32 if number * k < 2**30 else np.int64  # the symmetric graph has up to twice as many edges
    starts = np.arange(number + 1, dtype=kind) * kind(k)
    chosen = sparse.csr_array((data.ravel(), found.ravel().astype(kind, copy=False), starts), shape=(number, number))
    chosen.sort_indices()
    return weighted(sparse.csr_array(chosen.maximum(chosen.T)), mass)


def edge_weights_of_copies(mass: np.ndarray) -> np.ndarray:
    """Return the factor that the mass of each node is for its edges: at most that of ten usual nodes.

    Without a limit, random walks from near a node of thousands of copies would hardly ever leave it, and its neighbours
    would hear of nothing else.
    """
    return np.asarray(np.minimum(mass / np.median(mass), MOST_MASS) / MOST_MASS)


def weighted(weights: sparse.csr_array, mass: np.ndarray | None) -> sparse.csr_array:
    """Return the edge weights between nodes of these masses, without loops and without edges of no weight."""
    if mass is not None:
        share = edge_weights_of_copies(mass).astype(weights.dtype)
        weights.data *= np.repeat(share, np.diff(weights.indptr))
        weights.data *= share[weights.indices]
    weights.setdiag(0) if weights.diagonal().any() else None
    weights.eliminate_zeros()  # a weight that underflows to zero is no edge
    return weights


def normalise(weights: sparse.csr_array) -> Graph:
    """Normalise the edge weights of a symmetric graph, in place."""
    degree = np.asarray(weights.sum(1), np.float64).ravel()
    root = np.sqrt(np.where(degree > 0, degree, 1))
    _, component = connected_components(weights, connection="strong")  # faster, and the same: it is symmetric
    scaling = (1 / root).astype(weights.dtype)
    weights.data *= np.repeat(scaling, np.diff(weights.indptr))
    weights.data *= np.take(scaling, weights.indices)
    return Graph(weights, root.astype(weights.dtype), component)
