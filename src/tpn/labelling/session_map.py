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
    seed : int
        The seed of the repelling pairs: the same seed gives the same map.

    Returns
    -------
    ndarray of shape (n_images, 2) and dtype float32
        From -1 to 1.
    """
    layout = Layout(points, neighbours, seed)
    layout.advance()
    return layout.places


class Layout:
    """A map that is being drawn: it can be left and gone on with at any epoch."""

    def __init__(self, points: np.ndarray, neighbours: np.ndarray, seed: int = 0) -> None:
        self._number, self._epoch = len(points), 0
        self._rng = np.random.default_rng(seed)
        if self._number < 3 or neighbours.shape[1] == 0:
            self._epochs = 0
            return
        self._place = _principal(points) * SPREAD
        self._place += self._rng.normal(0, 1e-3, self._place.shape)
        self._first = np.repeat(np.arange(self._number), neighbours.shape[1])
        self._second = neighbours.ravel().astype(np.int64)
        degree = np.bincount(self._first, minlength=self._number) + np.bincount(self._second, minlength=self._number)
        self._share = np.maximum(degree, 1)[:, None] / 2
        self._epochs = max(FEWEST_EPOCHS, int(EPOCHS * min(1.0, FULL_EPOCHS / self._number)))

    def advance(self, goes_on: Callable[[], bool] = lambda: True) -> bool:
        """Go on as long as `goes_on`, asked before each epoch, says so. Returns whether the map is finished."""
        while self._epoch < self._epochs and goes_on():
            self._step(1 - self._epoch / self._epochs)
            self._epoch += 1
        return self._epoch == self._epochs

    def _step(self, rate: float) -> None:
        number, place = self._number, self._place
        step = place[self._second] - place[self._first]
        step *= (2 / (1 + np.square(step).sum(1)))[:, None]
        move = _sums(self._first, step, number) - _sums(self._second, step, number)
        move /= self._share
        for _ in range(REPELLED):
            away = place - place[self._rng.integers(number, size=number)]
            square = np.square(away).sum(1)
            move += away * (1 / ((0.01 + square) * (1 + square)))[:, None] * (2 / REPELLED)
        np.clip(move, -LARGEST_STEP, LARGEST_STEP, out=move)
        place += move * rate

    @property
    def places(self) -> np.ndarray:
        """The places so far, from -1 to 1."""
        if self._epochs == 0:
            return np.stack([np.linspace(-0.5, 0.5, self._number), np.zeros(self._number)], 1).astype(np.float32)
        low, high = np.quantile(self._place, [0.005, 0.995], axis=0)
        place = (self._place - (low + high) / 2) / np.maximum((high - low) / 2, 1e-9)
        return np.asarray(np.clip(place, -1.05, 1.05), np.float32)


def _principal(points: np.ndarray) -> np.ndarray:
    centred = points - points.mean(0)
    _, vectors = np.linalg.eigh(centred.T.astype(np.float64) @ centred)
    plane = centred @ vectors[:, -2:] if points.shape[1] > 1 else np.repeat(centred, 2, 1)
    return np.asarray(plane / (np.abs(plane).max() or 1.0), np.float64)


def _sums(index: np.ndarray, values: np.ndarray, number: int) -> np.ndarray:
    return np.stack([np.bincount(index, values[:, axis], number) for axis in (0, 1)], 1)
