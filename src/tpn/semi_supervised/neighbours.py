"""Nearest neighbours: exact search up to 10,000 points, an index of k-means trees beyond."""

from typing import Literal, TypeAlias

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from tpn.semi_supervised.kmeans_forest import KMeansForest
from tpn.semi_supervised.selection import SPARE, nearest_of, pick, smallest
from tpn.semi_supervised.threads import threads

Search: TypeAlias = Literal["auto", "exact", "approximate"]
Points: TypeAlias = np.ndarray | sparse.csr_matrix | sparse.csr_array

MOST_EXACT = 10_000
"""The most points that `search="auto"` compares with each other."""
QUERIES, CHUNK = 256, 4096
"""Queries, and points, that are compared at once."""
BLOCK = 2**22
"""Differences of sparse points that are held at once."""


class Neighbours:
    """Finds the `k` nearest neighbours among points, by the search that suits their number and kind."""

    def __init__(self, points: Points, k: int, search: Search = "auto", n_jobs: int | None = None) -> None:
        self.k, self.number, self.dtype = k, points.shape[0], points.dtype
        self.exact = search == "exact" or (search == "auto" and self.number <= MOST_EXACT) or sparse.issparse(points)
        self.workers = effective_n_jobs(n_jobs)
        kind = SparseSearch if sparse.issparse(points) else ExactSearch if self.exact else KMeansForest
        self._index: KMeansForest | ExactSearch | SparseSearch = kind(points, min(k + 1, self.number), self.workers)

    def query(self, queries: Points) -> tuple[np.ndarray, np.ndarray]:
        """Return the squared distances and the indices of the nearest points to each query, nearest first."""
        squares, found = self._index.query(queries)
        return squares[:, : self.k], found[:, : self.k]

    def query_self(self) -> tuple[np.ndarray, np.ndarray]:
        """Do the same for the points themselves, each without itself."""
        squares, found = self._index.query_self()
        own = found == np.arange(len(found))[:, None]
        own[~own.any(1), -1] = True  # a point with so many copies that it is not among its own neighbours
        shape = (len(found), found.shape[1] - 1)
        return squares[~own].reshape(shape), found[~own].reshape(shape)


class ExactSearch:
    """Compares each query with all points, by matrix products in double precision."""

    def __init__(self, points: np.ndarray, k: int, workers: int) -> None:
        self.points, self.k, self.workers = points, k, workers
        self._mean = points.mean(0, dtype=np.float64)
        self._centred = points - self._mean
        self._half = np.einsum("nd,nd->n", self._centred, self._centred) / 2

    def query(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wanted = min(self.k + SPARE, len(self.points))

        def answer(first: int) -> tuple[np.ndarray, np.ndarray]:
            some = queries[first : first + QUERIES]
            asked = self._mean - some
            best, scores = np.empty((len(some), 0), np.int64), np.empty((len(some), 0))
            for start in range(0, len(self.points), CHUNK):
                products = asked @ self._centred[start : start + CHUNK].T
                products += self._half[start : start + CHUNK]
                places = smallest(products, wanted)
                best, scores = np.hstack([best, start + places]), np.hstack([scores, pick(products, places)])
                places = smallest(scores, wanted)
                best, scores = pick(best, places), pick(scores, places)
            return nearest_of(some, self.points, best, self.k)

        with threads(self.workers) as run:
            answers = list(run(answer, range(0, len(queries), QUERIES)))
        return np.concatenate([squares for squares, _ in answers]), np.concatenate([found for _, found in answers])

    def query_self(self) -> tuple[np.ndarray, np.ndarray]:
        return self.query(self.points)


class SparseSearch:
    """Compares each query with all points, where both are sparse."""

    def __init__(self, points: Points, k: int, workers: int) -> None:
        self.points, self.k = points, k
        wanted = min(k + SPARE, points.shape[0])
        self._search = NearestNeighbors(n_neighbors=wanted, algorithm="brute", n_jobs=workers).fit(points)

    def query(self, queries: Points) -> tuple[np.ndarray, np.ndarray]:
        found = self._search.kneighbors(queries, return_distance=False)
        squares = np.empty(found.shape, self.points.dtype)
        rows = max(1, BLOCK // (found.shape[1] * self.points.shape[1]))
        for start in range(0, len(found), rows):
            part = found[start : start + rows]
            repeated = start + np.repeat(np.arange(len(part)), part.shape[1])
            differences = self.points[part.ravel()] - queries[repeated]
            squares[start : start + rows] = np.asarray(differences.multiply(differences).sum(1)).reshape(part.shape)
        order = np.lexsort((found, squares), axis=1)[:, : self.k]
        return pick(squares, order), pick(found, order)

    def query_self(self) -> tuple[np.ndarray, np.ndarray]:
        return self.query(self.points)
