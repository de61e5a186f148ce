"""From neighbours to a graph on which labels spread."""

import numpy as np
from scipy import sparse

from tpn.semi_supervised.neighbours import Neighbours

SCALE_NEIGHBOUR = 7
"""The neighbour whose distance is a point's length scale."""


def length_scales(squares: np.ndarray, of_others: np.ndarray | None = None) -> np.ndarray:
    """A length scale for each point: the distance of its seventh neighbour, or of its last.

    It is at least a thousandth of what is usual, here or among others: so many copies of a point have no distance.
    """
    scales = np.sqrt(squares[:, min(SCALE_NEIGHBOUR, squares.shape[1]) - 1])
    usual = scales if of_others is None else of_others
    some = usual[usual > 0]
    floor = np.median(some) * 1e-3 if len(some) else 1.0
    return np.asarray(np.maximum(scales, floor), squares.dtype)


def weights(squares: np.ndarray, scales: np.ndarray, of_neighbours: np.ndarray) -> np.ndarray:
    """exp(-d²/(σ_i σ_j)): how strongly each point is tied to each of its neighbours."""
    return np.asarray(np.exp(-squares / (scales[:, None] * of_neighbours)))


def connect(neighbours: Neighbours, scale: float | None = None) -> tuple[sparse.csr_array, np.ndarray]:
    """The symmetric graph of nearest neighbours, an edge staying if either end chose it; and length scales.

    Without a length scale for all, each point has its own.
    """
    squares, found = neighbours.of_each_other()
    number, k = found.shape
    scales = np.full(number, scale, squares.dtype) if scale is not None else length_scales(squares)
    data = weights(squares, scales, scales[found])
    kind = np.int32 if number * k < 2**30 else np.int64  # both directions together have to be counted
    starts = np.arange(number + 1, dtype=kind) * kind(k)
    chosen = sparse.csr_array((data.ravel(), found.ravel().astype(kind), starts), shape=(number, number))
    chosen.sort_indices()
    graph = sparse.csr_array(chosen.maximum(chosen.T))
    graph.setdiag(0) if graph.diagonal().any() else None
    graph.eliminate_zeros()  # an edge that is too weak to be a number would still be an edge
    return graph, scales
