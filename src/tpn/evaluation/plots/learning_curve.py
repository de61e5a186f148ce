"""The learning curve of a run."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tpn.errors import TPNError
from tpn.evaluation.plots.figure import FAINT, INK, finish, new_figure, tidy


def draw_learning_curve(metrics: list[dict[str, Any]], title: str = "", path: Path | None = None) -> Figure:
    """Draw accuracy, loss and learning rate over the episodes of a training; write the file if there is a path."""
    if not metrics:
        raise TPNError("The run has no learning curve: it was stopped before its first validation.")
    figure = new_figure(8, 4.2)
    accuracy, loss = figure.subplots(1, 2, width_ratios=(3, 2))
    episodes = _column(metrics, "episode")
    validation, interval = 100 * _column(metrics, "val_accuracy"), 100 * _column(metrics, "val_ci95")
    training = 100 * _column(metrics, "train_accuracy")
    accuracy.fill_between(episodes, validation - interval, validation + interval, color="#2f6fde", alpha=0.15, lw=0)
    best = int(np.nanargmax(validation))
    label = f"validation classes (best {validation[best]:.1f} % at {episodes[best]:,.0f})"
    accuracy.plot(episodes, validation, color="#2f6fde", lw=2, label=label)
    accuracy.plot(episodes, training, color="#e07b00", lw=1.2, label="training classes")
    accuracy.plot(episodes[best], validation[best], "o", color="#2f6fde", ms=7, mec="white")
    accuracy.set_ylabel("accuracy in % (band: 95 % interval)", color=INK)
    accuracy.legend(frameon=False, fontsize=9, loc="lower right")
    loss.plot(episodes, _column(metrics, "train_loss"), color="#e07b00", lw=1.5)
    loss.set_ylabel("training loss", color=INK)
    for axes in (accuracy, loss):
        axes.set_xlabel("episodes", color=INK)
        tidy(axes)
    rate = loss.twinx()
    rate.step(episodes, _column(metrics, "lr"), where="post", color=FAINT, lw=1, ls="--")
    rate.set_ylim(0, 1.1 * np.nanmax(_column(metrics, "lr")))
    rate.set_ylabel("learning rate (dashed)", color=FAINT)
    rate.tick_params(colors=FAINT, labelsize=8)
    rate.spines[["top", "left", "right", "bottom"]].set_visible(False)
    figure.suptitle(title, color=INK, fontsize=11)
    return finish(figure, path)


def _column(metrics: list[dict[str, Any]], name: str) -> Any:
    return np.array([np.nan if line.get(name) is None else line[name] for line in metrics], dtype=float)
