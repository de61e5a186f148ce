"""The sparse graph on which labels propagate: each point and its nearest neighbours.

`tpn.propagation` builds the graphs of few-shot episodes, as dense tensors of some hundred nodes.
"""

import numpy as np
from scipy import sparse

from tpn.semi_supervised.neighbours import Neighbours

SCALE_NEIGHBOUR = 7
"""The neighbour whose distance is the length scale of a point."""


def length_scales(squares: np.ndarray, reference: np.ndarray | None = None) -> np.ndarray:
    """Return a length scale for each point: the distance of its seventh neighbour, or of its last if it has fewer.

    A point with many copies has neighbours at distance zero, so the scale is at least a thousandth of the median scale,
    here or in `reference`.
    """
    scales = np.sqrt(squares[:, min(SCALE_NEIGHBOUR, squares.shape[1]) - 1])
    usual = scales if reference is None else reference
    positive = usual[usual > 0]
    floor = np.median(positive) * 1e-3 if len(positive) else 1.0
    return np.asarray(np.maximum(scales, floor), squares.dtype)


def edge_weights(squares: np.ndarray, scales: np.ndarray, neighbour_scales: np.ndarray) -> np.ndarray:
    """Return the weights exp(-d²/(σ_i σ_j)) of the edges from each point to its neighbours."""
    return np.asarray(np.exp(-squares / (scales[:, None] * neighbour_scales)))


def connect(neighbours: Neighbours, scale: float | None = None) -> tuple[sparse.csr_array, np.ndarray]:
    """Return the symmetric k-nearest-neighbour graph and the length scales of its points.

    An edge stays if either of its ends chose it. Without a common length scale each point has its own.
    """
    squares, found = neighbours.query_self()
    number, k = found.shape
    scales = np.full(number, scale, squares.dtype) if scale is not None else length_scales(squares)
    data = edge_weights(squares, scales, scales[found])
    kind = np.int32 if number * k < 2**30 else np.int64  # the symmetric graph has up to twice as many edges
    starts = np.arange(number + 1, dtype=kind) * kind(k)
    chosen = sparse.csr_array((data.ravel(), found.ravel().astype(kind), starts), shape=(number, number))
    chosen.sort_indices()
    graph = sparse.csr_array(chosen.maximum(chosen.T))
    graph.setdiag(0) if graph.diagonal().any() else None
    graph.eliminate_zeros()  # a weight that underflows to zero is no edge
    return graph, scales
