"""tpn data: look at the images, and prepare them."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from tpn.cli.image_options import ImageOptions
from tpn.cli.parsing import Flag, parse
from tpn.episodes.setting import Setting
from tpn.errors import TPNError
from tpn.images.opening import find_source
from tpn.images.quickdraw import QuickDraw
from tpn.images.source import Source
from tpn.images.source_names import check_size
from tpn.images.split import SplitInfo
from tpn.images.store import Store
from tpn.images.store_cache import cache_folder, find_store, refusal
from tpn.text import printable, size_text

HELP = """usage: tpn data COMMAND SOURCE [options]

Look at the images that methods are trained and tested on, and prepare them.

  tpn data info SOURCE                  how many classes and images each split has
  tpn data prepare SOURCE               decode and scale all images once, so that training opens them at once
  tpn data show SOURCE --out FILE.png   draw the images of an episode

SOURCE is one of
  quickdraw              345 classes of drawings, which come with the package
  mini-imagenet:PATH     miniImageNet, in any form that it is passed on in, or the ILSVRC-2012 training images
  tiered-imagenet:PATH   tieredImageNet, likewise
  folder:PATH            your own: PATH/{train,val,test}/CLASS/*, or PATH/CLASS/* and the classes are divided 64/16/20
                         per cent by --class-seed, or as PATH/splits.json ({"train": ["cat", ...], "val": [...],
                         "test": [...]}) or PATH/splits.csv (columns class and split) says
PATH is a folder, or a zip or tar archive; what it holds is recognised.

`tpn data COMMAND --help` explains the options.
"""


@dataclass(frozen=True, kw_only=True)
class SourceOptions(ImageOptions):
    """What every command on a source takes."""

    source: Positional[Annotated[str, arg(metavar="SOURCE")]]
    """quickdraw, mini-imagenet:PATH, tiered-imagenet:PATH or folder:PATH."""


@dataclass(frozen=True, kw_only=True)
class Info(SourceOptions):
    """Tell how many classes and images each split of a source has, without preparing them."""

    json: Flag = False
    """Print one JSON object instead of text."""


@dataclass(frozen=True, kw_only=True)
class Prepare(SourceOptions):
    """Decode and scale all images of a source once, into a store in the cache folder.

    Every command does that by itself when it needs to. A store that is already there is compared with its checksums,
    and built anew if it is damaged or its source has changed.
    """


@dataclass(frozen=True, kw_only=True)
class Show(SourceOptions):
    """Draw a contact sheet of an episode: its classes, their support, their queries."""

    out: Path
    """The image file to write."""
    episode: Setting
    split: Literal["train", "val", "test"] = "train"
    """The classes to draw from."""
    seed: int = 0
    """Which episode."""


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP, end="")
        return 0
    commands = {"info": info, "prepare": prepare, "show": show}
    if arguments[0] not in commands:
        raise TPNError(
            f"Unknown command data {arguments[0]!r}: choose one of {', '.join(commands)}. See tpn data --help."
        )
    return commands[arguments[0]](arguments[1:])


def info(arguments: list[str]) -> int:
    options = parse(Info, "tpn data info", arguments)
    facts, splits = look(options)
    if options.json:
        print(json.dumps({**facts, "splits": {name: known(split) for name, split in splits.items()}}))
        return 0
    size = facts["image_size"]
    print(f"{printable(facts['source'])}: {facts['layout']}, {size}x{size} pixels, {facts['channels']} channel(s)")
    print_splits(splits)
    for sentence in [*facts["problems"], *facts["remarks"]]:
        print(f"  {sentence}")
    if facts["prepared"]:
        print(f"The images have been prepared: {facts['store']}" if facts["store"] else "Nothing needs to be prepared.")
    else:
        print("The images have not been prepared in this size: any command that needs them will do so.")
    return 0


def look(options: Info) -> tuple[dict[str, Any], dict[str, SplitInfo]]:
    """What there is to say of the images, as JSON can hold it, and how much is in each split."""
    source = find_source(options.source, options.class_seed)
    if source is not None:
        with source:
            return look_at(source, options)
    images = options.open(options.source)
    facts = {"source": images.spec, "layout": "drawings that come with the package", "prepared": True, "store": None}
    facts.update(image_size=images.image_size, channels=images.channels, mean=images.mean, std=images.std)
    return {**facts, "problems": [], "remarks": []}, images.info()


def look_at(source: Source, options: Info) -> tuple[dict[str, Any], dict[str, SplitInfo]]:
    """The same of a user's images: of their store, if they have been prepared; otherwise of what can be listed."""
    check_size(options.image_size)
    size = options.image_size or source.image_size
    facts: dict[str, Any] = {"source": source.spec, "image_size": size, "channels": Store.channels}
    store = find_store(source, size, cache_folder(options.cache))
    if store is not None:
        facts.update(layout=store.layout, prepared=True, store=str(store.folder), mean=store.mean, std=store.std)
        facts.update(problems=store.problems, remarks=store.remarks)
        splits = store.info()
    else:
        index = source.index()
        facts.update(layout=index.layout, prepared=False, store=None)
        facts.update(problems=index.problems.sentences, remarks=index.remarks)
        counts = {name: split.counts for name, split in index.splits.items()}
        splits = {name: source.split_info(classes) for name, classes in counts.items()}
    if options.strict and facts["problems"]:
        raise refusal(source, facts["problems"])
    return facts, splits


def known(split: SplitInfo) -> dict[str, int]:
    """What is known of a split."""
    return {name: value for name, value in asdict(split).items() if value is not None}


def print_splits(splits: dict[str, SplitInfo]) -> None:
    categories = any(split.categories is not None for split in splits.values())
    print("split  classes   images" + ("  categories" if categories else ""))
    for name, split in splits.items():
        print(
            f"{name:<5}  {split.classes:>7}  {split.images:>7}"
            + (f"  {split.categories or '':>10}" if categories else "")
        )


def prepare(arguments: list[str]) -> int:
    options = parse(Prepare, "tpn data prepare", arguments)
    start = time.perf_counter()
    images = options.open(options.source, verify=True)
    seconds = time.perf_counter() - start
    print_splits(images.info())
    if isinstance(images, QuickDraw):
        print("These drawings come with the package: nothing needs to be prepared.")
    elif isinstance(images, Store):
        size = sum(file.stat().st_size for file in images.folder.iterdir())
        print(f"Ready in {images.folder} ({size_text(size)}, {seconds:.1f} s).")
    return 0


def show(arguments: list[str]) -> int:
    from tpn.evaluation.plots.contact_sheet import draw_contact_sheet
    from tpn.evaluation.plots.figure import check_figure
    from tpn.evaluation.protocol import draw_episodes

    options = parse(Show, "tpn data show", arguments)
    check_figure(options.out)
    images = options.open(options.source)
    split = images.split(options.split)
    [episode] = draw_episodes(split, options.episode, 1, options.seed)
    title = f"{images.spec}, {options.split} split: {options.episode}"
    draw_contact_sheet(split, episode, title, options.out)
    print(f"An episode is drawn in {options.out}.")
    return 0
