"""Where one stands: how many images are expected to be right, how that grew, what more labels would bring."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tpn.labelling.session_checks import Check


MOST_POINTS = 400
FEWEST_CHECKED = 30
"""Labels that must have been checked before the confidence is corrected by them."""
AHEAD = 20


class Standing:
    """The history of a session: labels given, and the fraction of all images that is expected to be right."""

    def __init__(self) -> None:
        self.history: list[tuple[int, float]] = []

    def add(self, labels: int, confidence: np.ndarray, given: np.ndarray, check: "Check | None") -> None:
        """Add what the newest guesses say; once for each number of labels."""
        if not len(confidence):
            return
        right = expected_right(confidence, given, check)
        if self.history and self.history[-1][0] == labels:
            self.history[-1] = (labels, right)
        else:
            self.history.append((labels, right))
        if len(self.history) > MOST_POINTS:
            self.history = [*self.history[: MOST_POINTS // 2 : 2], *self.history[MOST_POINTS // 2 :]]

    def describe(self) -> dict[str, Any]:
        """Return it for the page."""
        labels, right = self.history[-1] if self.history else (0, 0.0)
        return {"labels": labels, "expected": right, "history": self.history, "next": self.gain()}

    def gain(self) -> float | None:
        """Return how much the next 20 labels would add to the expected fraction.

        The expected error fell as a power of the number of labels so far; the same power is assumed for the next ones.
        """
        points = [(labels, 1 - right) for labels, right in self.history if labels >= 2 and right < 1][-30:]
        if len({labels for labels, _ in points}) < 4:
            return None
        x, y = np.log([labels for labels, _ in points]), np.log([max(error, 1e-4) for _, error in points])
        slope = min(0.0, float(np.polyfit(x, y, 1)[0]))
        labels, error = points[-1]
        return float(error * (1 - (1 + AHEAD / labels) ** slope))


def expected_right(confidence: np.ndarray, given: np.ndarray, check: "Check | None") -> float:
    """Return the fraction of images that is expected to be right: the mean confidence, corrected by cross-validation.

    Where many labels were checked against what the others predict, and fewer (or more) were right than the confidence
    promised, the confidence of all guesses is scaled by that.
    """
    factor = 1.0
    if check is not None and check.checked >= FEWEST_CHECKED and check.expected > 0:
        factor = check.right / check.expected
    guesses = np.minimum(confidence[~given] * factor, 1.0)
    return float((given.sum() + guesses.sum()) / len(confidence))
