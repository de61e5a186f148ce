"""The accuracies of several methods, side by side."""

from pathlib import Path

from matplotlib.figure import Figure

from tpn.evaluation.intervals import Mean
from tpn.evaluation.plots.figure import INK, finish, new_figure, tidy


def draw_comparison(means: dict[str, Mean], title: str = "", path: Path | None = None) -> Figure:
    """Draw the accuracy of each method with its 95 % interval, the best on top; write the file if there is a path."""
    ranked = sorted(means.items(), key=lambda item: item[1].value)
    figure = new_figure(8, 1.2 + 0.4 * len(ranked))
    axes = figure.subplots()
    for row, (_, mean) in enumerate(ranked):
        axes.errorbar(100 * mean.value, row, xerr=100 * (mean.ci95 or 0), fmt="o", color="#2f6fde", capsize=4, lw=2)
        axes.annotate(
            str(mean), (100 * mean.value, row), textcoords="offset points", xytext=(0, 8), ha="center", fontsize=8
        )
    axes.set_yticks(range(len(ranked)), [name for name, _ in ranked])
    axes.set_ylim(-0.6, len(ranked) - 0.3)
    axes.set_xlabel("accuracy in % (95 % interval)", color=INK)
    axes.set_title(title, color=INK, fontsize=10)
    tidy(axes)
    return finish(figure, path)
