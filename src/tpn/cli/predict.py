"""tpn predict: classify single images with a trained method."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

import tpn
from tpn.cli.parsing import parse
from tpn.errors import TPNError
from tpn.workflows.options import DeviceOptions, Flag
from tpn.workflows.settings import check_run


@dataclass(frozen=True, kw_only=True)
class Predict(DeviceOptions):
    """Classify images, given a few labelled ones of each class, or by a labelling that tpn label --save has written.

    By default by the network and the label propagation of tpn label. With a run of tpn train, by its method: the
    classes need not be those of training, and a transductive method (see `tpn methods`) uses all images at once, so
    more images make a better graph.
    """

    run: Annotated[Positional[Path], arg(metavar="[RUN]")]
    """The run folder that tpn train wrote; or mini-conv4, whose weights ship with tpn. It can be left out."""
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
    run: Path | None = options.run
    files = options.files
    if options.labelling is not None or options.run.is_file():  # an image: the run was left out
        run, files = None, (options.run, *options.files)
    else:
        check_run(options.run)
    if options.support is None and options.labelling is None:
        raise TPNError("The labelled images (--support FOLDER) or a saved labelling (--labelling FILE) are required.")
    predictions = tpn.predict(
        run, files, options.support, labelling=options.labelling, threads=options.threads, device=options.device
    )
    print(json.dumps(predictions.to_dict()) if options.json else predictions)
    return 0
