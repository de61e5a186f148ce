"""tpn label: label the rest of a folder of images."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

import tpn
from tpn.cli.parsing import parse
from tpn.errors import TPNError
from tpn.files import find_folder
from tpn.progress import say
from tpn.workflows.keywords import option_fields
from tpn.workflows.label_options import LabelOptions
from tpn.workflows.options import Flag


@dataclass(frozen=True, kw_only=True)
class Label(LabelOptions):
    """Label the rest of a folder of images, from the labels of a few.

    A network embeds each image (once: features are cached). The images are the nodes of a nearest-neighbour graph, on
    which the few labels propagate to all other images, combined with the predictions of a linear model. Every label has
    a confidence; a page shows each class from the most to the least confident image. To continue, label the images that
    --suggest names, and run the command again with both lists.
    """

    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """The images: all in this folder and below."""
    out: Path = Path("labels.csv")
    """The file for the labels: path, label, confidence."""
    json: Flag = False
    """Print one JSON object instead of text."""


def main(arguments: list[str]) -> int:
    if sum(argument.partition("=")[0] == "--labels" for argument in arguments) > 1:  # only the last would count
        raise TPNError("Give --labels once, followed by all lists: --labels FILE.csv FILE.csv.")
    options: Label = parse(Label, "tpn label", arguments)
    find_folder(options.folder)  # before NumPy is loaded
    found = tpn.label_folder(options.folder, **{name: getattr(options, name) for name in option_fields(LabelOptions)})
    if options.json:
        print(json.dumps(found.to_dict()))
        return 0
    print(found)
    written = [path for path in [*found.files.values(), options.copy_to, options.link_to] if path is not None]
    say(f"Written: {', '.join(map(str, written))} ({found.seconds:.1f} s)")
    return 0
