"""tpn data: look at the pictures."""

import json
from dataclasses import asdict, dataclass

from tyro.conf import Positional

from tpn.cli.parsing import Flag, parse
from tpn.errors import TPNError
from tpn.images import open_images

HELP = """usage: tpn data info SOURCE [--json]

Look at the pictures that methods are trained and tested on.

  tpn data info SOURCE    how many classes and pictures each split has

SOURCE is quickdraw, which ships with the package.
"""


@dataclass(frozen=True)
class DataInfo:
    """Tell how many classes and pictures each split of a source has."""

    source: Positional[str]
    """quickdraw, which ships with the package."""
    json: Flag = False
    """Print one JSON object instead of text."""


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP, end="")
        return 0
    if arguments[0] != "info":
        raise TPNError(f"Unknown command data {arguments[0]!r}: write tpn data info SOURCE.")
    options = parse(DataInfo, "tpn data info", arguments[1:])
    images = open_images(options.source)
    splits = images.info()
    if options.json:
        facts = {"source": images.spec, "image_size": images.image_size, "channels": images.channels}
        print(json.dumps({**facts, "splits": {name: asdict(info) for name, info in splits.items()}}))
        return 0
    print(f"{images.spec}: {images.image_size}x{images.image_size} pixels, {images.channels} channel(s)")
    print("split  classes   images")
    for name, info in splits.items():
        print(f"{name:<5}  {info.classes:>7}  {info.images:>7}")
    return 0
