"""tpn predict: classify single images."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

import tpn
from tpn.cli.parsing import parse
from tpn.errors import TPNError
from tpn.workflows.keywords import option_fields
from tpn.workflows.options import Flag
from tpn.workflows.predict_options import PredictOptions
from tpn.workflows.settings import check_run


@dataclass(frozen=True, kw_only=True)
class Predict(PredictOptions):
    """Classify images, given a few labelled ones of each class, or by a labelling that tpn label --save has written.

    By default, the best pre-trained network at hand (see `tpn backbones`) embeds all images, and labels propagate from
    the labelled ones to the others. With RUN, a trained method classifies them; the classes need not be those of its
    training. A transductive method (see `tpn methods`) uses all images at once: more images make a better graph.
    """

    run: Annotated[Positional[Path], arg(metavar="[RUN]")]
    """A run folder that tpn train wrote, or mini-conv4; if it is left out, the best network at hand is taken."""
    files: Annotated[Positional[tuple[Path, ...]], arg(metavar="FILE...")]
    """The images to classify."""
    support: Path | None = None
    """The folder with the labelled images: a sub-folder for each class."""
    labelling: Path | None = None
    """A labelling that tpn label --save has written, instead of --support and a run."""
    json: Flag = False
    """Print one JSON object instead of text."""


def main(arguments: list[str]) -> int:
    options: Predict = parse(Predict, "tpn predict", arguments)
    if options.labelling is not None or options.run.is_file():  # an image: RUN was left out
        run, files = None, (options.run, *options.files)
    else:
        check_run(options.run)
        run, files = options.run, options.files
    if options.support is None and options.labelling is None:
        raise TPNError("The labelled images (--support FOLDER) or a saved labelling (--labelling FILE) are required.")
    chosen = {name: getattr(options, name) for name in option_fields(PredictOptions)}
    predictions = tpn.predict(run, files, options.support, labelling=options.labelling, **chosen)
    print(json.dumps(predictions.to_dict()) if options.json else predictions)
    return 0
