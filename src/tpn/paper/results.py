"""What the jobs of an experiment showed, cell by cell."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tpn.evaluation.intervals import mean_with_interval, standard_error
from tpn.paper.job import find_test, read_result
from tpn.paper.plan import Plan
from tpn.paper.recipe import Cell


@dataclass(frozen=True)
class Measured:
    """What we measured for a cell, in percent like the published numbers."""

    value: float
    uncertainty: float | None
    """Half of the 95 % interval; for a mean over divisions, the standard error over them."""
    accuracies: tuple[float, ...]
    """Of the episodes; for a mean over divisions, of each division. In percent."""
    transduction: str
    seconds: float
    """Of the test, or tests."""

    def __str__(self) -> str:
        return f"{self.value:.2f}" if self.uncertainty is None else f"{self.value:.2f} ± {self.uncertainty:.2f}"


@dataclass(frozen=True)
class Results:
    """All that is known of an experiment so far."""

    cells: dict[Cell, Measured | None]
    """None where a test is still missing."""
    trainings: dict[str, dict[str, Any]]
    """The job -> what its result file says."""

    @property
    def missing(self) -> int:
        """How many cells are still without a number."""
        return sum(measured is None for measured in self.cells.values())


def collect(plan: Plan) -> Results:
    """Read the results of all jobs that have some."""
    found = {name: result for name, job in plan.jobs.items() if (result := read_result(job)) is not None}
    return Results({cell: _measured(cell, plan, found) for cell in plan.of_cell}, found)


def _measured(cell: Cell, plan: Plan, found: dict[str, dict[str, Any]]) -> Measured | None:
    names = plan.of_cell[cell]
    made = [find_test(plan.jobs[name], cell.test, found.get(name)) for name in names]
    tests = [test for test in made if test is not None]
    if len(tests) < len(names):
        return None
    transduction, seconds = tests[0]["transduction"], sum(test["seconds"] for test in tests)
    if cell.of_splits:
        each = 100 * np.array([test["accuracy"] for test in tests])
        return Measured(float(each.mean()), standard_error(each), tuple(each.tolist()), transduction, seconds)
    accuracies = 100 * np.array(tests[0]["accuracies"])
    mean = mean_with_interval(accuracies)
    return Measured(mean.value, mean.ci95, tuple(accuracies.tolist()), transduction, seconds)
