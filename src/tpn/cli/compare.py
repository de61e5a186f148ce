"""tpn compare: which of several trained methods is better."""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from tyro.conf import Positional

from tpn.cli.parsing import Flag
from tpn.cli.session import (
    AnySetting,
    TestOptions,
    describe,
    open_subject,
    parse_for_runs,
    test,
)
from tpn.errors import TPNError
from tpn.evaluation.comparison import compare
from tpn.evaluation.intervals import percent


@dataclass(frozen=True, kw_only=True)
class Compare(TestOptions[AnySetting]):
    """Test two or more trained methods on the same episodes, and tell which differences are more than chance.

    A difference is taken episode by episode, so its interval is much narrower than those of the accuracies.
    """

    runs: Positional[tuple[Path, ...]]
    """The run folders."""
    json: Flag = False
    """Print one JSON object instead of text."""
    plot: Path | None = None
    """Draw the accuracies with their intervals to this image file."""

    def __post_init__(self) -> None:
        if len(self.runs) < 2:
            raise TPNError("Name at least two run folders to compare: tpn compare RUN RUN.")


def main(arguments: list[str]) -> int:
    options = parse_for_runs(Compare, "tpn compare", arguments)
    if options.plot is not None:
        from tpn.evaluation.plots.comparison import draw_comparison
        from tpn.evaluation.plots.figure import check_figure

        check_figure(options.plot)
    machine = options.prepare()
    names = distinct_names(options.runs)
    subjects = {
        name: open_subject(run, options.data, options.split, options.cache, device=machine.device)
        for name, run in zip(names, options.runs, strict=True)
    }
    first = subjects[names[0]]
    if others := sorted({subject.data for subject in subjects.values()} - {first.data}):
        raise TPNError(
            f"The runs were trained on {first.data} and {others[0]}: say with --data on which to compare them."
        )
    for subject in subjects.values():
        subject.check(options.episode)
    episodes = first.draw(options)
    evaluations = {name: test(subject, episodes, options.batch_norm, name) for name, subject in subjects.items()}
    differences = compare(evaluations)
    if options.plot is not None:
        means = {name: evaluation.mean for name, evaluation in evaluations.items()}
        draw_comparison(means, describe(options, first), options.plot)
    if options.json:
        result = {
            "runs": [
                {
                    "run": str(run),
                    "name": name,
                    "method": subjects[name].config.method,
                    "transduction": subjects[name].transduction(options.batch_norm),
                    "batch_norm": subjects[name].batch_norm(options.batch_norm),
                    "accuracy": evaluations[name].mean.value,
                    "ci95": evaluations[name].mean.ci95,
                    "seconds": evaluations[name].seconds,
                }
                for name, run in zip(names, options.runs, strict=True)
            ],
            "differences": [
                {
                    "better": pair.better,
                    "worse": pair.worse,
                    "difference": pair.difference.value,
                    "ci95": pair.difference.ci95,
                    "clear": pair.clear,
                }
                for pair in differences
            ],
            "way": options.episode.way,
            "shot": options.episode.shot,
            "query": options.episode.query,
            "episodes": options.episodes,
            "batch_norm": options.batch_norm,
            "data": first.data,
            "split": options.split,
            "seed": options.seed,
        }
        result.update(asdict(options.episode))  # the rest of what an episode is made of
        print(json.dumps(result))
        return 0
    width = max(map(len, names))
    print(describe(options, first))
    for name, evaluation in sorted(evaluations.items(), key=lambda item: -item[1].mean.value):
        subject = subjects[name]
        transduction = subject.transduction(options.batch_norm)
        print(f"  {name:<{width}}  {evaluation.mean}  {subject.config.method}, transduction {transduction}")
    print("differences, episode by episode")
    for pair in differences:
        difference = percent(pair.difference.value, pair.difference.ci95, sign="+")
        verdict = "clear" if pair.clear else "within chance"
        print(f"  {pair.better:<{width}} over {pair.worse:<{width}}  {difference}  {verdict}")
    return 0


def distinct_names(runs: tuple[Path, ...]) -> list[str]:
    """What to call the runs: the names of their folders or, where two are alike, their whole paths."""
    if len({run.resolve() for run in runs}) < len(runs):
        raise TPNError("A run folder is named twice: compare different ones.")
    times = Counter(run.name for run in runs)
    return [run.name if times[run.name] == 1 else str(run) for run in runs]
