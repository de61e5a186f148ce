"""What a benchmark of heads found: a cell for each head in each setting, and the best of them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tpn.evaluation.intervals import Mean, mean_with_interval
from tpn.evaluation.test_settings import TestSetting
from tpn.methods._method import Info
from tpn.results import Result
from tpn.workflows.benchmark_options import BenchmarkOptions


@dataclass(frozen=True)
class Cell:
    """A head tested in a setting."""

    head: str
    setting: TestSetting
    shot: int
    accuracies: np.ndarray = field(repr=False)
    """The accuracy of each task; empty if the head refused the setting."""
    seconds: float
    aurocs: np.ndarray | None = field(default=None, repr=False)
    refused: str = ""
    """Why the head was not tested."""

    @property
    def accuracy(self) -> Mean:
        """The mean accuracy with its interval."""
        return mean_with_interval(self.accuracies)

    @property
    def auroc(self) -> Mean | None:
        """The mean area under the ROC curve, in the open set."""
        return None if self.aurocs is None else mean_with_interval(self.aurocs)

    @property
    def seconds_per_thousand(self) -> float:
        """The time for 1,000 tasks, given the features."""
        return 1000 * self.seconds / max(1, len(self.accuracies))


@dataclass(frozen=True)
class BenchmarkResult(Result):
    """Heads tested in several settings on the same tasks."""

    run: str
    data: str
    options: BenchmarkOptions
    infos: dict[str, Info]
    """What each head is; the method of the run is called `the run's own`."""
    cells: list[Cell]
    chosen: dict[str, dict[str, dict[str, Any]]]
    """The settings chosen on validation classes, by number of shots and head, if they were."""
    folder: Path
    files: list[Path] = field(default_factory=list)
    """The report and its tables."""

    def column(self, setting: TestSetting, shot: int) -> dict[str, Cell]:
        """Return the cells of a setting by head, without those that were refused."""
        own = [cell for cell in self.cells if (cell.setting, cell.shot) == (setting, shot) and not cell.refused]
        return {cell.head: cell for cell in own}

    def best(self, setting: TestSetting, shot: int) -> dict[str, Mean]:
        """Return the paired difference to the best head, of that head and all whose difference is within chance."""
        column = self.column(setting, shot)
        if not column:
            return {}
        top = max(column.values(), key=lambda cell: cell.accuracy.value)
        differences = {name: mean_with_interval(cell.accuracies - top.accuracies) for name, cell in column.items()}
        return {
            name: difference
            for name, difference in differences.items()
            if name == top.head or (difference.ci95 is not None and abs(difference.value) <= difference.ci95)
        }

    def difference(self, head: str, other: str, setting: TestSetting, shot: int) -> Mean | None:
        """Return the paired difference in accuracy of two heads, if both were tested."""
        column = self.column(setting, shot)
        if head not in column or other not in column:
            return None
        return mean_with_interval(column[head].accuracies - column[other].accuracies)

    def to_dict(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "data": self.data,
            "tasks": self.options.tasks,
            "way": self.options.way,
            "query": self.options.query,
            "seed": self.options.seed,
            "tuned": self.chosen,
            "results": self.rows(),
        }

    def rows(self) -> list[dict[str, Any]]:
        rows = []
        for cell in self.cells:
            info, auroc = self.infos[cell.head], cell.auroc
            row: dict[str, Any] = {
                "head": cell.head,
                "transduction": info.transduction,
                "class_balance": info.class_balance,
            }
            row |= {"setting": cell.setting, "shot": cell.shot}
            if cell.refused:
                rows.append({**row, "refused": cell.refused})
                continue
            row |= {"accuracy": cell.accuracy.value, "ci95": cell.accuracy.ci95, "tasks": len(cell.accuracies)}
            row |= {"best": cell.head in self.best(cell.setting, cell.shot)}
            row |= {"seconds_per_1000_tasks": round(cell.seconds_per_thousand, 3)}
            rows.append(row if auroc is None else {**row, "auroc": auroc.value, "auroc_ci95": auroc.ci95})
        return rows

    def summary(self) -> str:
        from tpn.workflows.benchmark_report import text_table

        return text_table(self)
