"""tpn evaluate: test a trained method."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from tpn.cli.parsing import Flag
from tpn.cli.session import AnySetting, TestOptions, describe, open_subject, parse_for_runs, test
from tpn.files import check_target, write_text


@dataclass(frozen=True, kw_only=True)
class Evaluate(TestOptions[AnySetting]):
    """Test a trained method: mean accuracy over episodes of classes it has never seen, with its 95 % interval."""

    run: Positional[Path]
    """The run folder that tpn train wrote."""
    as_method: Annotated[str | None, arg(name="as", metavar="METHOD")] = None
    """Test the weights of the run as this other method, which has the same ones: reptile-bn for a run of reptile,
    soft-kmeans for one of protonet, tpn-semi for one of tpn, discriminative-k-shot for one of classifier-baseline."""
    json: Flag = False
    """Print one JSON object instead of text."""
    per_episode: Path | None = None
    """Write the accuracy of each episode to this csv file."""


def main(arguments: list[str]) -> int:
    options = parse_for_runs(Evaluate, "tpn evaluate", arguments)
    if options.per_episode is not None:
        check_target(options.per_episode)
    machine = options.prepare()
    subject = open_subject(options.run, options.data, options.split, options.cache, options.as_method, machine.device)
    subject.check(options.episode)
    evaluation = test(subject, subject.draw(options), options.batch_norm, "evaluating")
    mean, transduction = evaluation.mean, subject.transduction(options.batch_norm)
    if options.per_episode is not None:
        lines = [f"{episode},{accuracy:.6f}" for episode, accuracy in enumerate(evaluation.accuracies)]
        write_text(options.per_episode, "\n".join(["episode,accuracy", *lines, ""]))
    if options.json:
        result = {
            "accuracy": mean.value,
            "ci95": mean.ci95,
            "way": options.episode.way,
            "shot": options.episode.shot,
            "query": options.episode.query,
            "episodes": options.episodes,
            "seconds": evaluation.seconds,
            "method": subject.name,
            "transduction": transduction,
            "batch_norm": subject.batch_norm(options.batch_norm),
            "data": subject.data,
            "split": options.split,
            "seed": options.seed,
            "run": str(options.run),
        }
        result.update(asdict(options.episode))  # the rest of what an episode is made of
        print(json.dumps(result))
        return 0
    print(f"{subject.name} on {describe(options, subject)}")
    print(f"  accuracy      {mean}" + ("" if mean.ci95 is None else "  (95 % interval)"))
    print(f"  transduction  {transduction}, batch norm with {subject.batch_norm(options.batch_norm)} statistics")
    print(f"  time          {evaluation.seconds:.1f} s")
    return 0
