"""Approximate nearest neighbours: an index of several k-means trees.

Each tree splits the points by k-means, and large clusters again, until its leaves hold some 768 points. A query is
compared with all points of its leaf in each tree. Near the border of a leaf a point misses some of its neighbours, but
the leaves of the other trees have other borders. `benchmarks/neighbours.py` compares this index with those of faiss and
scikit-learn: at the same recall it takes no longer than either, and needs NumPy and SciPy only.
"""

import math
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from scipy import sparse

from tpn.semi_supervised.selection import SPARE, half_squares, nearest_of, pick, smallest
from tpn.semi_supervised.threads import threads

TREES = 3
LEAF_SIZE, LARGEST_LEAF, SMALLEST_LEAF = 768, 2048, 64
"""Points in a leaf: the typical number, the most and the fewest (unless more neighbours are asked for)."""
BRANCHES = 128
"""Most children of a node."""
KMEANS_ITERATIONS = 4
SAMPLES_PER_CENTRE = 100
"""k-means runs on a sample of this many points for each centre."""
QUERIES = 2048
"""Queries that are compared with the points of a leaf at once."""
BLOCK = 2**20
"""Numbers that a thread handles at once, elsewhere."""


class KMeansForest:
    """Index of points that finds the `k` nearest to a query approximately.

    Distances come from matrix products in single precision, relative to the mean of a leaf. Products of few and of many
    rows round differently, so the search finds a few more points than asked for, computes their distances again without
    a matrix product, and returns the nearest of them.
    """

    def __init__(self, points: np.ndarray, k: int, workers: int) -> None:
        self.points, self.k, self.workers = points, k, workers
        self._wanted = min(k + SPARE, len(points))
        sample = points[:: max(1, len(points) // (BRANCHES * SAMPLES_PER_CENTRE))]
        self._mean = sample.mean(0, dtype=np.float64).astype(points.dtype)
        unit = float(np.sqrt(np.square(sample - self._mean, dtype=np.float64).mean())) or 1.0
        self._unit = points.dtype.type(1 if 1e-6 < unit < 1e6 else unit)
        centred = self._single(points, self._mean)
        with threads(workers) as run:
            self._trees = list(run(partial(_grow, centred, max(SMALLEST_LEAF, self._wanted)), range(TREES)))

    def query(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the squared distances and the indices of the nearest points to each query, nearest first."""
        centred = self._single(queries, self._mean)
        return self._search(queries, [_members(root.leaf_of(centred), root.leaves) for root, _ in self._trees])

    def query_self(self) -> tuple[np.ndarray, np.ndarray]:
        """Do the same for the points themselves: each is among its own neighbours, the first of those as near."""
        return self._search(self.points, [leaves for _, leaves in self._trees])

    def _search(self, queries: np.ndarray, asking: list[list[np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
        """Answer queries, given which of them are in each leaf of each tree."""
        shape = (len(asking), len(queries), self._wanted)
        distances, found = np.empty(shape, np.float32), np.empty(shape, np.int32)

        def compare(tree: int, leaf: int, start: int) -> None:
            members, asked = self._trees[tree].leaves[leaf], asking[tree][leaf]
            points = np.take(self.points, members, axis=0)
            centre = points.mean(0)
            points = self._single(points, centre)
            half = half_squares(points)
            for first in range(0, len(asked), QUERIES):
                some = self._single(np.take(queries, asked[first : first + QUERIES], axis=0), centre)
                products = some @ -points.T
                products += half
                best = smallest(products, self._wanted)
                part = slice(start + first, start + first + len(some))
                np.add(pick(products, best), half_squares(some)[:, None], out=distances[tree, part])
                found[tree, part] = np.take(members, best)

        def choose(first: int) -> None:
            part = slice(first, first + rows)
            lines = [places[part] for places in answers]
            near = np.hstack([np.take(one, line, axis=0) for one, line in zip(distances, lines, strict=True)])
            best = np.hstack([np.take(one, line, axis=0) for one, line in zip(found, lines, strict=True)])
            best = _best(near, best, self._wanted)
            squares[part], nearest[part] = nearest_of(queries[part], self.points, best, self.k)

        squares = np.empty((len(queries), self.k), self.points.dtype)
        nearest = np.empty((len(queries), self.k), np.int32)
        answers = [np.argsort(np.concatenate(leaves)) for leaves in asking]
        tasks = [
            (tree, leaf, start)
            for tree, leaves in enumerate(asking)
            for leaf, start in enumerate(accumulate(map(len, leaves[:-1]), initial=0))
            if len(leaves[leaf])
        ]
        rows = max(1, BLOCK // (self._wanted * queries.shape[1]))
        with threads(self.workers) as run:
            list(run(compare, *zip(*tasks, strict=True)))
            list(run(choose, range(0, len(queries), rows)))
        return squares, nearest

    def _single(self, points: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """Convert to single precision where rounding does the least harm: around zero, near one."""
        moved = points - centre
        if self._unit != 1:
            moved /= self._unit
        return np.asarray(moved, np.float32)


class KMeansNode:
    """An inner node: a point belongs to the child with the nearest centre. A child that is None is a leaf."""

    leaves: int

    def __init__(self, centres: np.ndarray, children: list["KMeansNode | ProjectionNode | None"]) -> None:
        self.centres, self.children = centres, children
        self.sizes = np.array([1 if child is None else child.leaves for child in children])
        self.leaves = int(self.sizes.sum())

    def leaf_of(self, points: np.ndarray) -> np.ndarray:
        """Return the leaf of each point: leaves are numbered in order, depth first."""
        nearest = nearest_centre(points, self.centres, sure=True)
        found: np.ndarray = (np.cumsum(self.sizes) - self.sizes)[nearest]
        for index, child in enumerate(self.children):
            if child is not None and len(some := np.flatnonzero(nearest == index)):
                found[some] += child.leaf_of(points[some])
        return found


class ProjectionNode:
    """A node whose children are all leaves: intervals of a random projection, for points that form no clusters.

    Many copies of one point are such a case: k-means cannot split them.
    """

    def __init__(self, direction: np.ndarray, bounds: np.ndarray) -> None:
        self.direction, self.bounds, self.leaves = direction, bounds, len(bounds) + 1

    def leaf_of(self, points: np.ndarray) -> np.ndarray:
        return np.asarray(np.searchsorted(self.bounds, np.vecdot(points, self.direction), side="right"))


class KMeansTree(NamedTuple):
    root: KMeansNode | ProjectionNode
    leaves: list[np.ndarray]
    """The points in each leaf."""


def _grow(points: np.ndarray, fewest: int, seed: int) -> KMeansTree:
    """Grow a tree whose leaves are neither too large nor too small."""
    rng = np.random.default_rng(seed)
    most = max(LARGEST_LEAF, 2 * fewest)
    number = min(BRANCHES, math.ceil(len(points) / max(LEAF_SIZE, fewest)))
    sample = points[np.sort(rng.integers(len(points), size=number * SAMPLES_PER_CENTRE))]
    centres = _kmeans(sample, number, rng)
    nearest = nearest_centre(points, centres)
    kept = np.bincount(nearest, minlength=len(centres)) >= fewest
    if kept.sum() < 2:
        return _split_by_projection(points, most, rng)
    if not kept.all():
        centres = centres[kept]
        nearest = nearest_centre(points, centres)

    def grow_child(members: np.ndarray) -> tuple[KMeansNode | ProjectionNode | None, list[np.ndarray]]:
        if len(members) <= most:
            return None, [members]
        root, leaves = _grow(points[members], fewest, seed)
        return root, [members[leaf] for leaf in leaves]

    children = [grow_child(members) for members in _members(nearest, len(centres))]
    root = KMeansNode(centres, [child for child, _ in children])
    return KMeansTree(root, [leaf for _, leaves in children for leaf in leaves])


def _split_by_projection(points: np.ndarray, most: int, rng: np.random.Generator) -> KMeansTree:
    direction = np.asarray(rng.standard_normal(points.shape[1], np.float32))
    places = np.vecdot(points, direction)
    leaves = np.array_split(np.argsort(places, kind="stable"), math.ceil(len(points) / most))
    return KMeansTree(ProjectionNode(direction, places[[leaf[0] for leaf in leaves[1:]]]), leaves)


def _kmeans(points: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    """Return at most `number` cluster centres; the first ones are points that differ."""
    projected = np.asarray(points @ rng.standard_normal(points.shape[1], np.float32))
    different = np.unique(projected, return_index=True)[1]
    centres: np.ndarray = points[rng.choice(different, min(number, len(different)), replace=False)]
    for _ in range(KMEANS_ITERATIONS):
        nearest = nearest_centre(points, centres)
        sizes = np.bincount(nearest, minlength=len(centres))[:, None]
        ones = np.ones(len(points), np.float32)
        members = sparse.csr_array((ones, nearest, np.arange(len(points) + 1)), shape=(len(points), len(centres)))
        means = (members.T @ points) / np.maximum(sizes, 1)
        centres = np.asarray(np.where(sizes > 0, means, centres), np.float32)
    return centres


def nearest_centre(points: np.ndarray, centres: np.ndarray, sure: bool = False) -> np.ndarray:
    """Return the nearest centre of each point; if `sure`, the same whether few or many points are asked for at once."""
    half = half_squares(centres)
    rows = max(1, BLOCK // len(centres))
    found = np.empty(len(points), np.int64)
    for first in range(0, len(points), rows):
        some = points[first : first + rows]
        products = some @ -centres.T
        products += half
        if sure:
            two = smallest(products, min(2, len(centres)))
            found[first : first + rows] = nearest_of(some, centres, two, 1)[1].ravel()
        else:
            found[first : first + rows] = products.argmin(1)
    return found


def _members(leaf_of: np.ndarray, number: int) -> list[np.ndarray]:
    """Return the members of each of `number` leaves."""
    small = leaf_of.astype(np.uint16 if number < 2**16 else np.int64)  # NumPy sorts small numbers by counting
    order = np.argsort(small, kind="stable")
    return np.split(order, np.cumsum(np.bincount(leaf_of, minlength=number))[:-1])


def _best(distances: np.ndarray, found: np.ndarray, k: int) -> np.ndarray:
    """Return the k nearest of those found in each row, none of them twice."""
    width = found.shape[1]
    keys = found * np.int64(width) + np.arange(width)
    keys.sort(axis=1)
    found, places = np.divmod(keys, width)
    distances = pick(distances, places)
    np.copyto(distances[:, 1:], np.inf, where=found[:, 1:] == found[:, :-1])
    return pick(found, smallest(distances, k))
