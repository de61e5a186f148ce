"""A report as CSV: a line for each cell."""

import csv
import io
from typing import Any

from tpn.paper.report.subject import Report


def to_csv(report: Report) -> str:
    """All numbers in percent. Cells without a number yet have an empty accuracy."""
    lines = [line(report, number) for number in range(len(report.experiment.cells))]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return stream.getvalue()


def line(report: Report, number: int) -> dict[str, Any]:
    """One cell."""
    cell = report.experiment.cells[number]
    measured = report.results.cells[cell]
    names = report.plan.of_cell[cell]
    comparable = report.same_data
    job = report.plan.jobs[names[0]]
    trained, tested = job.config.episode, cell.test.episode
    return {
        "experiment": report.experiment.name,
        "row": cell.row,
        "column": cell.column,
        "method": cell.method,
        "transduction": measured.transduction if measured else "",
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
        "accuracy": f"{measured.value:.4f}" if measured else "",
        "uncertainty": f"{measured.uncertainty:.4f}" if measured and measured.uncertainty is not None else "",
        "uncertainty_is": "standard error over the splits" if cell.of_splits else "half of the 95 % interval",
        "published": cell.published.value if cell.published else "",
        "published_data": report.experiment.data if cell.published else "",
        "difference": f"{measured.value - cell.published.value:.4f}"
        if comparable and measured and cell.published
        else "",
        "published_uncertainty": cell.published.uncertainty if cell.published and cell.published.uncertainty else "",
        "runs": " ".join(names),
    }
