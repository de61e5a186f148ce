"""tpn plot: draw what a run has learned."""

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal

from tyro.conf import Positional

from tpn.cli.image_options import CacheOption
from tpn.cli.session import AnySetting, open_subject, parse_for_runs
from tpn.evaluation.protocol import draw_episodes
from tpn.files import make_folder
from tpn.runs.folder import find_run


@dataclass(frozen=True, kw_only=True)
class Plot(CacheOption, Generic[AnySetting]):
    """Draw a run: its learning curve, and an episode of unseen classes with the labels that the method gives to
    it, as a graph if it has one."""

    run: Positional[Path]
    """The run folder that tpn train wrote."""
    episode: AnySetting
    out: Path | None = None
    """The folder for the images; if not given, the run folder."""
    split: Literal["train", "val", "test"] = "test"
    """The classes of the episode."""
    seed: int = 0
    """Which episode."""


def main(arguments: list[str]) -> int:
    from tpn.evaluation.plots.episode import draw_episode
    from tpn.evaluation.plots.learning_curve import draw_learning_curve

    options = parse_for_runs(Plot, "tpn plot", arguments)
    folder = options.out or options.run
    metrics = find_run(options.run).read_metrics()
    subject = open_subject(options.run, None, options.split, options.cache)
    [episode] = draw_episodes(subject.split, options.episode, 1, options.seed)
    subject.check(options.episode)
    make_folder(folder)
    curve, graph = folder / "learning-curve.png", folder / "episode.png"
    draw_learning_curve(metrics, f"{subject.config.method} on {subject.data}, {subject.config.episode}", curve)
    title = f"{options.run}: {subject.name} on {subject.data}, {options.split} classes, {options.episode}"
    draw_episode(subject.method, subject.split, episode, title, graph)
    print(f"The learning curve is in {curve},\nan episode in {graph}.")
    return 0
