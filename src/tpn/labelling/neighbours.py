"""The nearest neighbours of many points: all distances while points are few, the nearest cells when they are many."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import faiss
import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

Search: TypeAlias = Literal["auto", "exact", "approximate"]
Points: TypeAlias = np.ndarray | sparse.csr_matrix | sparse.csr_array

MOST_EXACT = 10_000
"""More points than this are searched cell by cell."""
CELL = 128
"""Points in a cell."""
CELLS_SEARCHED = 6
MOST_FLAT_CELLS = 2048
"""Among more cells than this the nearest are themselves found on a graph."""
ROUNDS, SAMPLE = 4, 39
"""How often cells are moved to the middle of their points, and how many points of each decide on it."""
MOST_SAMPLED = 100_000
"""Points that decide on the places of all cells."""
SPARE = 4
"""Neighbours that are searched for beyond those asked for, so that rounding in the search decides on none of them."""
BLOCK = 2**22
"""Differences that are held at once."""


class Neighbours:
    """Points to be found.

    The search itself is in single precision, and rounds differently for few and for many queries at once. So a few more
    points than asked for are searched, their distances computed anew, and the nearest of those taken.
    """

    def __init__(self, points: Points, search: Search = "auto", n_jobs: int | None = None) -> None:
        self.points = points
        self.threads = effective_n_jobs(-1 if n_jobs is None else n_jobs)
        self.exact = search == "exact" or (search == "auto" and points.shape[0] <= MOST_EXACT)
        self._index: Any
        if sparse.issparse(points):
            self.exact = True
            self._index = NearestNeighbors(algorithm="brute", n_jobs=self.threads).fit(points)
            return
        self._centre = points.mean(0, dtype=np.float64)
        some = points[:: max(1, len(points) // MOST_EXACT)]
        self._unit = float(np.sqrt(np.square(some - self._centre, dtype=np.float64).mean())) or 1.0
        with _threads(self.threads):
            self._index = _build(self._prepared(points), self.exact)

    def __getstate__(self) -> dict[str, Any]:
        index = self._index
        packed = index if isinstance(index, NearestNeighbors) else faiss.serialize_index(index)
        return {**self.__dict__, "_index": packed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        packed = state["_index"]
        index = packed if isinstance(packed, NearestNeighbors) else faiss.deserialize_index(packed)
        self.__dict__.update(state, _index=index)

    def of(self, queries: Points, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The squared distances and the indices of the k nearest points to each query, nearest first.

        Where an approximate search finds fewer, the last found is repeated.
        """
        wanted = min(k + SPARE, self.points.shape[0])
        if isinstance(self._index, NearestNeighbors):
            found = self._index.kneighbors(queries, wanted, return_distance=False)
        else:
            with _threads(self.threads):
                found = self._index.search(self._prepared(queries), wanted)[1]
            found = _filled(found)
        return self._nearest(queries, found, min(k, wanted))

    def of_each_other(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The same for the points themselves, each without itself."""
        squares, found = self.of(self.points, k + 1)
        own = found == np.arange(len(found))[:, None]
        own[~own.any(1), -1] = True  # so many copies of a point that it is not among its own neighbours
        own &= np.cumsum(own, 1) == 1
        shape = (len(found), found.shape[1] - 1)
        return squares[~own].reshape(shape), found[~own].reshape(shape)

    def _prepared(self, points: np.ndarray) -> np.ndarray:
        """Single precision, where rounding does the least harm: around zero, near one."""
        return np.ascontiguousarray((points - self._centre) / self._unit, np.float32)

    def _nearest(self, queries: Points, found: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Those k of the found points that are nearest by their distances computed one by one."""
        squares = np.empty(found.shape, self.points.dtype)
        rows = max(1, BLOCK // (found.shape[1] * self.points.shape[1]))
        for start in range(0, len(found), rows):
            part = slice(start, start + rows)
            squares[part] = _squares(queries[part], self.points, found[part])
        order = np.lexsort((found, squares), axis=1)[:, :k]
        return np.take_along_axis(squares, order, 1), np.take_along_axis(found, order, 1)


def _squares(queries: Points, points: Points, found: np.ndarray) -> np.ndarray:
    """The squared distance of each query to each of the points found for it."""
    if isinstance(points, np.ndarray):
        differences = points[found] - queries[:, None]
        squares: np.ndarray = np.einsum("qkd,qkd->qk", differences, differences)
        return squares
    repeated = np.repeat(np.arange(len(found)), found.shape[1])
    differences = points[found.ravel()] - queries[repeated]
    return np.asarray(differences.multiply(differences).sum(1)).reshape(found.shape)


def _filled(found: np.ndarray) -> np.ndarray:
    """Repeat the last neighbour that was found where there are too few of them."""
    missing = found < 0
    if missing.any():
        last = np.maximum((~missing).sum(1) - 1, 0)
        found = np.where(missing, found[np.arange(len(found)), last][:, None], found)
    return found


def _build(points: np.ndarray, exact: bool) -> Any:
    """An index of all points, or of cells around as many centres."""
    number, dimensions = points.shape
    index: Any
    if exact:
        index = faiss.IndexFlatL2(dimensions)
        index.add(points)
        return index
    cells = max(1, min(math.ceil(number / CELL), number // SAMPLE))
    many = cells > MOST_FLAT_CELLS
    quantiser: Any = faiss.IndexHNSWFlat(dimensions, 16) if many else faiss.IndexFlatL2(dimensions)
    index = faiss.IndexIVFFlat(quantiser, dimensions, cells)
    index.own_fields = True
    quantiser.this.disown()
    index.cp.niter, index.cp.min_points_per_centroid = ROUNDS, 1
    index.cp.max_points_per_centroid = max(1, min(SAMPLE, MOST_SAMPLED // cells))
    index.train(points)
    index.add(points)
    index.nprobe = min(cells, CELLS_SEARCHED)
    return index


@contextmanager
def _threads(number: int) -> Iterator[None]:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(number)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
