"""Which images to label next."""

import warnings

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

MOST_POINTS = 20_000
"""The most points that are clustered: the most doubtful ones."""


def suggest(
    points: np.ndarray,
    probabilities: np.ndarray,
    unlabelled: np.ndarray,
    number: int,
    groups: np.ndarray | None = None,
) -> np.ndarray:
    """Return the unlabelled points whose labels would help most, the most helpful first.

    The unlabelled points are clustered by k-means, weighted by doubt, into as many clusters as suggestions are wanted.
    The point nearest to each centre is suggested, clusters with the most doubt first: each is typical of many doubtful
    points, and no two are alike.

    Parameters
    ----------
    points : ndarray of shape (n_samples, n_features)
        The points.
    probabilities : ndarray of shape (n_samples, n_classes)
        The probability of each class.
    unlabelled : ndarray of shape (n_samples,)
        Which points can be suggested.
    number : int
        How many suggestions are wanted.
    groups : ndarray of shape (n_samples,), optional
        The group of near-duplicates of each point, or -1: only the most doubtful one of a group is suggested, and none
        of a group that has a label.
    """
    candidates = np.flatnonzero(unlabelled)
    if groups is not None:
        candidates = _one_of_each(candidates, groups, unlabelled, doubts(probabilities))
    doubt = doubts(probabilities[candidates])
    if len(candidates) > MOST_POINTS and np.ptp(doubt) == 0:  # no label yet
        candidates = candidates[np.linspace(0, len(candidates) - 1, MOST_POINTS).astype(int)]
        doubt = doubt[:MOST_POINTS]
    elif len(candidates) > MOST_POINTS:
        most = np.argsort(-doubt, kind="stable")[:MOST_POINTS]
        candidates, doubt = candidates[most], doubt[most]
    number = min(number, len(candidates))
    if number == 0:
        return candidates[:0]
    weights = doubt + 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters
        clusters = KMeans(number, n_init=1, random_state=0).fit(points[candidates], sample_weight=weights)
    distances = np.square(points[candidates] - clusters.cluster_centers_[clusters.labels_]).sum(1)
    order = np.lexsort((distances, clusters.labels_))
    _, firsts = np.unique(clusters.labels_[order], return_index=True)
    central = order[firsts]
    mass = np.bincount(clusters.labels_, weights, number)[clusters.labels_[central]]
    chosen = candidates[central[np.argsort(-mass, kind="stable")]]
    if len(chosen) < number:  # copies of an image are one cluster
        others = np.setdiff1d(candidates, chosen)
        rank = np.argsort(-doubts(probabilities[others]), kind="stable")
        chosen = np.concatenate([chosen, others[rank][: number - len(chosen)]])
    return np.asarray(chosen)


def suggest_first(points: np.ndarray, number: int, groups: np.ndarray | None = None) -> np.ndarray:
    """Return a first set of points to label, when no label is known: it covers all of them, large clusters first."""
    everything = np.ones(len(points), bool)
    return suggest(points, np.full((len(points), 2), 0.5), everything, number, groups)


def suggest_amid_doubt(doubt: np.ndarray, free: np.ndarray, graph: sparse.csr_array, number: int) -> np.ndarray:
    """Return the points to label next, one after the other: doubtful ones whose neighbours are doubtful too.

    The score of a point is its doubt times the doubt of itself and its neighbours. Once a point is chosen, its
    neighbours count as less doubtful, the more the nearer they are, so that no two suggestions are alike.

    Parameters
    ----------
    doubt : ndarray of shape (n_samples,)
        From 0 to 1. With one minus the confidence, which is low for unfamiliar points too, classes that have no label
        yet are found early; with the margin of two classes they are not.
    free : ndarray of shape (n_samples,)
        Which points can be suggested.
    graph : sparse array of shape (n_samples, n_samples)
        Normalised edge weights.
    number : int
        How many suggestions are wanted.
    """
    left = np.where(free, doubt, 0).astype(graph.dtype)
    chosen: list[int] = []
    for _ in range(min(number, int(free.sum()))):
        score = left * (left + graph @ left)
        score[~free] = -1
        score[chosen] = -1
        best = int(score.argmax())
        chosen.append(best)
        row = slice(graph.indptr[best], graph.indptr[best + 1])
        near, weights = graph.indices[row], graph.data[row]
        if len(near):
            left[near] *= 1 - weights / weights.max()
        left[best] = 0
    return np.array(chosen, np.int64)


def _one_of_each(candidates: np.ndarray, groups: np.ndarray, unlabelled: np.ndarray, doubt: np.ndarray) -> np.ndarray:
    """Keep one of each group of near-duplicates, and none of a group with a label."""
    known = np.unique(groups[~unlabelled & (groups >= 0)])
    alone = candidates[groups[candidates] < 0]
    several = candidates[(groups[candidates] >= 0) & ~np.isin(groups[candidates], known)]
    several = several[np.lexsort((several, -doubt[several], groups[several]))]
    _, first = np.unique(groups[several], return_index=True)
    return np.sort(np.concatenate([alone, several[first]]))


def doubts(probabilities: np.ndarray) -> np.ndarray:
    """Return one minus the margin: 1 where the two most probable classes are equal, 0 where only one is possible."""
    two = np.partition(probabilities, -2, axis=1)[:, -2:]
    return np.asarray(1 - (two[:, 1] - two[:, 0]), np.float64)
