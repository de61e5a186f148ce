"""The nearest of very many points: these are divided into cells, in several ways, and a query looks into its own cells.

Near the border of its cell a point misses some of its neighbours, but its cells in other divisions have other borders.
"""

import math
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from scipy import sparse

from tpn.semi_supervised.selection import SPARE, half_squares, nearest_of, pick, smallest
from tpn.semi_supervised.threads import threads

DIVISIONS = 3
CELL, LARGEST, SMALLEST = 768, 2048, 64
"""Points in a cell: about so many, and never more or fewer (unless more neighbours are asked for)."""
BRANCHES = 128
"""Cells that points are divided into at once."""
ROUNDS = 4
"""How often cells are moved to the middle of their points."""
SAMPLED = 100
"""Points of each cell that decide on its middle."""
QUERIES = 2048
"""Queries that are compared with the points of a cell at once."""
BLOCK = 2**20
"""Numbers that a thread handles at once, elsewhere."""


class Divided:
    """Points of which the `k` nearest to any query are to be found.

    Distances come from products of matrices in single precision, relative to the middle of a cell. Products of few and
    of many rows round differently, so a few more points than asked for are found, their distances computed anew, and
    the nearest of those taken.
    """

    def __init__(self, points: np.ndarray, k: int, workers: int) -> None:
        self.points, self.k, self.workers = points, k, workers
        self._wanted = min(k + SPARE, len(points))
        some = points[:: max(1, len(points) // (BRANCHES * SAMPLED))]
        self._middle = some.mean(0, dtype=np.float64).astype(points.dtype)
        unit = float(np.sqrt(np.square(some - self._middle, dtype=np.float64).mean())) or 1.0
        self._unit = points.dtype.type(1 if 1e-6 < unit < 1e6 else unit)
        moved = self._single(points, self._middle)
        with threads(workers) as run:
            self._divisions = list(run(partial(_divide, moved, max(SMALLEST, self._wanted)), range(DIVISIONS)))

    def of(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The squared distances and the indices of the nearest points to each query, nearest first."""
        moved = self._single(queries, self._middle)
        return self._search(queries, [_members(tree.locate(moved), tree.leaves) for tree, _ in self._divisions])

    def of_each_other(self) -> tuple[np.ndarray, np.ndarray]:
        """The same for the points themselves: each is among its own neighbours, the first of those as near."""
        return self._search(self.points, [cells for _, cells in self._divisions])

    def _search(self, queries: np.ndarray, asking: list[list[np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
        """Answer queries, given which of them are in each cell of each division."""
        shape = (len(asking), len(queries), self._wanted)
        distances, found = np.empty(shape, np.float32), np.empty(shape, np.int32)

        def compare(division: int, cell: int, start: int) -> None:
            members, asked = self._divisions[division].cells[cell], asking[division][cell]
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
                np.add(pick(products, best), half_squares(some)[:, None], out=distances[division, part])
                found[division, part] = np.take(members, best)

        def choose(first: int) -> None:
            part = slice(first, first + rows)
            lines = [places[part] for places in answers]
            near = np.hstack([np.take(one, line, axis=0) for one, line in zip(distances, lines, strict=True)])
            best = np.hstack([np.take(one, line, axis=0) for one, line in zip(found, lines, strict=True)])
            best = _best(near, best, self._wanted)
            squares[part], nearest[part] = nearest_of(queries[part], self.points, best, self.k)

        squares = np.empty((len(queries), self.k), self.points.dtype)
        nearest = np.empty((len(queries), self.k), np.int32)
        answers = [np.argsort(np.concatenate(cells)) for cells in asking]
        tasks = [
            (division, cell, start)
            for division, cells in enumerate(asking)
            for cell, start in enumerate(accumulate(map(len, cells[:-1]), initial=0))
            if len(cells[cell])
        ]
        rows = max(1, BLOCK // (self._wanted * queries.shape[1]))
        with threads(self.workers) as run:
            list(run(compare, *zip(*tasks, strict=True)))
            list(run(choose, range(0, len(queries), rows)))
        return squares, nearest

    def _single(self, points: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """Single precision, where rounding does the least harm: around zero, near one."""
        moved = points - centre
        if self._unit != 1:
            moved /= self._unit
        return np.asarray(moved, np.float32)


class Tree:
    """Cells in cells: those around these centres, some of which are divided further."""

    leaves: int

    def __init__(self, centres: np.ndarray, inner: list["Tree | Slices | None"]) -> None:
        self.centres, self.inner = centres, inner
        self.sizes = np.array([1 if tree is None else tree.leaves for tree in inner])
        self.leaves = int(self.sizes.sum())

    def locate(self, points: np.ndarray) -> np.ndarray:
        """The innermost cell of each point, in order."""
        cells = nearest_centre(points, self.centres, sure=True)
        found: np.ndarray = (np.cumsum(self.sizes) - self.sizes)[cells]
        for cell, tree in enumerate(self.inner):
            if tree is not None and len(some := np.flatnonzero(cells == cell)):
                found[some] += tree.locate(points[some])
        return found


class Slices:
    """Cells side by side, of points that have no groups: many copies of one, above all."""

    def __init__(self, along: np.ndarray, bounds: np.ndarray) -> None:
        self.along, self.bounds, self.leaves = along, bounds, len(bounds) + 1

    def locate(self, points: np.ndarray) -> np.ndarray:
        return np.asarray(np.searchsorted(self.bounds, np.vecdot(points, self.along), side="right"))


class Division(NamedTuple):
    tree: Tree | Slices
    cells: list[np.ndarray]
    """The points in each cell."""


def _divide(points: np.ndarray, fewest: int, seed: int) -> Division:
    """Divide points into cells that are neither too large nor too small."""
    rng = np.random.default_rng(seed)
    most = max(LARGEST, 2 * fewest)
    number = min(BRANCHES, math.ceil(len(points) / max(CELL, fewest)))
    centres = _middles(points[np.sort(rng.integers(len(points), size=number * SAMPLED))], number, rng)
    cells = nearest_centre(points, centres)
    kept = np.bincount(cells, minlength=len(centres)) >= fewest
    if kept.sum() < 2:
        return _slice(points, most, rng)
    if not kept.all():
        centres = centres[kept]
        cells = nearest_centre(points, centres)

    def inside(members: np.ndarray) -> tuple[Tree | Slices | None, list[np.ndarray]]:
        if len(members) <= most:
            return None, [members]
        tree, parts = _divide(points[members], fewest, seed)
        return tree, [members[part] for part in parts]

    inner = [inside(members) for members in _members(cells, len(centres))]
    return Division(Tree(centres, [tree for tree, _ in inner]), [part for _, parts in inner for part in parts])


def _slice(points: np.ndarray, most: int, rng: np.random.Generator) -> Division:
    along = np.asarray(rng.standard_normal(points.shape[1], np.float32))
    places = np.vecdot(points, along)
    cells = np.array_split(np.argsort(places, kind="stable"), math.ceil(len(points) / most))
    return Division(Slices(along, places[[cell[0] for cell in cells[1:]]]), cells)


def _middles(points: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    """About so many centres of groups of points: k-means, from points that differ."""
    side = rng.standard_normal(points.shape[1], np.float32)
    different = np.unique(np.asarray(points @ side), return_index=True)[1]
    centres: np.ndarray = points[rng.choice(different, min(number, len(different)), replace=False)]
    for _ in range(ROUNDS):
        cells = nearest_centre(points, centres)
        sizes = np.bincount(cells, minlength=len(centres))[:, None]
        ones = np.ones(len(points), np.float32)
        belong = sparse.csr_array((ones, cells, np.arange(len(points) + 1)), shape=(len(points), len(centres)))
        means = (belong.T @ points) / np.maximum(sizes, 1)
        centres = np.asarray(np.where(sizes > 0, means, centres), np.float32)
    return centres


def nearest_centre(points: np.ndarray, centres: np.ndarray, sure: bool = False) -> np.ndarray:
    """The nearest centre to each point; `sure` if it is to be the same for few and for many points at once."""
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


def _members(cells: np.ndarray, number: int) -> list[np.ndarray]:
    """The members of each cell."""
    small = cells.astype(np.uint16 if number < 2**16 else np.int64)  # sorted by counting
    order = np.argsort(small, kind="stable")
    return np.split(order, np.cumsum(np.bincount(cells, minlength=number))[:-1])


def _best(distances: np.ndarray, found: np.ndarray, k: int) -> np.ndarray:
    """The k nearest of those found in each row, none of them twice."""
    width = found.shape[1]
    keys = found * np.int64(width) + np.arange(width)
    keys.sort(axis=1)
    found, places = np.divmod(keys, width)
    distances = pick(distances, places)
    np.copyto(distances[:, 1:], np.inf, where=found[:, 1:] == found[:, :-1])
    return pick(found, smallest(distances, k))
