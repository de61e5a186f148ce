"""tpn plot: plot the learning curve and an episode of a run."""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

import tpn
from tpn.cli.parsing import EpisodeFlags, given, parse
from tpn.workflows.options import PlotOptions
from tpn.workflows.settings import check_run


@dataclass(frozen=True, kw_only=True)
class Plot(PlotOptions):
    """Plot a run: its learning curve, and an episode of unseen classes with the labels that the method predicts, as a
    graph if the method builds one."""

    run: Positional[Path]
    """The run folder that tpn train wrote."""
    episode: EpisodeFlags
    backbone: str | None = None
    """The network of the run (package.module:Name), if it is one of your own."""


def main(arguments: list[str]) -> int:
    options: Plot = parse(Plot, "tpn plot", arguments)
    check_run(options.run)
    print(tpn.plot_run(options.run, **given(options, arguments)))
    return 0
