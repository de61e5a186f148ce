"""tpn benchmark: test many heads on the backbone of a run."""

import json
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

import tpn
from tpn.cli.parsing import given, parse
from tpn.workflows.benchmark_options import BenchmarkOptions
from tpn.workflows.options import Flag
from tpn.workflows.settings import check_run


@dataclass(frozen=True, kw_only=True)
class Benchmark(BenchmarkOptions):
    """Test many heads on the backbone of a run, in several settings, on the same tasks.

    All images are embedded once. Writes a report (HTML, Markdown, CSV, JSON) to --out; a benchmark that was stopped
    continues there.
    """

    run: Positional[Path]
    """The run folder, or mini-conv4."""
    data: str | None = None
    """The source of the images: quickdraw, mini-imagenet:PATH, tiered-imagenet:PATH or folder:PATH (default: the data
    of the run)."""
    backbone: str | None = None
    """The network of the run (package.module:Name), if it is one of your own."""
    json: Flag = False
    """Print one JSON object instead of text."""

    def __post_init__(self) -> None:
        """Skip the checks, which the Python call makes."""


def main(arguments: list[str]) -> int:
    options: Benchmark = parse(Benchmark, "tpn benchmark", arguments)
    check_run(options.run)
    keywords = given(options, arguments)
    keywords.pop("json", None)
    result = tpn.benchmark(options.run, **keywords)
    print(json.dumps(result.to_dict()) if options.json else result)
    return 0
