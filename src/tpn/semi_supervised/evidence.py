"""What a prior model is fitted on: the labelled points, and after the first round what was propagated to the others."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from tpn.semi_supervised import postprocessing as post
from tpn.semi_supervised.neighbours import Points
from tpn.semi_supervised.threads import threads

MOST_PSEUDO_LABELS = 5_000
"""The most pseudo-labelled points that a prior model is refitted on, if it takes no weights of all points."""
MOST_MEASURED = 200_000
"""The most points from which means, lengths and covariances are computed."""
WEIGHT_POWER = 1.7
"""The power of the scores that is the weight of a point in each class."""
ROWS = 2**14
"""Points that a thread handles at once."""
MOST_KEPT = 2**25
"""The most numbers of standardised points that are kept for the next round or update, beside the points themselves."""


class Standardisation:
    """Centres points (if they are dense) and scales them to a mean length of one. Copies of a point count once."""

    def __init__(self, points: Points, workers: int = 1) -> None:
        self.step = -(-points.shape[0] // MOST_MEASURED)
        self.points, self.workers = points[:: self.step], workers
        self.mean: Any = 0 if sparse.issparse(points) else self.points.mean(0, dtype=np.float64).astype(points.dtype)
        lengths = squared_lengths(self._centred(self.points))
        self.length = np.asarray(np.sqrt(lengths.mean(dtype=np.float64)) or 1).astype(points.dtype)

    def __call__(self, points: Points) -> Points:
        return self._centred(points) / self.length

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_kept"}  # no second copy in a file

    def rows(self, part: slice) -> Points:
        """Return some of the measured points after standardisation. Those of a small set are computed once."""
        measured = self.points
        small = not sparse.issparse(measured) and measured.size <= MOST_KEPT
        return self._kept[part] if small else self(measured[part])

    @cached_property
    def _kept(self) -> Points:
        kept: np.ndarray = self._centred(self.points)
        kept /= self.length
        return kept

    def _centred(self, points: Points) -> Points:
        return points if sparse.issparse(points) else points - self.mean

    @cached_property
    def moment(self) -> np.ndarray:
        """The covariance of the points after standardisation: it is needed for every round, and depends on no label."""

        def of_block(first: int) -> np.ndarray:
            some = self.rows(slice(first, first + ROWS))
            return np.asarray(some.T @ some)

        with threads(self.workers) as run:
            total = sum(map(np.float64, run(of_block, range(0, len(self.points), ROWS))))
        return np.asarray(total / len(self.points))


@dataclass(frozen=True)
class Evidence:
    """Labels, and class probabilities of all nodes after the first round."""

    points: Points
    standardise: Standardisation
    labels: sparse.csr_array
    """The weight of each class in the labels of each node."""
    labelled: np.ndarray
    scores: np.ndarray | None
    """Propagated scores of all nodes; None before the first propagation."""
    mass: np.ndarray | None
    workers: int

    @property
    def moment(self) -> np.ndarray:
        return self.standardise.moment

    def examples(self) -> tuple[Points, np.ndarray, np.ndarray]:
        """Return standardised points, classes and weights: labelled ones, and the more confident half of the others."""
        pairs = self.labels.tocoo()
        places, codes, weights = pairs.coords[0], pairs.coords[1], pairs.data
        if self.scores is not None:
            confident = post.most_confident(self.scores, ~self.labelled, MOST_PSEUDO_LABELS)
            places = np.concatenate([places, confident])
            codes = np.concatenate([codes, self.scores[confident].argmax(1)])
            extra = np.ones(len(confident)) if self.mass is None else self.mass[confident]
            weights = np.concatenate([weights, extra])
        return self.standardise(self.points[places]), codes, weights

    def class_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the sum of the standardised points of each class, weighted by their probabilities, and its weight."""
        if self.scores is None:
            places = np.flatnonzero(self.labelled)
            weights = self.labels[places]
            return np.asarray(weights.T @ self.standardise(self.points[places])), np.asarray(weights.sum(0)).ravel()
        scores = self.scores[:: self.standardise.step]

        def of_block(first: int) -> tuple[np.ndarray, np.ndarray]:
            part = slice(first, first + ROWS)
            weights = post.sharpen(scores[part], WEIGHT_POWER)
            return weights.T @ self.standardise.rows(part), weights.sum(0, dtype=np.float64)

        with threads(self.workers) as run:
            parts = list(run(of_block, range(0, len(scores), ROWS)))
        sums = np.asarray(np.sum([part[0] for part in parts], axis=0, dtype=np.float64))
        return sums, np.maximum(np.sum([part[1] for part in parts], axis=0), 1e-12)


def squared_lengths(points: Any) -> np.ndarray:
    """Return the squared length of each point."""
    if sparse.issparse(points):
        return np.asarray(points.multiply(points).sum(1)).ravel()
    return np.asarray(np.vecdot(points, points))
