"""The guesses of a labelling: labels propagated to all images, again after every change."""

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tpn.labelling.suggestions import suggest_amid_doubt
from tpn.semi_supervised.label_propagator import LabelPropagator

BEST = 3
"""The classes that are kept for each image: the most probable ones."""
SUREST = 0.9999
"""The highest confidence of a guess: 1 is for labels that were given."""
COPY_CONFIDENCE = 0.999
"""The confidence in the label of a near-duplicate."""


@dataclass(frozen=True, eq=False)
class Guesses:
    """What every image is, as far as the labels say. Classes are numbers of the caller's."""

    best: np.ndarray
    """The most probable classes of each image, of shape (n_images, 3); -1 where there are fewer."""
    probability: np.ndarray
    """The probabilities of these, given that the image is of one of the classes."""
    confidence: np.ndarray
    """The probability of the best class times familiarity; 1 for given labels."""
    familiarity: np.ndarray
    given: np.ndarray
    unreached: np.ndarray

    @property
    def doubt(self) -> np.ndarray:
        """One minus the difference of the two highest probabilities."""
        return np.asarray(1 - (self.probability[:, 0] - self.probability[:, 1]))


class QuietPropagator(LabelPropagator):
    """A LabelPropagator whose caller says how many images no label reaches: filters are shared by all threads."""

    def _warn_of_unreached(self) -> None:
        return


@dataclass
class Engine:
    """Propagates labels over the images of a folder. Points and graph stay; `guess` takes new labels."""

    points: np.ndarray
    """Scaled features, a row for each image."""
    options: dict[str, Any] = field(default_factory=dict)
    """Parameters of LabelPropagator."""
    groups: np.ndarray | None = None
    """The group of near-duplicates of each image, -1 for images without; see `tpn.labelling.session_neighbours`."""
    _model: LabelPropagator | None = None

    def guess(self, codes: np.ndarray) -> Guesses | None:
        """Propagate labels: a class number for each image, -1 where there is none. Needs at least two classes.

        An image without a label whose near-duplicates have one, the same for all of them, takes part with that label.
        """
        given = codes >= 0
        copied = copy_labels(codes, self.groups)
        classes = np.unique(copied[copied >= 0])
        if len(classes) < 2:
            return None
        model = self._propagate(np.searchsorted(classes, copied), copied >= 0)
        probabilities = np.asarray(model.label_distributions_)
        best, probability = _best(probabilities, classes)
        confidence = np.minimum(probability[:, 0] * model.familiarity_, SUREST)
        confidence = np.where(given, 1.0, np.where(copied >= 0, COPY_CONFIDENCE, confidence))
        unreached = np.asarray(model.unreached_)
        return Guesses(best, probability, confidence, np.asarray(model.familiarity_), given, unreached)

    @property
    def is_connected(self) -> bool:
        """Whether the graph has been built."""
        return self._model is not None

    def connect(self) -> None:
        """Build the graph now, so that the first labels need not wait for it."""
        if self._model is None and len(self.points) > 1:
            some = np.full(len(self.points), -1)
            some[[0, -1]] = 0, 1  # a fit needs labels; the graph does not depend on them
            self._propagate(some, some >= 0)

    def suggest(self, guesses: Guesses, free: np.ndarray, number: int) -> np.ndarray:
        """Return the images to label next, the most helpful first: see `suggest_amid_doubt`."""
        assert self._model is not None
        nodes, graph = self._model._graph.nodes, self._model._graph.graph.S  # of identical images, one is a node
        chosen = suggest_amid_doubt(nodes.gather(1 - guesses.confidence), nodes.gather(free), graph, number)
        return np.asarray(chosen if nodes.first is None else nodes.first[chosen])

    def save(self, folder: Path) -> None:
        """Save the graph, without labels, as `LabelPropagator.from_graph` opens it."""
        self.connect()
        if self._model is not None:
            self._model.save_graph(folder)

    def apart(self) -> "Engine":
        """Return an engine on the same graph for other labels: the next guesses of this one start from its own last."""
        return Engine(self.points, self.options, self.groups, copy.copy(self._model))

    def _propagate(self, codes: np.ndarray, labelled: np.ndarray) -> LabelPropagator:
        y = np.where(labelled, codes, -1)
        if self._model is None:
            self._model = QuietPropagator(**self.options).fit(self.points, y)
        else:
            self._model.update(y)
        return self._model


def copy_labels(codes: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Return the labels, with those of near-duplicates for images that have none; none where they disagree."""
    if groups is None or not (groups >= 0).any() or not (codes >= 0).any():
        return codes
    number = int(groups.max()) + 1
    lowest, highest = np.full(number, codes.max() + 1), np.full(number, -1)
    known = (codes >= 0) & (groups >= 0)
    np.minimum.at(lowest, groups[known], codes[known])
    np.maximum.at(highest, groups[known], codes[known])
    of_group = np.where(lowest == highest, highest, -1)
    return np.asarray(np.where((codes < 0) & (groups >= 0), of_group[groups], codes))


def _best(probabilities: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the most probable classes of each image, and their probabilities; padded with -1 and 0."""
    kept = min(BEST, len(classes))
    order = np.argpartition(-probabilities, kept - 1, axis=1)[:, :kept] if kept < len(classes) else None
    values = probabilities if order is None else np.take_along_axis(probabilities, order, 1)
    inner = np.argsort(-values, axis=1, kind="stable")[:, :kept]
    order = inner if order is None else np.take_along_axis(order, inner, 1)
    best = np.full((len(probabilities), BEST), -1)
    probability = np.zeros((len(probabilities), BEST))
    best[:, :kept], probability[:, :kept] = classes[order], np.take_along_axis(probabilities, order, 1)
    return best, probability
