"""The results of an experiment, cell by cell, read from the result files of its jobs."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tpn.evaluation.intervals import mean_with_interval, standard_error
from tpn.paper.job import find_test, read_result, read_timing
from tpn.paper.plan import Plan
from tpn.paper.recipe import Cell


@dataclass(frozen=True)
class Measured:
    """The measured accuracy of a cell, in percent like the published numbers."""

    value: float
    uncertainty: float | None
    """The half-width of the 95 % interval; for a mean over partitions, its standard error."""
    accuracies: tuple[float, ...]
    """The accuracy of each episode; for a mean over partitions, of each partition."""
    transduction: str
    seconds: float
    """The time of all its tests."""

    def __str__(self) -> str:
        return f"{self.value:.2f}" if self.uncertainty is None else f"{self.value:.2f} ± {self.uncertainty:.2f}"


@dataclass(frozen=True)
class Results:
    """The results of an experiment so far."""

    cells: dict[Cell, Measured | None]
    """None where a test is still missing."""
    trainings: dict[str, dict[str, Any]]
    """The content of the result file of each job that has one."""
    timings: dict[Cell, dict[str, Any]] = field(default_factory=dict)
    """The times of the solvers, for the cells that measure them."""

    @property
    def missing(self) -> int:
        """The number of cells without a result."""
        return sum(measured is None for measured in self.cells.values())


def collect(plan: Plan) -> Results:
    """Read the results that the jobs have so far."""
    found = {name: result for name, job in plan.jobs.items() if (result := read_result(job)) is not None}
    cells = {cell: _measured(cell, plan, found) for cell in plan.of_cell}
    timings = {cell: read_timing(plan.jobs[names[0]], cell.test) for cell, names in plan.of_cell.items()}
    return Results(cells, found, {cell: timing for cell, timing in timings.items() if timing is not None})


def _measured(cell: Cell, plan: Plan, found: dict[str, dict[str, Any]]) -> Measured | None:
    names = plan.of_cell[cell]
    made = [find_test(plan.jobs[name], cell.test, found.get(name)) for name in names]
    tests = [test for test in made if test is not None]
    if len(tests) < len(names):
        return None
    transduction, seconds = tests[0]["transduction"], sum(test["seconds"] for test in tests)
    if cell.over_partitions:
        each = 100 * np.array([test["accuracy"] for test in tests])
        return Measured(float(each.mean()), standard_error(each), tuple(each.tolist()), transduction, seconds)
    accuracies = 100 * np.array(tests[0]["accuracies"])
    mean = mean_with_interval(accuracies)
    return Measured(mean.value, mean.ci95, tuple(accuracies.tolist()), transduction, seconds)
