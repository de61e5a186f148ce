"""The paper's equations written out in NumPy, node by node, as a reader would: slow, obvious, and independent."""

import numpy as np


def affinity(features, sigma):
    """Equations (1) and (2): one σ for all, or one per node."""
    n = len(features)
    sigma = np.broadcast_to(sigma, n)
    W = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            difference = features[i] / sigma[i] - features[j] / sigma[j]
            W[i, j] = np.exp(-np.mean(difference**2) / 2)
    return W


def connect(W, k, mutual=False):
    """Keep an edge if one of its ends (or both) has it among its k strongest."""
    n = len(W)
    strongest = [set(np.argsort(-W[i])[:k]) for i in range(n)]
    kept = np.zeros_like(W)
    for i in range(n):
        for j in range(n):
            chosen = (j in strongest[i], i in strongest[j])
            if all(chosen) if mutual else any(chosen):
                kept[i, j] = W[i, j]
    return kept


def normalise(W):
    """S = D^-1/2 W D^-1/2."""
    D = np.diag(1 / np.sqrt(W.sum(1)))
    return D @ W @ D


def closed_form(S, Y, alpha):
    """Equation (4)."""
    return np.linalg.inv(np.eye(len(S)) - alpha * S) @ Y


def iterate(S, Y, alpha, steps):
    """Equation (3), from F = Y."""
    F = Y
    for _ in range(steps):
        F = alpha * S @ F + (1 - alpha) * Y
    return F


def loss(F, labels):
    """Equations (5) and (6), as a mean."""
    P = np.exp(F) / np.exp(F).sum(1, keepdims=True)
    return -np.mean([np.log(P[i, label]) for i, label in enumerate(labels)])
