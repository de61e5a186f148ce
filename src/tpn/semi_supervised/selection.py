"""Selection of the smallest values in each row, and of the nearest among candidate points."""

import numpy as np
from numpy.lib.stride_tricks import as_strided

GROUP = 8
"""Values of a group that its smallest value stands for in the first pass."""
SPARE = 4
"""Candidates that a search finds beyond those asked for, so that rounding does not decide which points are nearest."""


def smallest(values: np.ndarray, k: int) -> np.ndarray:
    """Return the places of the k smallest values of each row, in any order.

    A long row is split into groups: the k smallest values lie in the k groups whose minima are the smallest.
    """
    number, width = values.shape
    groups = width // GROUP
    if groups <= 2 * k:
        return _smallest(values, k)
    whole = groups * GROUP
    row, step = values.strides
    grouped = as_strided(values, (number, GROUP, groups), (row, groups * step, step))  # to reshape would copy them
    best = _smallest(grouped.min(1), k)
    places = (best[:, None] + np.arange(0, whole, groups)[:, None]).reshape(number, -1)
    if whole < width:
        places = np.hstack([places, np.tile(np.arange(whole, width), (number, 1))])
    return pick(places, _smallest(pick(values, places), k))


def _smallest(values: np.ndarray, k: int) -> np.ndarray:
    number, width = values.shape
    if k >= width:
        return np.tile(np.arange(width), (number, 1))
    last = np.partition(values, k - 1, axis=1)[:, k - 1 : k]
    places = np.flatnonzero(values <= last)  # much faster than to sort places along with their values
    if len(places) != number * k:  # there are ties
        return np.argpartition(values, k - 1, axis=1)[:, :k]
    return places.reshape(number, k) - np.arange(0, number * width, width)[:, None]


def pick(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the values at these places of each row."""
    number, width = values.shape
    return np.take(values, places + np.arange(0, number * width, width)[:, None])


def nearest_of(queries: np.ndarray, points: np.ndarray, found: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the squared distances and indices of the k nearest of the points found for each query.

    Of points at the same distance, the first ones are taken.
    """
    found = np.sort(found, axis=1)
    differences = np.take(points, found, axis=0)
    differences -= queries[:, None]
    squares = np.vecdot(differences, differences)
    order = np.argsort(squares, axis=1, kind="stable")[:, :k]
    return pick(squares, order), pick(found, order)


def half_squares(points: np.ndarray) -> np.ndarray:
    """Return half the squared length of each point."""
    return np.asarray(np.vecdot(points, points) / 2)
