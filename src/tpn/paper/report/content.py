"""The content of a report: its sections and their text."""

from collections.abc import Iterator

from tpn.paper.budget import BUDGETS
from tpn.paper.report.charts import draw_against_paper, draw_learning_curves, draw_lines, image
from tpn.paper.report.document import Command, Document, Grid, Heading, Paragraph, Part
from tpn.paper.report.numbers import (
    UNTRAINED,
    is_untrained,
    main_table,
    paired_table,
    reference,
    solver_table,
    with_fewer_episodes,
)
from tpn.paper.report.report import NAMES, Report
from tpn.paper.report.trainings import settings_table, trainings_table
from tpn.text import counted


def compose(report: Report) -> Document:
    """Return the report as a document."""
    experiment = report.experiment
    parts: list[Part] = [Paragraph(introduction(report)), *warnings(report), main_table(report), Paragraph(key(report))]
    if experiment.figure is not None:
        drawn = draw_lines(experiment, report.results, report.same_data)
        parts.append(image(f"{report.name}-figure", f"{experiment.title}, on {report.data_title}", drawn))
    elif report.same_data and len(experiment.rows) > 1 and any(report.results.cells.values()):
        drawn = draw_against_paper(experiment, report.results)
        parts.append(image(f"{report.name}-paper", f"{experiment.title}: ours and the paper's", drawn))
    if report.results.timings:
        parts += [Heading("Time"), solver_table(report), Paragraph(solver_key(report))]
    if (differences := paired_table(report)) is not None:
        parts += [Heading("Paired differences"), Paragraph(paired_key(report)), differences]
    if report.results.trainings:
        curves = draw_learning_curves(report.results.trainings)
        parts += [
            Heading("Learning curves"),
            image(f"{report.name}-learning", "Accuracy on the validation classes", curves),
        ]
        parts += [Heading("Trainings"), trainings_table(report)]
    parts += [Heading("How to reproduce this"), Command(report.command), settings_table(report)]
    if report.failures:
        parts += [Heading("Failures"), Grid(("training", "reason"), tuple(report.failures.items()))]
    return Document(f"{experiment.title}: {report.data_title}, {report.budget_title}", tuple(parts))


def introduction(report: Report) -> str:
    """Return what is reported."""
    experiment = report.experiment
    return (
        f"{experiment.where} of Liu et al., Learning to Propagate Labels: Transductive Propagation Network for "
        f"Few-shot Learning (ICLR 2019), reproduced with tpn: "
        f"{counted(len(experiment.cells), 'numbers')} from {counted(len(report.plan.jobs), 'trainings')}."
    )


def warnings(report: Report) -> Iterator[Paragraph]:
    """Yield what makes our numbers incomplete, or not comparable with the published ones."""
    budget, size = report.budget, report.image_size
    if budget != BUDGETS["full"]:
        start = (
            f"every system starts with the pre-trained backbone of {report.plan.start}, " if report.plan.start else ""
        )
        text = (
            f"The {report.budget_title}: images of {size}×{size}, {start}{report.length} for each system, "
            f"{budget.test_episodes} test episodes."
        )
        if budget.adapting_test_episodes not in (None, budget.test_episodes):
            text += f" Methods that adapt their network to each task: {budget.adapting_test_episodes} test episodes."
        if budget.episodes is None and budget.adapting_train_images not in (None, budget.train_images):
            text += f" MAML and Reptile: {budget.adapting_train_images:,} training images."
        if report.plan.start:
            text += " The published systems are trained from scratch, and for longer."
            if report.experiment.over_partitions:
                text += (
                    " The pre-trained backbone has learned from all labels of the training classes, also from those "
                    "that these trainings do not use."
                )
        elif budget.episodes is not None:
            text += " The published numbers come from longer trainings; read the differences accordingly."
        yield Paragraph(text, warning=True)
    if not report.same_data:
        yield Paragraph(
            f"The published numbers are for {NAMES[report.experiment.data]}, ours for {report.data_title}: "
            "they are shown for orientation only, without differences.",
            warning=True,
        )
    if report.results.missing:
        yield Paragraph(
            f"{report.results.missing} of {len(report.experiment.cells)} numbers are missing.", warning=True
        )


def key(report: Report) -> str:
    """Return the explanation of the main table."""
    experiment, budget = report.experiment, report.budget
    fewer = ", ".join(f"{row}: {count}" for row, count in with_fewer_episodes(report).items())
    episodes = f"{budget.test_episodes} test episodes{f' ({fewer})' if fewer else ''}"
    sentences = [f"Mean accuracy in % over {episodes}, ± 1.96 standard errors (95 % interval)."]
    if experiment.over_partitions:
        sentences = [
            f"Mean accuracy in % over {budget.splits} partitions into labelled and unlabelled images, ± its standard "
            f"error; each test has {budget.test_episodes} episodes."
        ]
    if report.same_data and any(cell.published for cell in experiment.cells):
        sentences.append(
            "Below it: the published number, and the difference with the combined uncertainty, where it is known."
        )
    if experiment.figure is None and len(experiment.rows) > 1:
        sentences.append("The best of each column is marked.")
    if any(is_untrained(report, cell) for cell in experiment.cells):
        sentences.append(
            f"{UNTRAINED}: training never improved on the initial weights in validation, so these were tested."
        )
    sentences.append(
        "Transduction: whether the queries of an episode share information, through the method (yes), through batch "
        "statistics (bn), or not (no)."
    )
    return " ".join(sentences)


def paired_key(report: Report) -> str:
    """Return the explanation of the paired differences."""
    if report.experiment.over_partitions:
        return (
            f"The accuracy of {reference(report)} minus that of each other system in percentage points, ± the standard "
            "error over the partitions, which are the same for all systems."
        )
    fewer = " (those with fewer, on the first of them)" if with_fewer_episodes(report) else ""
    return (
        f"The accuracy of {reference(report)} minus that of each other system in percentage points, ± 1.96 standard "
        f"errors. All systems are tested on the same episodes{fewer}, so differences have narrower intervals than "
        "accuracies. Marked: significant at the 5 % level."
    )


def solver_key(report: Report) -> str:
    """Return the explanation of the times of the solvers."""
    timing = next(iter(report.results.timings.values()))
    return (
        f"Milliseconds per episode of the propagation alone on the CPU ({timing['threads']} threads), on the graphs of "
        f"the trained closed-form model. The solvers take turns in one process; median of {timing['rounds']} rounds of "
        f"{timing['episodes_at_once']} episodes. Training includes the gradient."
    )
