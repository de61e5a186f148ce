"""The tables of numbers in a report."""

import math

import numpy as np
from jaxtyping import Float64

from tpn.evaluation.intervals import mean_with_interval, standard_error
from tpn.paper.measured import Measured
from tpn.paper.published import Published
from tpn.paper.recipe import Cell
from tpn.paper.report.document import Entry, Grid
from tpn.paper.report.report import FAILED, NOT_YET, Report

UNTRAINED = "†"
"""The mark of weights that training never improved."""


def main_table(report: Report) -> Grid:
    """Return our numbers, with the published number and the difference below each."""
    experiment = report.experiment
    cells = {(cell.row, cell.column): cell for cell in experiment.cells}
    ranked = experiment.figure is None and len(experiment.rows) > 1
    best = {column: best_in(report, column) for column in experiment.columns} if ranked else {}
    rows = []
    for row in experiment.rows:
        there = [cells.get((row, column)) for column in experiment.columns]
        shown = ["" if cell is None else entry(report, cell, best.get(cell.column) == row) for cell in there]
        rows.append((row, transduction(report, row), *shown))
    return Grid(("system", "transduction", *experiment.columns), tuple(rows))


def transduction(report: Report, row: str) -> str:
    """Return whether the queries of an episode share information in this row, once it has a result."""
    made = [report.results.cells[cell] for cell in report.experiment.cells if cell.row == row]
    return next((one.transduction for one in made if one is not None), "")


def best_in(report: Report, column: str) -> str | None:
    """Return the row with our highest accuracy in a column."""
    made = {
        cell.row: one.value for cell, one in report.results.cells.items() if cell.column == column and one is not None
    }
    return max(made, key=made.__getitem__) if made else None


def entry(report: Report, cell: Cell, best: bool) -> Entry:
    """Return our number for a cell, with the published one below it."""
    measured = report.results.cells[cell]
    failed = any(name in report.failures for name in report.plan.of_cell[cell])
    below = () if cell.published is None else (f"paper {cell.published}",)
    if measured is None:
        return Entry(FAILED if failed else NOT_YET, below)
    if cell.published is not None and report.same_data:
        below = (*below, f"difference {difference(measured, cell.published)}")
    return Entry(f"{measured}{f' {UNTRAINED}' if is_untrained(report, cell) else ''}", below, best)


def is_untrained(report: Report, cell: Cell) -> bool:
    """Return whether a training of this cell never improved on its first weights, which were then tested."""
    results = [report.results.trainings.get(name) for name in report.plan.of_cell[cell]]
    return any(result is not None and result["trained"]["best_episode"] == 0 for result in results)


def difference(measured: Measured, published: Published) -> str:
    """Return our number minus the published one, with the combined uncertainty if ours has one."""
    value = signed(measured.value - published.value)
    if (uncertainty := difference_uncertainty(measured, published)) is None:
        return value
    return f"{value} ± {uncertainty:.2f}"


def signed(value: float) -> str:
    """Return a number with its sign, and a true minus."""
    return f"{value:+.2f}".replace("-", "−")


def difference_uncertainty(measured: Measured, published: Published) -> float | None:
    """Return the uncertainty of a difference; ours alone where the paper gives none."""
    return None if measured.uncertainty is None else math.hypot(measured.uncertainty, published.uncertainty or 0.0)


def with_fewer_episodes(report: Report) -> dict[str, int]:
    """Return the systems that were tested on fewer episodes than the others, with their number."""
    if report.experiment.over_partitions:
        return {}
    made = [(cell.row, measured) for cell, measured in report.results.cells.items() if measured is not None]
    most = max((len(measured.accuracies) for _, measured in made), default=0)
    return {row: count for row, measured in made if (count := len(measured.accuracies)) < most}


def reference(report: Report) -> str | None:
    """Return the system that the others are compared with: TPN, if the table has it."""
    rows = report.experiment.rows
    return next((row for row in rows if row in ("TPN", "TPN-semi", "Closed form")), None)


def paired_table(report: Report) -> Grid | None:
    """Return the accuracy of the reference minus that of each other system."""
    experiment, chosen = report.experiment, reference(report)
    if chosen is None or experiment.figure is not None:
        return None
    made = {(cell.row, cell.column): measured for cell, measured in report.results.cells.items()}
    rows = []
    for row in experiment.rows:
        if row == chosen:
            continue
        entries: list[str | Entry] = [row]
        for column in experiment.columns:
            one, other = made.get((chosen, column)), made.get((row, column))
            if one is None or other is None or len(one.accuracies) < 2:
                entries.append(NOT_YET)
                continue
            shared = min(len(one.accuracies), len(other.accuracies))  # the first episodes are the same
            differences = np.array(one.accuracies[:shared]) - np.array(other.accuracies[:shared])
            entries.append(paired_entry(differences, experiment.over_partitions))
        rows.append(tuple(entries))
    return Grid((f"{chosen} minus", *experiment.columns), tuple(rows))


def paired_entry(differences: Float64[np.ndarray, "value"], over_partitions: bool) -> Entry:
    """Return the mean difference, with its 95 % interval over episodes or its standard error over partitions."""
    mean = mean_with_interval(differences)
    error = standard_error(differences) if over_partitions else mean.ci95
    assert error is not None
    return Entry(f"{signed(mean.value)} ± {error:.2f}", best=not over_partitions and abs(mean.value) > error)


def solver_table(report: Report) -> Grid:
    """Return the times of both solvers, as the workers have measured them."""
    rows = []
    for cell, timing in report.results.timings.items():
        for phase in ("testing", "training"):
            closed, iterative = timing[phase]["closed"], timing[phase]["iterative"]
            name = f"{cell.column}, {timing['nodes']} nodes, {phase}"
            rows.append((name, Entry(f"{closed:.3f}"), Entry(f"{iterative:.3f}"), Entry(f"{closed / iterative:.2f}")))
    return Grid(("", "closed form", "10 iterations", "closed form / iterations"), tuple(rows))


def as_text(grid: Grid) -> str:
    """Return a table as plain text, with the first of the lines below its numbers."""
    lines = [grid.header]
    for row in grid.rows:
        lines.append(tuple(cell if isinstance(cell, str) else cell.text for cell in row))
        below = tuple("" if isinstance(cell, str) else "".join(cell.below[:1]) for cell in row)
        lines += [below] if any(below) else []
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [[text.ljust(width) for text, width in zip(line, widths, strict=True)] for line in lines]
    return "\n".join("  ".join(line).rstrip() for line in padded)
