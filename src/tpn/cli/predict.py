"""tpn predict: classify single images."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

import tpn
from tpn.cli.parsing import parse
from tpn.workflows.keywords import option_fields
from tpn.workflows.options import Flag
from tpn.workflows.predict_options import PredictOptions
from tpn.workflows.settings import check_run


@dataclass(frozen=True, kw_only=True)
class Predict(PredictOptions):
    """Classify images, given a few labelled ones of each class.

    By default, the best pre-trained network at hand (see `tpn backbones`) embeds all images, and labels propagate from
    the labelled ones to the others. With RUN, a trained method classifies them; the classes need not be those of its
    training. A transductive method (see `tpn methods`) uses all images at once: more images make a better graph.
    """

    files: Annotated[Positional[tuple[Path, ...]], arg(metavar="[RUN] FILE...")]
    """The images to classify; before them, if wanted, a run folder that tpn train wrote, or mini-conv4."""
    support: Path
    """The folder with the labelled images: a sub-folder for each class."""
    json: Flag = False
    """Print one JSON object instead of text."""


def main(arguments: list[str]) -> int:
    options: Predict = parse(Predict, "tpn predict", arguments)
    first, files = (options.files[0] if options.files else None), options.files
    run = None if first is None or first.is_file() else first
    if run is not None:
        check_run(run)
        files = options.files[1:]
    chosen = {name: getattr(options, name) for name in option_fields(PredictOptions)}
    predictions = tpn.predict(run, files, options.support, **chosen)
    print(json.dumps(predictions.to_dict()) if options.json else predictions)
    return 0
