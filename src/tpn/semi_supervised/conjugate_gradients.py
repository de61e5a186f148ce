"""Label propagation on a sparse graph of many points, by conjugate gradients, for all classes at once.

`tpn.propagation.solvers` is the other propagation engine: it solves F* = (I - αS)^-1 Y on the dense graphs of few-shot
episodes, in batches and with gradients, as tensors of PyTorch. The system here has the same matrix I - αS, but labelled
points keep their label, every other point has a prior, and the graph has up to millions of nodes: a factorisation would
not fit into memory, and nothing is differentiated. So this engine is written for NumPy and SciPy, and works without
PyTorch; the tests compare the two on one graph.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tpn.semi_supervised.sparse_graph import Graph
from tpn.semi_supervised.threads import Map, threads

COLUMNS = 128
"""Classes that are solved for at once. The time goes into reading rows of scattered neighbours, and long rows are read
faster than short ones."""
BLOCK = 2**18
"""Numbers that a thread handles at once: so few that they stay in its cache from one operation to the next."""
FEWEST_ROWS = 2**9
"""The fewest rows that a thread handles at once."""
NEARLY_ALL = 0.9
"""Columns that have not converged before the first step are taken out of the others unless there are more than this."""
MOST = 0.75
"""The same after a step: then their directions have to be copied too."""


@dataclass(frozen=True)
class Solution:
    """The propagated scores, and how the solver ended."""

    values: np.ndarray
    iterations: int
    converged: bool


class SparsePropagation:
    """Propagation on a graph from the nodes whose labels are known (`labelled`), which keep them."""

    def __init__(self, graph: Graph, labelled: np.ndarray, workers: int = 1) -> None:
        self.graph, self.labelled, self.workers = graph, labelled, workers
        known = np.flatnonzero(labelled)
        self.from_labelled = graph.S[known].T.tocsr()  # S is symmetric, and rows are quickly found
        self.label_root = graph.root[known, None]

    def solve(
        self,
        labels: np.ndarray,
        prior: np.ndarray,
        alpha: float,
        tol: float = 1e-3,
        max_iter: int = 1000,
        start: np.ndarray | None = None,
    ) -> Solution:
        """Solve F = α D^-1 W F + (1 - α) P for the unlabelled points; F = `labels` for the labelled ones.

        Each row is the mean of its neighbours' rows (weighted by the edges) and of its own row of the prior P, so rows
        that sum to one keep doing so. A point without any edge keeps its prior. With F = D^-1/2 G this is the symmetric
        system (I - α D^-1/2 W D^-1/2) G = B, which conjugate gradients solve. For labelled points, G and B are zero.
        It starts from zero, or from a good `start`, and then only columns that have not converged yet are solved for.
        """
        root = self.graph.root[:, None]
        own = np.where(self.graph.isolated[:, None], 1, 1 - alpha).astype(prior.dtype) * root
        given = labels * self.label_root * labels.dtype.type(alpha)
        B, G = np.empty_like(prior), np.zeros_like(prior)

        def assemble(part: slice) -> None:
            np.multiply(prior[part], own[part], out=B[part])
            B[part] += _rows(self.from_labelled, part) @ given
            if start is not None:
                np.multiply(start[part], root[part], out=G[part])

        def finish(part: slice) -> None:
            G[part] /= root[part]

        iterations, converged = 0, True
        with threads(self.workers) as run:
            list(run(assemble, row_blocks(B)))
            B[self.labelled] = G[self.labelled] = 0
            for first in range(0, B.shape[1], COLUMNS):
                part = slice(first, first + COLUMNS)
                solved = conjugate_gradients(
                    self.graph.S, alpha, B[:, part], G[:, part], tol, max_iter, run, self.labelled, start is None
                )
                G[:, part] = solved.values
                iterations, converged = max(iterations, solved.iterations), converged and solved.converged
            list(run(finish, row_blocks(G)))
        G[self.labelled] = labels
        return Solution(G, iterations, converged)


def conjugate_gradients(
    S: sparse.csr_array,
    alpha: float,
    B: np.ndarray,
    start: np.ndarray,
    tol: float,
    max_iter: int,
    run: Map = map,
    fixed: np.ndarray | None = None,
    from_zero: bool = False,
) -> Solution:
    """Solve (I - αS) X = B for all columns at once, until the residual of each column is at most `tol` times its B.

    SciPy's solver takes one column at a time, and reads the graph again for each. Rows that are `fixed` take no part:
    B and `start` are zero there, and so is the solution. Columns that have converged are left out once they are a
    quarter of those that are worked on, or a tenth before the first step. If `start` is zero (`from_zero`), its product
    with the graph is not computed.
    """
    parts = row_blocks(B)
    blocks = [_rows(S, part) for part in parts]
    still = [np.flatnonzero(fixed[part]) if fixed is not None else np.empty(0, np.int64) for part in parts]
    X = np.array(start, order="C")
    R = np.empty_like(X)

    def begin(part: slice, block: sparse.csr_array, zero: np.ndarray) -> np.ndarray:
        R[part] = B[part]
        if not from_zero:
            product = block @ X
            product *= alpha
            product -= X[part]
            R[part] += product
        R[part][zero] = 0
        return np.stack([_dot(R[part], R[part]), _dot(B[part], B[part])])

    def multiply(part: slice, block: sparse.csr_array, zero: np.ndarray) -> np.ndarray:
        product = block @ P
        product *= -alpha
        np.add(product, P[part], out=AP[part])
        AP[part][zero] = 0
        return _dot(P[part], AP[part])

    def advance(part: slice, steps: np.ndarray) -> np.ndarray:
        scaled = _scaled(P[part], steps)
        X[part] += scaled
        R[part] -= _scaled(AP[part], steps, out=scaled)
        return _dot(R[part], R[part])

    def turn(part: slice, ratios: np.ndarray) -> None:
        _scaled(P[part], ratios, out=P[part])
        P[part] += R[part]

    left, size = np.sum(list(run(begin, parts, blocks, still)), axis=0)
    enough, iterations = tol**2 * size, 0
    solution, columns = X, np.arange(X.shape[1])
    P, AP = R.copy(), np.empty_like(R)
    while iterations < max_iter and (active := left > enough).any():
        if active.sum() <= len(active) * (NEARLY_ALL if iterations == 0 else MOST):
            if X is not solution:
                solution[:, columns] = X
            columns, left, enough = columns[active], left[active], enough[active]
            X, R, P = (np.ascontiguousarray(values[:, active]) for values in (X, R, P))
            AP = np.empty_like(R)
        steps = _ratio(left, np.sum(list(run(multiply, parts, blocks, still)), axis=0))
        before, left = left, np.sum(list(run(advance, parts, [_repeated(steps, X, parts)] * len(parts))), axis=0)
        iterations += 1
        if iterations < max_iter and (left > enough).any():
            list(run(turn, parts, [_repeated(_ratio(left, before), X, parts)] * len(parts)))
    if X is not solution:
        solution[:, columns] = X
    return Solution(solution, iterations, bool((left <= enough).all()))


def row_blocks(rows: np.ndarray) -> list[slice]:
    """Split rows into blocks that stay in the cache of a thread."""
    step = max(FEWEST_ROWS, BLOCK // max(1, rows.shape[1]))
    return [slice(first, min(first + step, len(rows))) for first in range(0, len(rows), step)]


def _rows(S: sparse.csr_array, part: slice) -> sparse.csr_array:
    """Return some rows of a matrix, without a copy of their values."""
    first, last = S.indptr[part.start], S.indptr[part.stop]
    bounds = S.indptr[part.start : part.stop + 1] - first
    return sparse.csr_array((S.data[first:last], S.indices[first:last], bounds), (len(bounds) - 1, S.shape[1]))


def _dot(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the product of each pair of columns."""
    return np.asarray(np.einsum("ij,ij->j", left, right), np.float64)


def _repeated(factors: np.ndarray, rows: np.ndarray, parts: list[slice]) -> np.ndarray:
    """Return the factors of all columns, once for each row of the largest part, as one long row."""
    return np.tile(factors.astype(rows.dtype), parts[0].stop)


def _scaled(rows: np.ndarray, repeated: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Multiply each column by its factor: as one long row, since NumPy is slow on rows of few numbers."""
    out = np.empty_like(rows) if out is None else out
    np.multiply(rows.ravel(), repeated[: rows.size], out=out.reshape(-1))
    return out


def _ratio(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.asarray(np.divide(left, right, out=np.zeros_like(left), where=right > 0))
