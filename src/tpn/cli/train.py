"""tpn train: train a method by episodes."""

import shlex
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import tpn
from tpn.cli.parsing import HELP, EpisodeFlags, given, parse, unchecked
from tpn.errors import Interrupted, TPNError
from tpn.progress import say
from tpn.workflows.options import TrainOptions
from tpn.workflows.settings import Config, list_methods, method_settings

AnyConfig = TypeVar("AnyConfig", bound=Config)


@dataclass(frozen=True)
class TrainingEpisodes(EpisodeFlags):
    """episodes"""


@dataclass(frozen=True)
class AnySettings(Config):
    """settings of every method (`tpn train METHOD --help` shows those of a method)"""


@dataclass(frozen=True, kw_only=True)
class Train(TrainOptions, Generic[AnyConfig]):
    """Train a few-shot method by episodes drawn from the training classes.

    Writes a run folder with the settings, a line of metrics per validation, the weights that were best on the
    validation classes, and a checkpoint. Ctrl-C saves and stops; `--resume` continues exactly where it was.
    """

    settings: AnyConfig
    episode: TrainingEpisodes
    data: str = "quickdraw"
    """The source of the images: quickdraw (which ships with the package), mini-imagenet:PATH, tiered-imagenet:PATH or
    folder:PATH. `tpn data --help` says more."""


def main(arguments: list[str]) -> int:
    name, arguments = split_method(Train, "tpn train", arguments)
    return train(Train, f"tpn train {name}", name, arguments)


def train(kind: Any, prog: str, name: str, arguments: list[str]) -> int:
    """Train the method of this name with the options of the command line."""
    options = parse_training(kind, prog, name, arguments)
    from tpn.workflows.train import is_first_process, leave_processes

    try:
        run = tpn.train(name, **given(options, arguments))
    except Interrupted as stop:
        if is_first_process():
            say(str(stop))
        return leave_processes(128 + stop.signal)
    if is_first_process():
        folder = shlex.quote(str(run.folder))
        print(f"{run} Test it with: tpn evaluate {folder}")
        if name == "classifier-baseline":
            print(f"Continue from its weights, by episodes, with: tpn train tpn --init {folder}")
    return leave_processes(0)


def parse_training(kind: Any, prog: str, name: str, arguments: list[str]) -> Any:
    """Parse the options of a training, with the settings of its method.

    Settings that no training can have are refused here, before torch is loaded; a training that is resumed has others,
    which its run knows.
    """
    checked = method_settings(name)
    settings = unchecked(checked)
    settings.__doc__ = f"settings of {name}"
    defaults = kind[settings](settings=settings(), episode=TrainingEpisodes())
    options = parse(kind[settings], prog, arguments, defaults)
    if not options.resume:
        checked(**given(options.settings, arguments))
    return options


def split_method(kind: Any, prog: str, arguments: list[str]) -> tuple[str, list[str]]:
    """Return the method, which comes first, and the other arguments. Without arguments, print the general help."""
    names = ", ".join(list_methods())
    if not arguments or arguments[0] in HELP:
        parse(kind[AnySettings], f"{prog} METHOD", ["--help"])
    if arguments[0].startswith("-"):
        raise TPNError(f"Name the method first: `{prog} METHOD {' '.join(arguments)}`. The methods are: {names}.")
    return arguments[0], arguments[1:]
