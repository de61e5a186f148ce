"""A map of images: a place in the plane for each, near to those that look alike."""

from collections.abc import Callable

import numpy as np

EPOCHS, FEWEST_EPOCHS = 300, 80
FULL_EPOCHS = 10_000
"""Up to this many images all epochs are run; with more, fewer."""
REPELLED = 6
"""Images, drawn at random, that push each image away in an epoch."""
LARGEST_STEP = 4.0
SPREAD = 10.0


def lay_out(
    points: np.ndarray,
    neighbours: np.ndarray,
    goes_on: Callable[[], bool] = lambda: True,
    seed: int = 0,
) -> np.ndarray:
    """Place images in the plane: neighbours attract each other, others repel, from their two principal components on.

    The forces are those of UMAP with a Student kernel 1/(1 + d²); all images move at once in each epoch.

    Parameters
    ----------
    points : ndarray of shape (n_images, n_features)
        Scaled features.
    neighbours : ndarray of shape (n_images, n_neighbours)
        The nearest images of each.
    goes_on : callable
        Asked before each epoch; the layout ends early if it says no.
    seed : int
        The seed of the repelling pairs: the same seed gives the same map.

    Returns
    -------
    ndarray of shape (n_images, 2) and dtype float32
        From -1 to 1.
    """
    number = len(points)
    if number < 3 or neighbours.shape[1] == 0:
        return np.stack([np.linspace(-0.5, 0.5, number), np.zeros(number)], 1).astype(np.float32)
    rng = np.random.default_rng(seed)
    place = _principal(points) * SPREAD
    place += rng.normal(0, 1e-3, place.shape)
    first = np.repeat(np.arange(number), neighbours.shape[1])
    second = neighbours.ravel().astype(np.int64)
    degree = np.bincount(first, minlength=number) + np.bincount(second, minlength=number)
    epochs = max(FEWEST_EPOCHS, int(EPOCHS * min(1.0, FULL_EPOCHS / number)))
    for epoch in range(epochs):
        if not goes_on():
            break
        step = place[second] - place[first]
        step *= (2 / (1 + np.square(step).sum(1)))[:, None]
        move = _sums(first, step, number) - _sums(second, step, number)
        move /= np.maximum(degree, 1)[:, None] / 2
        for _ in range(REPELLED):
            away = place - place[rng.integers(number, size=number)]
            square = np.square(away).sum(1)
            move += away * (1 / ((0.01 + square) * (1 + square)))[:, None] * (2 / REPELLED)
        np.clip(move, -LARGEST_STEP, LARGEST_STEP, out=move)
        place += move * (1 - epoch / epochs)
    low, high = np.quantile(place, [0.005, 0.995], axis=0)
    place -= (low + high) / 2
    place /= np.maximum((high - low) / 2, 1e-9)
    return np.asarray(np.clip(place, -1.05, 1.05), np.float32)


def _principal(points: np.ndarray) -> np.ndarray:
    centred = points - points.mean(0)
    _, vectors = np.linalg.eigh(centred.T.astype(np.float64) @ centred)
    plane = centred @ vectors[:, -2:] if points.shape[1] > 1 else np.repeat(centred, 2, 1)
    return np.asarray(plane / (np.abs(plane).max() or 1.0), np.float64)


def _sums(index: np.ndarray, values: np.ndarray, number: int) -> np.ndarray:
    return np.stack([np.bincount(index, values[:, axis], number) for axis in (0, 1)], 1)
