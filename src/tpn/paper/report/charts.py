"""The charts of a report."""

import io
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from tpn.evaluation.plots.figure import FAINT, INK, class_colour, new_figure, tidy
from tpn.paper.measured import Results
from tpn.paper.recipe import Experiment
from tpn.paper.report.document import Image

PANELS_IN_A_ROW = 4
MOST_MARKERS = 50
"""Longer learning curves have no markers: each of them makes the page larger."""


def image(name: str, title: str, figure: Figure) -> Image:
    """Return a figure as PNG and SVG, for a report."""
    png, svg = io.BytesIO(), io.StringIO()
    figure.savefig(png, format="png", dpi=110)
    with matplotlib.rc_context({"svg.hashsalt": name}):  # the same figure gives the same SVG
        figure.savefig(svg, format="svg", metadata={"Date": None})
    return Image(name, title, png.getvalue(), svg.getvalue()[svg.getvalue().index("<svg") :])


def draw_lines(experiment: Experiment, results: Results, published: bool) -> Figure:
    """Draw a figure of the paper: a line with intervals for each row, and the published points if there are any."""
    assert experiment.figure is not None
    groups: dict[str, list[str]] = {}
    for row in experiment.rows:
        groups.setdefault(_panel(row), []).append(row)
    figure = new_figure(max(7.0, 4.2 * len(groups)), 4.4)
    panels = figure.subplots(1, len(groups), squeeze=False)[0]
    for axes, (title, rows) in zip(panels, groups.items(), strict=True):
        for number, row in enumerate(rows):
            cells = [cell for cell in experiment.cells if cell.row == row]
            made = [(float(cell.column), results.cells[cell]) for cell in cells]
            points = [(x, one.value, one.uncertainty or 0) for x, one in made if one is not None]
            label = row.rpartition(", ")[2] if title else row
            if points:
                x, y, interval = zip(*points, strict=True)
                axes.errorbar(x, y, yerr=interval, color=class_colour(number), marker="o", ms=4, capsize=3, label=label)
            printed = [(float(cell.column), cell.published.value) for cell in cells if cell.published is not None]
            if printed and published:
                x, y = zip(*printed, strict=True)
                axes.plot(x, y, ":", color=class_colour(number), marker="s", ms=3, mfc="white", label=f"{label}, paper")
        axes.set_xlabel(experiment.figure, color=INK)
        axes.set_ylabel("accuracy in %", color=INK)
        axes.set_title(title, color=INK, fontsize=10)
        axes.set_xticks(sorted({float(cell.column) for cell in experiment.cells}))
        tidy(axes)
    entries = [pair for axes in panels for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    once = {label: handle for handle, label in reversed(entries)}
    if once:
        labels = sorted(once, key=[label for _, label in entries].index)
        style: dict[str, Any] = {"ncols": min(6, len(once)), "frameon": False, "fontsize": 8}
        figure.legend([once[label] for label in labels], labels, loc="outside lower center", **style)
    return figure


def draw_against_paper(experiment: Experiment, results: Results) -> Figure:
    """Draw a table: a panel for each column, a line for each system, our number and the published one side by side."""
    columns, rows = experiment.columns, experiment.rows
    figure = new_figure(2.2 + 2.3 * len(columns), 1.2 + 0.34 * len(rows))
    panels = figure.subplots(1, len(columns), squeeze=False, sharey=True)[0]
    for axes, column in zip(panels, columns, strict=True):
        for cell in (cell for cell in experiment.cells if cell.column == column):
            place, measured = len(rows) - rows.index(cell.row), results.cells[cell]
            if cell.published is not None:
                style: dict[str, Any] = {"fmt": "s", "mfc": "white", "color": FAINT, "ms": 4, "lw": 1}
                axes.errorbar(
                    cell.published.value, place - 0.16, xerr=cell.published.uncertainty, label="paper", **style
                )
            if measured is not None:
                style = {"fmt": "o", "color": class_colour(0), "ms": 5, "lw": 1.4}
                axes.errorbar(measured.value, place + 0.16, xerr=measured.uncertainty, label="ours", **style)
        axes.set_title(column, color=INK, fontsize=10)
        axes.set_yticks(range(len(rows), 0, -1), rows)
        axes.set_ylim(0.5, len(rows) + 0.5)
        axes.grid(axis="y", visible=False)
        tidy(axes)
    panels[0].set_xlabel("accuracy in %", color=FAINT, fontsize=8)
    handles, labels = panels[0].get_legend_handles_labels()
    once = dict(sorted(zip(labels, handles, strict=True), key=lambda entry: entry[0]))
    figure.legend(list(once.values()), list(once), loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return figure


def _panel(row: str) -> str:
    """Return the panel of a row: 'TPN, 1-shot' for 'TPN, 1-shot, Train=15'."""
    return row.rpartition(", ")[0] if row.count(", ") == 2 else ""


def draw_learning_curves(trainings: dict[str, dict[str, Any]]) -> Figure:
    """Draw the accuracy on the validation classes, a panel for each way and shot of training."""
    panels: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for result in trainings.values():
        setting = result["config"]["episode"]
        panels.setdefault((setting["way"], setting["shot"]), []).append(result)
    methods = list(dict.fromkeys(result["config"]["method"] for result in trainings.values()))
    rows = -(-len(panels) // PANELS_IN_A_ROW)
    across = min(len(panels), PANELS_IN_A_ROW)
    figure = new_figure(max(6.0, 3.2 * across), 0.6 + 2.6 * rows)
    grid = figure.subplots(rows, across, squeeze=False, sharey=True)
    drawn = {}
    for axes, ((way, shot), results) in zip(grid.flat, sorted(panels.items()), strict=False):
        for result in results:
            lines = result["trained"]["validations"]
            method, marker = result["config"]["method"], "." if len(lines) <= MOST_MARKERS else None
            x, y = [line["episode"] for line in lines], [100 * line["val_accuracy"] for line in lines]
            (drawn[method],) = axes.plot(x, y, color=class_colour(methods.index(method)), lw=1.3, marker=marker, ms=4)
        axes.set_title(f"{way}-way {shot}-shot", color=INK, fontsize=9)
        tidy(axes)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_axis_off()
    for axes in grid[-1]:
        axes.set_xlabel("training episodes", color=FAINT, fontsize=8)
    for row in grid:
        row[0].set_ylabel("validation accuracy in %", color=FAINT, fontsize=8)
    style: dict[str, Any] = {"ncols": min(5, len(drawn)), "frameon": False, "fontsize": 8}
    figure.legend(list(drawn.values()), list(drawn), loc="outside lower center", **style)
    return figure
