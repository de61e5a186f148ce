"""tpn data: inspect and prepare images."""

import json
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from tpn.cli.parsing import parse
from tpn.errors import TPNError
from tpn.text import size_text
from tpn.workflows.data import Setting, data_info, prepare_data, show_data
from tpn.workflows.options import Flag, ImageOptions, SplitName

HELP = """usage: tpn data COMMAND SOURCE [options]

Inspect and prepare the images that methods are trained and tested on.

  tpn data info SOURCE                  count the classes and images of each split
  tpn data prepare SOURCE               decode and resize all images now, so that training starts at once
  tpn data show SOURCE --out FILE.png   draw the images of an episode

SOURCE is one of
  quickdraw              345 classes of drawings, which ship with the package
  mini-imagenet:PATH     miniImageNet in any common layout, or the ILSVRC-2012 training images
  tiered-imagenet:PATH   tieredImageNet, likewise
  folder:PATH            your own images: PATH/{train,val,test}/CLASS/*, or PATH/CLASS/*. In the second form, the
                         classes are assigned to splits by PATH/splits.json ({"train": ["cat", ...], "val": [...],
                         "test": [...]}) or PATH/splits.csv (columns class and split), or else at random, 64/16/20
                         per cent, as --class-seed determines
PATH is a folder, or a zip or tar archive; its layout is recognised.

`tpn data COMMAND --help` explains the options.
"""


@dataclass(frozen=True, kw_only=True)
class SourceOptions(ImageOptions):
    """The options of every command on a source."""

    source: Positional[Annotated[str, arg(metavar="SOURCE")]]
    """quickdraw, mini-imagenet:PATH, tiered-imagenet:PATH or folder:PATH."""

    @property
    def image_options(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(ImageOptions)}


@dataclass(frozen=True, kw_only=True)
class Info(SourceOptions):
    """Count the classes and images of each split of a source, without preparing them."""

    json: Flag = False
    """Print one JSON object instead of text."""


@dataclass(frozen=True, kw_only=True)
class Prepare(SourceOptions):
    """Decode and resize all images of a source once, into a store in the cache folder.

    Every command that needs the images does this automatically. An existing store is checked against its checksums, and
    rebuilt if it is damaged or its source has changed.
    """


@dataclass(frozen=True, kw_only=True)
class Show(SourceOptions):
    """Draw the images of an episode: a row for each class, with its support and its queries."""

    out: Path
    """The image file to write."""
    episode: Setting
    split: SplitName = "train"
    """The split to draw the classes from."""
    seed: int = 0
    """The seed of the episode."""


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP, end="")
        return 0
    commands = {"info": info, "prepare": prepare, "show": show}
    if arguments[0] not in commands:
        raise TPNError(
            f"Unknown command data {arguments[0]!r}: choose one of {', '.join(commands)}. See `tpn data --help`."
        )
    commands[arguments[0]](arguments[1:])
    return 0


def info(arguments: list[str]) -> None:
    options = parse(Info, "tpn data info", arguments)
    found = data_info(options.source, **options.image_options)
    print(json.dumps(found.to_dict()) if options.json else found)


def prepare(arguments: list[str]) -> None:
    options = parse(Prepare, "tpn data prepare", arguments)
    start = time.perf_counter()
    prepared = prepare_data(options.source, **options.image_options)
    seconds = time.perf_counter() - start
    print(prepared.table())
    if prepared.store is None:
        print("These images ship with the package: no preparation is needed.")
    else:
        print(f"Ready in {prepared.store} ({size_text(prepared.store_bytes)}, {seconds:.1f} s).")


def show(arguments: list[str]) -> None:
    options = parse(Show, "tpn data show", arguments)
    setting = {field.name: getattr(options.episode, field.name) for field in fields(Setting)}
    out = show_data(
        options.source, options.out, split=options.split, seed=options.seed, **setting, **options.image_options
    )
    print(f"The episode is in {out}.")
