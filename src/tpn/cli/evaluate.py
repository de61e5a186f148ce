"""tpn evaluate: test a trained method."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

import tpn
from tpn.cli.parsing import EpisodeFlags, given, parse
from tpn.files import check_target, write_text
from tpn.workflows.options import EvaluateOptions, Flag
from tpn.workflows.settings import check_run


@dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateOptions):
    """Test a trained method: mean accuracy over episodes of classes it has never seen, with its 95 % interval."""

    run: Positional[Path]
    """The run folder that tpn train wrote."""
    episode: EpisodeFlags
    data: str | None = None
    """The source of the images: quickdraw, mini-imagenet:PATH, tiered-imagenet:PATH or folder:PATH (default: the data
    of the run)."""
    as_method: Annotated[str | None, arg(name="as", metavar="METHOD")] = None
    """Test the weights of the run as another method that has the same ones: reptile-bn for a run of reptile,
    soft-kmeans for one of protonet, tpn-semi for one of tpn, discriminative-k-shot for one of classifier-baseline."""
    backbone: str | None = None
    """The network of the run (package.module:Name), if it is one of your own."""
    json: Flag = False
    """Print one JSON object instead of text."""
    per_episode: Path | None = None
    """Write the accuracy of each episode to this CSV file."""


def main(arguments: list[str]) -> int:
    options: Evaluate = parse(Evaluate, "tpn evaluate", arguments)
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
