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


def spread(
    graph: sparse.csr_array,
    labels: np.ndarray,
    fixed: np.ndarray,
    prior: np.ndarray,
    alpha: float,
    tol: float = 1e-3,
    max_iter: int = 1000,
    start: np.ndarray | None = None,
) -> Solution:
    """F with F = α D^-1 W F + (1 - α) P where nothing is known, and F = `labels` where `fixed`.

    Each row is a mean of its neighbours' rows (weighted by the edges) and of its own row of the prior P, so rows that
    sum to one keep doing so. A point without any edge has its row of P. With F = D^-1/2 G it is the symmetric system
    (I - α D^-1/2 W D^-1/2) G = B, which conjugate gradients solve.
    """
    free = ~fixed
    dtype = prior.dtype
    degree = np.asarray(graph.sum(1)).ravel()
    isolated = free & (degree <= 0)
    root = np.sqrt(np.where(degree > 0, degree, 1)).astype(dtype)
    inner = graph[free][:, free]
    scaling = sparse.diags_array(1 / root[free])
    S = sparse.csr_array(scaling @ inner @ scaling).astype(dtype)
    known = (graph[free][:, fixed] @ labels) / root[free, None]
    own = np.where(isolated[free, None], 1, 1 - alpha) * root[free, None] * prior[free]
    B = (alpha * known + own).astype(dtype)
    G = (prior if start is None else start)[free] * root[free, None]
    solved, iterations, converged = np.empty_like(B), 0, True
    for first in range(0, B.shape[1], COLUMNS):
        part = slice(first, first + COLUMNS)
        solved[:, part], used, well = conjugate_gradients(S, alpha, B[:, part], G[:, part], tol, max_iter)
        iterations, converged = max(iterations, used), converged and well
    values = np.array(labels_everywhere(labels, fixed, prior))
    values[free] = solved / root[free, None]
    return Solution(values, iterations, converged)


def labels_everywhere(labels: np.ndarray, fixed: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """The labels where they are known, nothing elsewhere."""
    values = np.zeros_like(prior)
    values[fixed] = labels
    return values


def conjugate_gradients(
    S: sparse.csr_array, alpha: float, B: np.ndarray, start: np.ndarray, tol: float, max_iter: int
) -> tuple[np.ndarray, int, bool]:
    """Solve (I - αS) X = B for all columns at once, until each column's residual is `tol` times its B."""
    X = np.ascontiguousarray(start)
    R = B - (X - alpha * (S @ X))
    enough = tol**2 * np.einsum("ij,ij->j", B, B)
    left = np.einsum("ij,ij->j", R, R)
    P, iterations = R.copy(), 0
    while iterations < max_iter and (left > enough).any():
        AP = P - alpha * (S @ P)
        curvature = np.einsum("ij,ij->j", P, AP)
        step = np.divide(left, curvature, out=np.zeros_like(left), where=curvature > 0)
        X += step * P
        R -= step * AP
        before, left = left, np.einsum("ij,ij->j", R, R)
        P *= np.divide(left, before, out=np.zeros_like(left), where=before > 0)
        P += R
        iterations += 1
    return X, iterations, bool((left <= enough).all())
