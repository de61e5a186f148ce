"""The smallest of many values in each row, and the nearest of the points that were found."""

import numpy as np
from numpy.lib.stride_tricks import as_strided

GROUP = 8
"""Values of which the smallest stands for all, until it is known which of these groups matter."""
SPARE = 4
"""Points that are found beyond those asked for, so that rounding in a search decides on none of them."""


def smallest(values: np.ndarray, k: int) -> np.ndarray:
    """The places of the k smallest values of each row, in any order.

    A long row is taken as groups: the k smallest values lie in the k groups whose smallest values are the smallest.
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
    """The values at these places of each row."""
    number, width = values.shape
    return np.take(values, places + np.arange(0, number * width, width)[:, None])


def nearest_of(queries: np.ndarray, points: np.ndarray, found: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest of the points found for each query, with their squared distances; of those as near, the first."""
    found = np.sort(found, axis=1)
    differences = np.take(points, found, axis=0)
    differences -= queries[:, None]
    squares = np.vecdot(differences, differences)
    order = np.argsort(squares, axis=1, kind="stable")[:, :k]
    return pick(squares, order), pick(found, order)


def half_squares(points: np.ndarray) -> np.ndarray:
    """Half the squared length of each point."""
    return np.asarray(np.vecdot(points, points) / 2)
