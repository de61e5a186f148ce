"""Spreading labels over a sparse graph, for all classes at once."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

COLUMNS = 64
"""Classes that are solved for at once."""


@dataclass(frozen=True)
class Solution:
    """What came out, and how."""

    values: np.ndarray
    iterations: int
    converged: bool


class Spreading:
    """Labels that spread over a graph from those points whose labels are known (`fixed`)."""

    def __init__(self, graph: sparse.csr_array, fixed: np.ndarray, alpha: float) -> None:
        self.free, self.fixed, self.alpha = ~fixed, fixed, alpha
        degree = np.asarray(graph.sum(1)).ravel()
        self.isolated = (degree <= 0)[self.free, None]
        self.root = np.sqrt(np.where(degree > 0, degree, 1)).astype(graph.dtype)[self.free, None]
        rows = graph[self.free]
        self.S = sparse.csr_array(rows[:, self.free])
        scaling = 1 / self.root.ravel()
        self.S.data *= np.repeat(scaling, np.diff(self.S.indptr)) * scaling[self.S.indices]
        self.from_fixed = rows[:, fixed]

    def solve(
        self,
        labels: np.ndarray,
        prior: np.ndarray,
        tol: float = 1e-3,
        max_iter: int = 1000,
        start: np.ndarray | None = None,
    ) -> Solution:
        """F with F = α D^-1 W F + (1 - α) P where nothing is known, and F = `labels` where they are.

        Each row is a mean of its neighbours' rows (weighted by the edges) and of its own row of the prior P, so rows
        that sum to one keep doing so. A point without any edge has its row of P. With F = D^-1/2 G it is the symmetric
        system (I - α D^-1/2 W D^-1/2) G = B, which conjugate gradients solve.
        """
        own = np.where(self.isolated, 1, 1 - self.alpha).astype(prior.dtype) * self.root * prior[self.free]
        B = self.alpha * (self.from_fixed @ labels) / self.root + own
        G = (prior if start is None else start)[self.free] * self.root
        solved, iterations, converged = np.empty_like(B), 0, True
        for first in range(0, B.shape[1], COLUMNS):
            part = slice(first, first + COLUMNS)
            solved[:, part], used, well = conjugate_gradients(self.S, self.alpha, B[:, part], G[:, part], tol, max_iter)
            iterations, converged = max(iterations, used), converged and well
        values = np.empty_like(prior)
        values[self.fixed] = labels
        values[self.free] = solved / self.root
        return Solution(values, iterations, converged)


def conjugate_gradients(
    S: sparse.csr_array, alpha: float, B: np.ndarray, start: np.ndarray, tol: float, max_iter: int
) -> tuple[np.ndarray, int, bool]:
    """Solve (I - αS) X = B for all columns at once, until each column's residual is `tol` times its B."""
    X = np.ascontiguousarray(start)
    R = B - (X - alpha * (S @ X))
    enough = tol**2 * np.einsum("ij,ij->j", B, B)
    left = np.einsum("ij,ij->j", R, R)
    P, scaled, iterations = R.copy(), np.empty_like(R), 0
    while iterations < max_iter and (left > enough).any():
        AP = S @ P
        AP *= -alpha
        AP += P
        curvature = np.einsum("ij,ij->j", P, AP)
        step = np.divide(left, curvature, out=np.zeros_like(left), where=curvature > 0)
        X += np.multiply(P, step, out=scaled)
        R -= np.multiply(AP, step, out=scaled)
        before, left = left, np.einsum("ij,ij->j", R, R)
        P *= np.divide(left, before, out=np.zeros_like(left), where=before > 0)
        P += R
        iterations += 1
    return X, iterations, bool((left <= enough).all())
