"""Paired differences in accuracy of several methods on the same episodes."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float64

from tpn.evaluation.intervals import Mean, mean_with_interval


@dataclass(frozen=True)
class Difference:
    """The paired difference in accuracy of two tests on the same episodes."""

    better: str
    worse: str
    difference: Mean

    @property
    def clear(self) -> bool:
        """Whether the 95 % interval of the difference excludes zero."""
        return self.difference.ci95 is not None and abs(self.difference.value) > self.difference.ci95


def paired_differences(accuracies: dict[str, Float64[np.ndarray, "episode"]]) -> list[Difference]:
    """Return the paired difference, with its interval, of every two tests on the same episodes."""
    differences = []
    for one, other in combinations(accuracies, 2):
        if accuracies[other].mean() > accuracies[one].mean():
            one, other = other, one
        differences.append(Difference(one, other, mean_with_interval(accuracies[one] - accuracies[other])))
    return differences
