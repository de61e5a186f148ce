"""Which of several methods is better, on the same episodes."""

from dataclasses import dataclass
from itertools import combinations

from tpn.evaluation.intervals import Mean, mean_with_interval
from tpn.evaluation.protocol import Evaluation


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


def compare(evaluations: dict[str, Evaluation]) -> list[Difference]:
    """Every pair of tests on the same episodes, with the interval of their paired difference."""
    differences = []
    for one, other in combinations(evaluations, 2):
        if evaluations[other].mean.value > evaluations[one].mean.value:
            one, other = other, one
        paired = evaluations[one].accuracies - evaluations[other].accuracies
        differences.append(Difference(one, other, mean_with_interval(paired)))
    return differences
