"""tpn splits: the semi-supervised protocol, on several partitions into labelled and unlabelled images."""

import json
from dataclasses import dataclass
from typing import Generic

import tpn
from tpn.cli.parsing import given
from tpn.cli.train import AnyConfig, TrainingEpisodes, parse_training, split_method
from tpn.progress import say
from tpn.workflows.options import Flag, SplitsOptions


@dataclass(frozen=True, kw_only=True)
class Splits(SplitsOptions, Generic[AnyConfig]):
    """Train a method on several partitions of the training images into labelled and unlabelled ones, test each run, and
    report the mean accuracy and its standard error over the partitions: the protocol of semi-supervised methods.

    Each partition is a run of its own in --out, as `tpn train` would make it with --split-seed 0, 1, 2, ...; the
    results are in results.json beside them. Ctrl-C saves and stops; `--resume` continues exactly where it was.
    """

    settings: AnyConfig
    episode: TrainingEpisodes
    data: str = "quickdraw"
    """The source of the images: quickdraw (which ships with the package), mini-imagenet:PATH, tiered-imagenet:PATH or
    folder:PATH. `tpn data --help` says more."""
    json: Flag = False
    """Print one JSON object instead of text."""


def main(arguments: list[str]) -> int:
    name, arguments = split_method(Splits, "tpn splits", arguments)
    options = parse_training(Splits, f"tpn splits {name}", name, arguments)
    keywords = given(options, arguments)
    keywords.pop("json", None)
    result = tpn.train_splits(name, **keywords)
    print(json.dumps(result.to_dict()) if options.json else result)
    if not options.json:
        say(f"The runs and results.json are in {result.folder}.")
    return 0
