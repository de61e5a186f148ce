"""Neighbours of images: near-duplicates, and the labelled images that a guess comes from."""

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from tpn.semi_supervised.neighbours import Neighbours

NEIGHBOURS = 10
DUPLICATE_SQUARE, DUPLICATE_FRACTION = 0.06, 0.1
"""Images are near-duplicates up to this squared distance of their scaled features (a cosine of 0.97), and up to this
fraction of the median squared distance of nearest neighbours."""
EQUAL = 1e-9
"""Squared distances up to this are rounding errors."""
FEWEST_DIMENSIONS = 32
"""With fewer features, different images are often as near: then only equal features count."""


def find_neighbours(points: np.ndarray, n_jobs: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the squared distances and the indices of the nearest images of each, nearest first."""
    if len(points) < 2:
        return np.zeros((len(points), 0)), np.zeros((len(points), 0), int)
    return Neighbours(points, min(NEIGHBOURS, len(points) - 1), n_jobs=n_jobs).query_self()


def near_duplicates(squares: np.ndarray, found: np.ndarray, dimensions: int) -> np.ndarray:
    """Return the group of near-duplicates of each image, as a number; -1 for images without.

    Two images are of one group if a chain of near-duplicates connects them. `squares` and `found` are those of
    `find_neighbours`, from features of so many dimensions.
    """
    number = len(found)
    most = min(DUPLICATE_SQUARE, DUPLICATE_FRACTION * float(np.median(squares[:, 0]))) if squares.size else 0.0
    rows, columns = np.nonzero(squares <= (max(most, EQUAL) if dimensions >= FEWEST_DIMENSIONS else EQUAL))
    graph = sparse.coo_array((np.ones(len(rows), np.int8), (rows, found[rows, columns])), shape=(number, number))
    _, component = connected_components(graph, directed=False)
    sizes = np.bincount(component, minlength=1)
    several = sizes[component] > 1
    groups = np.full(number, -1)
    groups[several] = np.unique(component[several], return_inverse=True)[1]
    return groups


def nearest_labelled(points: np.ndarray, labelled: np.ndarray, index: int, number: int = 5) -> np.ndarray:
    """Return the labelled images nearest to one, nearest first."""
    candidates = labelled[labelled != index]
    squares = np.square(points[candidates] - points[index]).sum(1)
    return np.asarray(candidates[np.argsort(squares, kind="stable")[:number]])
