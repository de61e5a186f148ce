"""tpn evaluate: test a trained method."""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from tyro.conf import Positional, arg

import tpn
from tpn.cli.parsing import EpisodeFlags, given, parse
from tpn.errors import TPNError
from tpn.files import check_target, write_text
from tpn.workflows.options import EvaluateOptions, Flag
from tpn.workflows.settings import check_run, list_methods, own_settings_class

AnySettings = TypeVar("AnySettings")


@dataclass(frozen=True)
class NoHead:
    """settings of a method (with --as METHOD)"""


@dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateOptions, Generic[AnySettings]):
    """Test a trained method: mean accuracy over episodes of classes it has never seen, with its 95 % interval."""

    run: Positional[Path]
    """The run folder that tpn train wrote."""
    episode: EpisodeFlags
    head: AnySettings
    data: str | None = None
    """The source of the images: quickdraw, mini-imagenet:PATH, tiered-imagenet:PATH or folder:PATH (default: the data
    of the run)."""
    as_method: Annotated[str | None, arg(name="as", metavar="METHOD")] = None
    """Test the weights of the run as another method that has the same ones: reptile-bn for a run of reptile,
    soft-kmeans for one of protonet, tpn-semi for one of tpn, discriminative-k-shot for one of classifier-baseline. Or
    test its backbone with any head (laplacian-shot, tim, …), whose settings are options too:
    `tpn evaluate RUN --as HEAD --help`."""
    backbone: str | None = None
    """The network of the run (package.module:Name), if it is one of your own."""
    json: Flag = False
    """Print one JSON object instead of text."""
    per_episode: Path | None = None
    """Write the accuracy of each episode to this CSV file."""


def head_settings(arguments: list[str]) -> type:
    """Return the settings class of the head that --as names, with its own settings only."""
    named = [value for flag, value in pairwise([*arguments, ""]) if flag == "--as"]
    named += [argument.partition("=")[2] for argument in arguments if argument.startswith("--as=")]
    return own_settings_class(named[-1]) if named and named[-1] in list_methods() else NoHead


def main(arguments: list[str]) -> int:
    kind = head_settings(arguments)
    try:
        options: Any = parse(Evaluate[kind], "tpn evaluate", arguments)  # type: ignore[valid-type]
    except TPNError as failure:
        if kind is NoHead and "Unrecognized" in str(failure):
            why = failure.command_line_text
            raise TPNError(f"{why}. The settings of a method, such as --k, need --as METHOD.") from None
        raise
    if options.per_episode is not None:
        check_target(options.per_episode)
    keywords = given(options, arguments)
    for printed in ("json", "per_episode"):
        keywords.pop(printed, None)
    check_run(options.run)
    result = tpn.evaluate(options.run, **keywords)
    if options.per_episode is not None:
        lines = [f"{episode},{accuracy:.6f}" for episode, accuracy in enumerate(result.accuracies)]
        write_text(options.per_episode, "\n".join(["episode,accuracy", *lines, ""]))
    print(json.dumps(result.to_dict()) if options.json else result)
    return 0
