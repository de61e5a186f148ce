"""Features made ready for labelling: directions, in as few dimensions as will do."""

import numpy as np

from tpn.semi_supervised.neighbours import Points

MOST_DIMENSIONS = 256
BLOCK = 8192
SQUARED_SAFELY = 40
"""Up to this power of two, and down to its inverse, numbers are squared as they are."""


def prepare(features: np.ndarray, dimensions: int = MOST_DIMENSIONS) -> np.ndarray:
    """Features less their mean, of length one, in the dimensions in which they differ most, again of length one.

    Neighbours of such features are those of the highest cosine. Fewer dimensions take less time, and cost no accuracy.
    """
    features = np.asarray(features, np.float32)
    if (factor := factor_into_range(features)) != 1:
        features = features * np.float32(factor)
    directions = _unit(features - features.mean(0))
    if directions.shape[1] <= dimensions or len(directions) <= dimensions:
        return directions
    _, vectors = np.linalg.eigh(_products(directions))
    return _unit(directions @ vectors[:, -dimensions:].astype(np.float32))


def factor_into_range(points: Points) -> float:
    """A power of two that brings numbers near one that are far too large or small to be squared."""
    largest = max(float(points.max()), -float(points.min()))
    exponent = int(np.frexp(largest)[1])
    most = np.finfo(points.dtype).maxexp - 2
    return 1.0 if abs(exponent) < SQUARED_SAFELY else 2.0 ** -min(max(exponent, -most), most)


def _products(directions: np.ndarray) -> np.ndarray:
    """The covariances of the dimensions, in double precision block by block."""
    centre = directions.mean(0, dtype=np.float64).astype(np.float32)
    total = np.zeros((directions.shape[1],) * 2)
    for start in range(0, len(directions), BLOCK):
        part = directions[start : start + BLOCK] - centre
        total += part.T @ part
    return total


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)
