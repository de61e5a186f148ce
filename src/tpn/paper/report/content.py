"""What the report of an experiment says."""

from collections.abc import Iterator

from tpn.paper.budget import BUDGETS
from tpn.paper.report.document import Command, Document, Grid, Heading, Paragraph, Part
from tpn.paper.report.numbers import main_table, paired_table, reference, solver_table
from tpn.paper.report.plots import draw_learning_curves, draw_lines, picture
from tpn.paper.report.subject import NAMES, Report
from tpn.paper.report.trainings import settings_table, trainings_table


def compose(report: Report) -> Document:
    """The report."""
    experiment = report.experiment
    parts: list[Part] = [Paragraph(introduction(report)), *warnings(report), main_table(report), Paragraph(key(report))]
    if experiment.figure is not None:
        drawn = draw_lines(experiment, report.results, report.same_data)
        parts.append(picture(f"{report.name}-figure", f"{experiment.title}, on {report.pictures}", drawn))
    if experiment.times_solvers and (solvers := solver_table(report)) is not None:
        parts += [Heading("Time"), solvers, Paragraph(SOLVER_KEY)]
    if (differences := paired_table(report)) is not None:
        parts += [Heading("Differences, episode by episode"), Paragraph(paired_key(report)), differences]
    if report.results.trainings:
        curves = draw_learning_curves(report.results.trainings)
        parts += [
            Heading("Learning curves"),
            picture(f"{report.name}-learning", "Accuracy on the validation classes", curves),
        ]
        parts += [Heading("Trainings"), trainings_table(report)]
    parts += [Heading("How this was made"), Command(report.command), settings_table(report)]
    if report.failures:
        parts += [Heading("Failures"), Grid(("training", "why"), tuple(report.failures.items()))]
    return Document(f"{experiment.title}: {report.pictures}, {report.budget_name} budget", tuple(parts))


def introduction(report: Report) -> str:
    """What this is."""
    experiment = report.experiment
    return (
        f"{experiment.where} of Liu et al., Learning to Propagate Labels: Transductive Propagation Network for "
        f"Few-shot Learning (ICLR 2019), measured by tpn: {len(experiment.cells)} numbers from "
        f"{len(report.plan.jobs)} trainings."
    )


def warnings(report: Report) -> Iterator[Paragraph]:
    """What keeps our numbers from being comparable with the published ones, or from being complete."""
    budget, size = report.budget, report.images.image_size
    if budget != BUDGETS["full"]:
        episodes = "as many as its recipe says" if budget.episodes is None else f"{budget.episodes:,}"
        name = report.budget_name if budget == BUDGETS[report.budget_name] else f"{report.budget_name}, changed"
        yield Paragraph(
            f"Budget: {name}. Pictures of {size}×{size}, training episodes: {episodes}, test episodes: "
            f"{budget.test_episodes}, the same for every system. The published numbers come from longer trainings on "
            "pictures of 84×84: read differences from them with that in mind.",
            warning=True,
        )
    if not report.same_data:
        yield Paragraph(
            f"The published numbers are for {NAMES[report.experiment.data]}, these for {report.pictures}: "
            "they stand beside each other for orientation only, without differences.",
            warning=True,
        )
    if report.results.missing:
        yield Paragraph(
            f"{report.results.missing} of {len(report.experiment.cells)} numbers are missing.", warning=True
        )


def key(report: Report) -> str:
    """What the numbers are."""
    cells, budget = report.experiment.cells, report.budget
    said = [f"Mean accuracy over {budget.test_episodes} test episodes in %, ± 1.96 standard errors (95 % interval)."]
    if any(cell.of_splits for cell in cells):
        said = [
            f"Mean accuracy over {budget.splits} divisions into labelled and unlabelled pictures, in %, ± its standard "
            f"error over them; each test has {budget.test_episodes} episodes."
        ]
    if report.same_data and any(cell.published for cell in cells):
        said.append("Below it the published number and the difference, with both uncertainties together.")
    if report.experiment.figure is None and len(report.experiment.rows) > 1:
        said.append("The best of a column is marked.")
    said.append(
        "Transduction: do the queries of an episode share information — by the method (yes), by batch statistics (bn), "
        "or not at all (no)."
    )
    return " ".join(said)


def paired_key(report: Report) -> str:
    same = "divisions" if any(cell.of_splits for cell in report.experiment.cells) else "test episodes"
    return (
        f"How much more accurate {reference(report)} is, in points: all systems have the same {same}, so that the "
        "differences have narrower intervals than the accuracies. Marked: more than chance."
    )


SOLVER_KEY = (
    "Milliseconds per episode for the propagation alone, on the graphs of the trained closed-form model: both solvers "
    "in turn in one process, the median of 21 rounds of 32 episodes. Training: with the gradient."
)
