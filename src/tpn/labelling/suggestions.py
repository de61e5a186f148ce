"""Which images to label next."""

import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

MOST_POINTS = 20_000
"""The most points that are clustered: the most doubtful ones."""


def suggest(points: np.ndarray, probabilities: np.ndarray, unlabelled: np.ndarray, number: int) -> np.ndarray:
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
    """
    candidates = np.flatnonzero(unlabelled)
    doubt = doubts(probabilities[candidates])
    if len(candidates) > MOST_POINTS:
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


def doubts(probabilities: np.ndarray) -> np.ndarray:
    """Return one minus the margin: 1 where the two most probable classes are equal, 0 where only one is possible."""
    two = np.partition(probabilities, -2, axis=1)[:, -2:]
    return np.asarray(1 - (two[:, 1] - two[:, 0]), np.float64)
