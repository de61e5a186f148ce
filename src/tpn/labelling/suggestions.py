"""Which images to label next."""

import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

MOST_POINTS = 20_000
"""Groups are made of no more of the most doubtful points than this."""


def suggest(points: np.ndarray, probabilities: np.ndarray, free: np.ndarray, number: int) -> np.ndarray:
    """The points whose labels would help most, the most helpful first.

    Points without a label are grouped, those in doubt counting more, into as many groups as are wanted: the one in the
    middle of each is typical of many that are doubtful, and the groups lie apart. Groups with much doubt come first.
    """
    candidates = np.flatnonzero(free)
    doubt = doubts(probabilities[candidates])
    if len(candidates) > MOST_POINTS:
        most = np.argsort(-doubt, kind="stable")[:MOST_POINTS]
        candidates, doubt = candidates[most], doubt[most]
    number = min(number, len(candidates))
    if number == 0:
        return candidates[:0]
    weights = doubt + 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different points than groups
        groups = KMeans(number, n_init=1, random_state=0).fit(points[candidates], sample_weight=weights)
    distances = np.square(points[candidates] - groups.cluster_centers_[groups.labels_]).sum(1)
    order = np.lexsort((distances, groups.labels_))
    _, firsts = np.unique(groups.labels_[order], return_index=True)
    middles = order[firsts]
    mass = np.bincount(groups.labels_, weights, number)[groups.labels_[middles]]
    chosen = candidates[middles[np.argsort(-mass, kind="stable")]]
    if len(chosen) < number:  # copies of an image are one group
        others = np.setdiff1d(candidates, chosen)
        rank = np.argsort(-doubts(probabilities[others]), kind="stable")
        chosen = np.concatenate([chosen, others[rank][: number - len(chosen)]])
    return np.asarray(chosen)


def doubts(probabilities: np.ndarray) -> np.ndarray:
    """1 where the two most probable classes are equally so, 0 where only one is possible."""
    two = np.partition(probabilities, -2, axis=1)[:, -2:]
    return np.asarray(1 - (two[:, 1] - two[:, 0]), np.float64)
