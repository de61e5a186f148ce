"""tpn embed: embed images once, into shards of features."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

import tpn
from tpn.cli.parsing import parse
from tpn.workflows.embed_options import EmbedOptions
from tpn.workflows.keywords import option_fields
from tpn.workflows.options import Flag


@dataclass(frozen=True, kw_only=True)
class Embed(EmbedOptions):
    """Embed the images of a folder or a list into shards of features, on this machine or on a Ray cluster.

    An interrupted command continues where it was when it is run again. `tpn label FOLDER --features SHARDS` labels the
    folder with them.
    """

    source: Annotated[Positional[Path], arg(metavar="FOLDER|LIST")]
    """A folder with images; or a text file with a path in each line, or a csv file with a column `path`."""
    out: Path
    """The folder for the shards."""
    json: Flag = False
    """Print one JSON object instead of text."""


def main(arguments: list[str]) -> int:
    options: Embed = parse(Embed, "tpn embed", arguments)
    chosen = {name: getattr(options, name) for name in option_fields(EmbedOptions)}
    made = tpn.embed_images(options.source, options.out, **chosen)
    print(json.dumps(made.to_dict()) if options.json else made)
    return 0
