"""tpn predict: classify single images with a trained method."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

import tpn
from tpn.cli.parsing import parse
from tpn.workflows.options import DeviceOptions, Flag
from tpn.workflows.settings import check_run


@dataclass(frozen=True, kw_only=True)
class Predict(DeviceOptions):
    """Classify images with a trained method, given a few labelled ones of each class.

    The classes need not be those of training. A transductive method (see `tpn methods`) uses all images at once: more
    images make a better graph.
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """The run folder that tpn train wrote; or mini-conv4, whose weights ship with tpn."""
    files: Annotated[Positional[tuple[Path, ...]], arg(metavar="FILE...")]
    """The images to classify."""
    support: Path
    """The folder with the labelled images: a sub-folder for each class."""
    json: Flag = False
    """Print one JSON object instead of text."""


def main(arguments: list[str]) -> int:
    options: Predict = parse(Predict, "tpn predict", arguments)
    check_run(options.run)
    predictions = tpn.predict(
        options.run, options.files, options.support, threads=options.threads, device=options.device
    )
    print(json.dumps(predictions.to_dict()) if options.json else predictions)
    return 0
