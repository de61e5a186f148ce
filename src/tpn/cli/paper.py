"""tpn paper: the experiments of the paper, one command each."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

import tpn
from tpn.cli.parsing import parse
from tpn.workflows.paper_options import PaperOptions


@dataclass(frozen=True, kw_only=True)
class Paper(PaperOptions):
    """Run an experiment of the paper, and compare the results with the published numbers.

    `tpn paper list` shows the experiments. Everything is kept in --out, and the same command continues there after any
    interruption: trainings resume from their last validation, and each test runs once. Experiments with the same --out
    share trainings. The report is written as HTML, Markdown and CSV; failed trainings are named and do not stop the
    others.
    """

    name: Annotated[Positional[str], arg(metavar="NAME")]
    """The experiment, or `list`."""


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    if arguments[:1] == ["list"]:
        print(tpn.list_experiments())
        return 0
    options: Paper = parse(Paper, "tpn paper", arguments or ["--help"])
    result = tpn.reproduce(**vars(options))
    if result.stopped_by is not None:
        return 128 + result.stopped_by
    print(result)
    return 1 if result.failures else 0
