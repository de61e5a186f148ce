"""Plot the learning curve and an episode of a run."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpn.backbones._registry import Network
from tpn.episodes.episode_sampler import draw_episodes
from tpn.episodes.setting import Setting
from tpn.evaluation.subject import open_run
from tpn.files import make_folder
from tpn.progress import showing
from tpn.results import Result
from tpn.runs.folder import find_run
from tpn.training.device import computing
from tpn.workflows.evaluate import inherited
from tpn.workflows.keywords import build, refuse_unknown, take, takes
from tpn.workflows.options import PlotOptions


@dataclass(frozen=True)
class RunPlots(Result):
    """Paths of the plots of a run."""

    learning_curve: Path
    episode: Path

    def to_dict(self) -> dict[str, Any]:
        return {"learning_curve": str(self.learning_curve), "episode": str(self.episode)}

    def summary(self) -> str:
        return f"The learning curve is in {self.learning_curve},\nan episode in {self.episode}."


@takes(PlotOptions, Setting)
def plot_run(
    run: str | os.PathLike[str], *, backbone: str | Network | None = None, progress: bool = True, **options: Any
) -> RunPlots:
    """Plot a run: its learning curve, and an episode of unseen classes with the labels that the method predicts.

    Parameters
    ----------
    run : path
        A run folder, or the result of `tpn.train`.
    backbone : str, nn.Module or callable, optional
        The network of the run, if it is one of your own.
    progress : bool, default=True
        Show progress.
    {options}

    Returns
    -------
    RunPlots
        The files that were written.
    """
    from tpn.evaluation.plots.episode import draw_episode
    from tpn.evaluation.plots.learning_curve import draw_learning_curve

    given = dict(options)
    plot = build(PlotOptions, given)
    episode_options = take(Setting, given)
    refuse_unknown("plot_run", given, PlotOptions, Setting)
    found = find_run(run)
    with showing(progress), computing(plot.threads, plot.device):
        metrics = found.read_metrics() if found.exists else []
        subject = open_run(found, None, plot.split, cache=plot.cache, backbone=backbone)
        assert subject.config is not None
        setting = inherited(subject.config.episode, episode_options)
        [episode] = draw_episodes(subject.split, setting, 1, plot.seed)
        subject.check(setting)
        folder = plot.out or found.folder
        make_folder(folder)
        plots = RunPlots(folder / "learning-curve.png", folder / "episode.png")
        title = f"{subject.name} on {subject.data}, {subject.config.episode}"
        draw_learning_curve(metrics, title, plots.learning_curve)
        about = f"{found.folder.name}: {subject.name} on {subject.data}, {plot.split} split, {setting}"
        draw_episode(subject.method, subject.split, episode, about, plots.episode)
    return plots


def check_plot_file(path: Path) -> None:
    """Refuse a path to which no plot can be written."""
    from tpn.evaluation.plots.figure import check_figure

    check_figure(path)
