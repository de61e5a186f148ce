"""Post-processing of propagated scores: class balance, calibration, familiarity.

Scores are rows of one number per class that sum to one, as they come out of the propagation.
"""

import numpy as np

CALIBRATION = 4.5
"""The factor of the scores in exp(4.5 s) - 1, which turns them into calibrated probabilities. Scores are means over
neighbours: a high one is less certain than it is right, a low one among many is about as certain as it is right. A
power of the scores corrects high ones too little where low ones are corrected enough."""
LEARNED_CALIBRATION = 3.8
"""The same factor for the scores of a learned graph of many points."""
SELF_CONFIRMATION = 3.0
"""How much smaller that factor is the more features there are for each point: a metric of few points follows the labels
that it was learned from, so that the graph confirms them."""
BALANCING_STEPS = 20
BALANCING_TOLERANCE = 1e-2
CONFIDENT_FRACTION = 0.5
"""The most confident points of each class from which the prior model learns, as a fraction of the class."""
FAMILIAR_QUANTILE = 0.75
"""The points at this quantile of a class are familiar."""
FAMILIAR_FRACTION = 0.55
"""Points that labels reach at least this much as often as those are familiar too."""

SMALLEST_FACTOR = 1e-30
"""The smallest factor of a class against the largest, which single precision can hold."""


def class_balance_factors(
    scores: np.ndarray,
    n_labelled: float,
    class_balance: np.ndarray | None = None,
    mass: np.ndarray | None = None,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Return a factor for each class that brings the class balance of the scores to the target.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes)
        Propagated scores of the unlabelled points.
    n_labelled : float
        The number of labelled points.
    class_balance : ndarray of shape (n_classes,), default=None
        The target, where it is known. Otherwise it is the geometric mean of the balance of the scores and of equal
        classes; the weight of the latter is 1 / (1 + labels per class).
    mass : ndarray of shape (n_samples,), default=None
        The weight of each point, by default the same for all.
    start : ndarray of shape (n_classes,), default=None
        Factors that are nearly right.
    """
    number = scores.shape[1]
    if not len(scores):
        return np.ones(number)
    weight = np.ones(len(scores), scores.dtype) if mass is None else mass.astype(scores.dtype)
    weight = weight / weight.sum(dtype=np.float64).astype(scores.dtype)
    target = class_balance
    if target is None:
        equality = 1 / (1 + n_labelled / number)
        target = np.maximum((weight @ scores).astype(np.float64), 1e-12) ** (1 - equality)
        target = target / target.sum()
    factors = np.ones(number) if start is None else start.copy()
    least = np.finfo(scores.dtype).tiny
    for _ in range(BALANCING_STEPS):
        sums = np.maximum(scores @ factors.astype(scores.dtype), least)
        balance = factors * ((weight / sums) @ scores)  # of the scores times factors, with rows that sum to one
        change = target / np.maximum(balance, 1e-12)
        factors *= change
        factors = np.maximum(factors / factors.max(), SMALLEST_FACTOR)  # a class that no point is of has no limit
        if np.abs(change - 1).max() < BALANCING_TOLERANCE:
            break
    return np.asarray(factors / factors.max())


def balance_classes(scores: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Multiply the scores by a factor for each class; rows sum to one again."""
    scaled: np.ndarray = np.maximum(scores, np.finfo(scores.dtype).tiny) * factors.astype(scores.dtype)
    scaled /= _row_sums(scaled)
    return scaled


def calibration_factor(n_points: int, n_features: int, learned: bool) -> float:
    """Return the factor of the scores in `calibrate`: smaller for those of a learned graph, which are more certain."""
    return LEARNED_CALIBRATION / (1 + SELF_CONFIRMATION * n_features / n_points) if learned else CALIBRATION


def calibrate(scores: np.ndarray, factor: float = CALIBRATION) -> np.ndarray:
    """Turn scores s into calibrated probabilities: exp(factor s) - 1, in rows that sum to one. Their order stays."""
    probabilities: np.ndarray = scores * scores.dtype.type(factor)
    np.expm1(probabilities, out=probabilities)
    probabilities /= _row_sums(probabilities)
    return probabilities


def sharpen(scores: np.ndarray, power: float) -> np.ndarray:
    """Raise scores to a power, in rows that sum to one."""
    sharp: np.ndarray = (scores / scores.max(1, keepdims=True)) ** power
    sharp /= _row_sums(sharp)
    return sharp


def most_confident(scores: np.ndarray, unlabelled: np.ndarray, most: int) -> np.ndarray:
    """Return the most confident half of the unlabelled points of each class, and at most `most` points in all."""
    predicted = scores.argmax(1)
    confidence = scores[np.arange(len(scores)), predicted]
    order = np.lexsort((-confidence, predicted))
    order = order[unlabelled[order]]
    members = predicted[order]
    starts = np.searchsorted(members, members)
    rank = np.arange(len(order)) - starts
    sizes = np.bincount(members, minlength=scores.shape[1])[members]
    room = max(1, most // scores.shape[1])
    return np.asarray(order[rank < np.minimum(np.ceil(CONFIDENT_FRACTION * sizes), room)])


def usual_walks(walks: np.ndarray, predicted: np.ndarray, unlabelled: np.ndarray, n_classes: int) -> np.ndarray:
    """Return for each class how often walks from its familiar points reach a label.

    That is the upper quartile of the points of the class, or of all points if it is higher: a class that took in many
    points of none of the classes has a low one.

    Parameters
    ----------
    walks : ndarray of shape (n_samples,)
        The probability that a random walk from a point reaches a labelled one.
    predicted : ndarray of shape (n_samples,)
        The predicted class of each point, as an index.
    unlabelled : ndarray of shape (n_samples,)
        Which points have no label.
    n_classes : int
        The number of classes.
    """
    order = np.lexsort((walks, predicted))
    order = order[unlabelled[order]]
    sizes = np.bincount(predicted[order], minlength=n_classes)
    places = np.cumsum(sizes) - sizes + (FAMILIAR_QUANTILE * np.maximum(sizes - 1, 0)).astype(np.int64)
    usual = np.zeros(n_classes)
    usual[sizes > 0] = walks[order[places[sizes > 0]]]
    if len(order):
        place = int(FAMILIAR_QUANTILE * (len(order) - 1))
        usual = np.maximum(usual, np.partition(walks[order], place)[place])
    return usual


def familiarity(walks: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Return for each point, from 0 to 1, how familiar it is: how often its walks reach a label, compared to its class.

    Points of none of the classes are tied to each other rather than to labelled points, so their walks reach few.
    """
    enough = FAMILIAR_FRACTION * usual
    ratio = np.divide(walks, enough, out=np.zeros(len(walks)), where=enough > 0)
    return np.asarray(np.minimum(ratio, 1) ** 2)


def nearness(crowding: np.ndarray) -> np.ndarray:
    """Return from 0 to 1 how near new points are, given the length scale of their neighbours relative to their own.

    Up to twice the distances that are usual among the neighbours count as near.
    """
    return np.asarray(np.minimum(2 * crowding.astype(np.float64), 1) ** 2)


def _row_sums(rows: np.ndarray) -> np.ndarray:
    """Return the sum of each row, as a matrix product: much faster where rows are short."""
    return np.asarray(rows @ np.ones((rows.shape[1], 1), rows.dtype))
