"""A report as rows of plain data, one for each cell, and as CSV."""

import csv
import io
from typing import Any

from tpn.paper.recipe import Cell
from tpn.paper.report.report import Report

ROUNDED = ("accuracy", "uncertainty", "difference")


def to_csv(report: Report) -> str:
    """Return all cells as CSV, numbers in percent; what is missing is empty."""
    rows = [row(report, cell) for cell in report.experiment.cells]
    for one in rows:
        one.update({name: f"{one[name]:.4f}" for name in ROUNDED if one[name] is not None})
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def row(report: Report, cell: Cell) -> dict[str, Any]:
    """Return a cell as plain data: how it was trained and tested, and its numbers in percent, None if missing."""
    measured, published = report.results.cells[cell], cell.published
    names = report.plan.of_cell[cell]
    job = report.plan.jobs[names[0]]
    trained, tested = job.config.episode, cell.test.episode
    return {
        "experiment": report.experiment.name,
        "row": cell.row,
        "column": cell.column,
        "method": cell.method,
        "transduction": measured.transduction if measured else None,
        "data": report.data,
        "image_size": job.config.image_size,
        "budget": report.budget_title,
        "backbone": job.config.settings.backbone,
        "train_way": trained.way,
        "train_shot": trained.shot,
        "train_query": trained.query,
        "train_episodes": job.config.settings.episodes,
        "test_way": tested.way,
        "test_shot": tested.shot,
        "test_query": tested.query,
        "unlabelled": tested.unlabelled,
        "distractors": tested.distractors,
        "test_episodes": job.test_episodes,
        "splits": len(names),
        "seed": job.config.seed,
        "accuracy": measured.value if measured else None,
        "uncertainty": measured.uncertainty if measured else None,
        "uncertainty_is": "standard error over the splits" if cell.over_partitions else "half of the 95 % interval",
        "published": published.value if published else None,
        "published_data": report.experiment.data if published else None,
        "difference": measured.value - published.value if report.same_data and measured and published else None,
        "published_uncertainty": published.uncertainty if published else None,
        "runs": " ".join(names),
    }
