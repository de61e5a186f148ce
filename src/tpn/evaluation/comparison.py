"""Paired differences: which of several methods is better, on the same episodes."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float64

from tpn.evaluation.intervals import Mean, mean_with_interval


@dataclass(frozen=True)
class Difference:
    """How much more accurate one is than another, episode by episode."""

    better: str
    worse: str
    difference: Mean

    @property
    def clear(self) -> bool:
        """Does the interval of the difference exclude zero?"""
        return self.difference.ci95 is not None and abs(self.difference.value) > self.difference.ci95


def paired_differences(accuracies: dict[str, Float64[np.ndarray, "episode"]]) -> list[Difference]:
    """Return every pair of tests on the same episodes, with the interval of their paired difference."""
    differences = []
    for one, other in combinations(accuracies, 2):
        if accuracies[other].mean() > accuracies[one].mean():
            one, other = other, one
        differences.append(Difference(one, other, mean_with_interval(accuracies[one] - accuracies[other])))
    return differences
