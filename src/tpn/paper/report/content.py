"""What the report of an experiment says."""

from collections.abc import Iterator

from tpn.paper.budget import BUDGETS
from tpn.paper.report.document import Command, Document, Grid, Heading, Paragraph, Part
from tpn.paper.report.numbers import main_table, of_splits, paired_table, reference, solver_table
from tpn.paper.report.plots import draw_learning_curves, draw_lines, image
from tpn.paper.report.subject import NAMES, Report
from tpn.paper.report.trainings import settings_table, trainings_table
from tpn.paper.timing import EPISODES, ROUNDS


def compose(report: Report) -> Document:
    """The report."""
    experiment = report.experiment
    parts: list[Part] = [Paragraph(introduction(report)), *warnings(report), main_table(report), Paragraph(key(report))]
    if experiment.figure is not None:
        drawn = draw_lines(experiment, report.results, report.same_data)
        parts.append(image(f"{report.name}-figure", f"{experiment.title}, on {report.data_title}", drawn))
    if experiment.times_solvers and (solvers := solver_table(report)) is not None:
        parts += [Heading("Time"), solvers, Paragraph(SOLVER_KEY)]
    if (differences := paired_table(report)) is not None:
        parts += [Heading("Differences, episode by episode"), Paragraph(paired_key(report)), differences]
    if report.results.trainings:
        curves = draw_learning_curves(report.results.trainings)
        parts += [
            Heading("Learning curves"),
            image(f"{report.name}-learning", "Accuracy on the validation classes", curves),
        ]
        parts += [Heading("Trainings"), trainings_table(report)]
    parts += [Heading("How this was made"), Command(report.command), settings_table(report)]
    if report.failures:
        parts += [Heading("Failures"), Grid(("training", "why"), tuple(report.failures.items()))]
    return Document(f"{experiment.title}: {report.data_title}, {report.budget_title}", tuple(parts))


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
        episodes = "as many as each recipe says" if budget.episodes is None else f"{budget.episodes:,}"
        name = f"{report.budget_title[0].upper()}{report.budget_title[1:]}"
        text = (
            f"{name}: images of {size}×{size}, training episodes: {episodes}, test episodes: {budget.test_episodes}; "
            "the same settings for every system."
        )
        if budget.episodes is not None:
            text += " The published numbers come from longer trainings: read differences from them with that in mind."
        yield Paragraph(text, warning=True)
    if not report.same_data:
        yield Paragraph(
            f"The published numbers are for {NAMES[report.experiment.data]}, these for {report.data_title}: "
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
    if of_splits(report):
        said = [
            f"Mean accuracy over {budget.splits} divisions into labelled and unlabelled images, in %, ± its standard "
            f"error over them; each test has {budget.test_episodes} episodes."
        ]
    if report.same_data and any(cell.published for cell in cells):
        said.append(
            "Below it the published number and the difference, with the uncertainties of both, as far as given."
        )
    if report.experiment.figure is None and len(report.experiment.rows) > 1:
        said.append("The best of a column is marked.")
    said.append(
        "Transduction: do the queries of an episode share information — by the method (yes), by batch statistics (bn), "
        "or not at all (no)."
    )
    return " ".join(said)


def paired_key(report: Report) -> str:
    """What the differences are."""
    if of_splits(report):
        return (
            f"How much more accurate {reference(report)} is, in points, ± the standard error over the divisions, which "
            "are the same for all systems."
        )
    return (
        f"How much more accurate {reference(report)} is, in points, ± 1.96 standard errors: all systems have the same "
        "test episodes, so that differences have narrower intervals than accuracies. Marked: more than chance."
    )


SOLVER_KEY = (
    "Milliseconds per episode for the propagation alone, on the graphs of the trained closed-form model, on the "
    f"processor: both solvers in turn in one process, the median of {ROUNDS} rounds of {EPISODES} episodes. "
    "Training: with the gradient."
)
