"""Identical points: they are found by hashing, and become one node of the graph with the weight of all."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from tpn.semi_supervised.neighbours import Points
from tpn.semi_supervised.threads import threads

ROWS = 2**15
"""Points that a thread hashes at once."""


@dataclass(frozen=True)
class Nodes:
    """Which points are the nodes of the graph: one of each set of copies."""

    first: np.ndarray | None
    """The first point of each node; None if every point is a node."""
    node_of: np.ndarray | None
    """The node of each point, or -1 where it has no weight; None if every point is a node."""
    mass: np.ndarray | None
    """The weight of each node: that of all its copies; None if it is 1 everywhere."""

    def gather(self, points: Points) -> Points:
        """Return the points of the nodes."""
        return points if self.first is None else points[self.first]

    def expand(self, values: np.ndarray) -> np.ndarray:
        """Return for each point the value of its node; that of the last node where a point has none."""
        return values if self.node_of is None else values[self.node_of]

    def of(self, points: np.ndarray) -> np.ndarray:
        """Return the nodes of some points, given by their indices."""
        return points if self.node_of is None else self.node_of[points]


def find_nodes(points: Points, sample_weight: np.ndarray | None = None, workers: int = 1) -> Nodes:
    """Merge identical points; points without weight belong to no node."""
    return merge(first_copies(points, workers), sample_weight)


def merge(first: np.ndarray, sample_weight: np.ndarray | None = None) -> Nodes:
    """Make nodes of points, given the index of the first copy of each."""
    number = len(first)
    if sample_weight is None:
        representatives = np.flatnonzero(first == np.arange(number))
        if len(representatives) == number:
            return Nodes(None, None, None)
        mass = np.bincount(first, minlength=number)
    else:
        mass = np.bincount(first, sample_weight, minlength=number)
        representatives = np.flatnonzero((first == np.arange(number)) & (mass > 0))
    place = np.full(number, -1)
    place[representatives] = np.arange(len(representatives))
    return Nodes(representatives, place[first], mass[representatives].astype(np.float64))


def first_copies(points: Points, workers: int = 1) -> np.ndarray:
    """Return the index of the first point that is identical to each."""
    hashes = _hash_sparse(points) if sparse.issparse(points) else _hash_rows(points, workers)
    order = np.argsort(hashes, kind="stable")
    alike = np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]]) + 1
    first = np.arange(points.shape[0])
    if not len(alike):
        return first
    same = alike[_equal_rows(points, order[alike], order[alike - 1])]
    starts = np.ones(len(order), bool)
    starts[same] = False
    # `order` is stable: the first of a run of copies is also the first among the points
    first[order] = order[np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))]
    return first


def _hash_rows(points: np.ndarray, workers: int) -> np.ndarray:
    """Return 64 bits for each row. A matrix product would be faster, but rounds equal rows differently."""
    hashes = np.empty(len(points), np.uint64)
    factors = _factors(points.shape[1])

    def hash_block(start: int) -> None:
        words = _words(np.ascontiguousarray(points[start : start + ROWS]))
        hashes[start : start + ROWS] = np.vecdot(words, factors)

    with threads(workers) as run:
        list(run(hash_block, range(0, len(points), ROWS)))
    return hashes


def _hash_sparse(points: Any) -> np.ndarray:
    terms = _words(points.data) * _factors(points.shape[1])[points.indices]
    ends = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return np.asarray(ends[points.indptr[1:]] - ends[points.indptr[:-1]])


def _words(values: np.ndarray) -> np.ndarray:
    """Return the bits of numbers, mixed; 0 and -0 are the same."""
    bits = (values + values.dtype.type(0)).view(np.uint32 if values.dtype == np.float32 else np.uint64)
    words = bits.astype(np.uint64)
    words ^= words >> np.uint64(17)
    words *= np.uint64(0x9E3779B97F4A7C15)
    words ^= words >> np.uint64(32)
    return np.asarray(words)


def _factors(number: int) -> np.ndarray:
    return np.random.default_rng(0).integers(2**63, size=number, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def _equal_rows(points: Points, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    equal = np.empty(len(left), bool)
    for start in range(0, len(left), ROWS):
        part = slice(start, start + ROWS)
        if sparse.issparse(points):
            different = sparse.csr_array(points[left[part]] != points[right[part]])
            equal[part] = np.diff(different.indptr) == 0
        else:
            equal[part] = (points[left[part]] == points[right[part]]).all(1)
    return equal
