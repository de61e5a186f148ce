"""What came to each point of each class: balanced between classes, made probabilities, and compared between points."""

import numpy as np

SHARPNESS = 1.7
"""The power that makes shares probabilities: means over neighbours are less sure than they ought to be."""
BALANCING_STEPS = 20
CONFIDENT_SHARE = 0.5
"""The share of each class, the surest first, that counts as sure."""
USUAL = 0.75
"""The share of a class's points to which no more comes than is usual in it."""
ENOUGH = 0.5
"""How much of what is usual in a class has to come to a point for it to be of that class beyond doubt."""


def class_factors(shares: np.ndarray, labelled: int, known: np.ndarray | None = None) -> np.ndarray:
    """A factor for each class that brings it to its share of all points.

    That share is known; or it is between what came out and the same for all classes, the nearer to the latter the fewer
    points are labelled.
    """
    number = shares.shape[1]
    factors = np.ones(number)
    if not len(shares):
        return factors
    target = known
    if target is None:
        equality = 1 / (1 + labelled / number)
        target = np.maximum(shares.mean(0, dtype=np.float64), 1e-12) ** (1 - equality)
        target = target / target.sum()
    least = np.finfo(shares.dtype).tiny
    for _ in range(BALANCING_STEPS):
        sums = np.maximum(shares @ factors.astype(shares.dtype), least)
        masses = factors * ((1 / sums) @ shares) / len(shares)  # of shares times factors, each row of which sums to one
        change = target / np.maximum(masses, 1e-12)
        factors *= change
        if np.abs(change - 1).max() < 1e-2:
            break
    return np.asarray(factors / factors.max())


def balanced(shares: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Shares with these factors, which sum to one again."""
    scaled: np.ndarray = np.maximum(shares, np.finfo(shares.dtype).tiny) * factors.astype(shares.dtype)
    scaled /= _sums(scaled)
    return scaled


def as_probabilities(shares: np.ndarray) -> np.ndarray:
    sharp: np.ndarray = (shares / shares.max(1, keepdims=True)) ** SHARPNESS
    sharp /= _sums(sharp)
    return sharp


def surest(shares: np.ndarray, free: np.ndarray, most: int) -> np.ndarray:
    """The surest points of each class: half of those that are in it most probably, as far as there is room."""
    best = shares.argmax(1)
    sureness = shares[np.arange(len(shares)), best]
    order = np.lexsort((-sureness, best))
    order = order[free[order]]
    members = best[order]
    starts = np.searchsorted(members, members)
    rank = np.arange(len(order)) - starts
    sizes = np.bincount(members, minlength=shares.shape[1])[members]
    room = max(1, most // shares.shape[1])
    return np.asarray(order[rank < np.minimum(np.ceil(CONFIDENT_SHARE * sizes), room)])


def familiarity(arrived: np.ndarray, best: np.ndarray, free: np.ndarray, number: int) -> np.ndarray:
    """From 0 to 1, how familiar each point is: how much arrived from labels, compared with others of its class.

    Little arrives at points of none of the classes: they are tied to each other rather than to labelled ones.
    """
    order = np.lexsort((arrived, best))
    order = order[free[order]]
    sizes = np.bincount(best[order], minlength=number)
    places = np.cumsum(sizes) - sizes + (USUAL * np.maximum(sizes - 1, 0)).astype(np.int64)
    usual = np.zeros(number)
    usual[sizes > 0] = arrived[order[places[sizes > 0]]]
    enough = ENOUGH * usual[best]
    ratio = np.divide(arrived, enough, out=np.zeros_like(arrived, np.float64), where=enough > 0)
    return np.asarray(np.where(free, np.minimum(ratio, 1) ** 2, 1))


def _sums(rows: np.ndarray) -> np.ndarray:
    """The sum of each row, as a product: much faster where rows are short."""
    return np.asarray(rows @ np.ones((rows.shape[1], 1), rows.dtype))
