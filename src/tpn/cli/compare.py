"""tpn compare: test several trained methods on the same episodes."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

import tpn
from tpn.cli.parsing import EpisodeFlags, given, parse
from tpn.errors import TPNError
from tpn.workflows.options import EvaluateOptions, Flag
from tpn.workflows.settings import check_run


@dataclass(frozen=True, kw_only=True)
class Compare(EvaluateOptions):
    """Test two or more trained methods on the same episodes, and show which differences are more than chance.

    A difference is computed episode by episode (paired), so its interval is much narrower than those of the accuracies.
    """

    runs: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN RUN ...")]
    """The run folders."""
    episode: EpisodeFlags
    data: str | None = None
    """The source of the images: quickdraw, mini-imagenet:PATH, tiered-imagenet:PATH or folder:PATH (default: the data
    of the runs)."""
    backbone: str | None = None
    """The network of the runs (package.module:Name), if it is one of your own."""
    json: Flag = False
    """Print one JSON object instead of text."""
    plot: Path | None = None
    """Plot the accuracies with their intervals to this image file."""


def main(arguments: list[str]) -> int:
    options: Compare = parse(Compare, "tpn compare", arguments)
    if len(options.runs) < 2:
        raise TPNError("Name at least two run folders to compare: `tpn compare RUN RUN`.")
    for run in options.runs:
        check_run(run)
    if options.plot is not None:
        from tpn.workflows.plot import check_plot_file

        check_plot_file(options.plot)
    keywords = given(options, arguments)
    for printed in ("json", "plot"):
        keywords.pop(printed, None)
    comparison = tpn.compare(options.runs, **keywords)
    if options.plot is not None:
        comparison.plot(options.plot)
    print(json.dumps(comparison.to_dict()) if options.json else comparison)
    return 0
