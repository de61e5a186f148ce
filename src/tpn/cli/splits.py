"""tpn splits: the semi-supervised protocol, on several divisions into labelled and unlabelled pictures."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tpn.cli.parsing import Flag, say
from tpn.cli.session import check_setting, describe_setting, use_processor
from tpn.cli.train import (
    AnyConfig,
    AnySetting,
    Train,
    carry_out,
    check,
    configure,
    default_folder,
    read_options,
    report,
    split_method,
)
from tpn.episodes import Setting
from tpn.errors import TPNError
from tpn.evaluation.intervals import percent
from tpn.files import write_json
from tpn.images import Images
from tpn.methods import build_method, find_method
from tpn.progress import progress
from tpn.training.run import RunConfig
from tpn.training.splits import Summary, runs_of_splits, summarise


@dataclass(frozen=True, kw_only=True)
class Splits(Train[AnyConfig, AnySetting]):
    """Train a semi-supervised method on several divisions of the training pictures into labelled and unlabelled ones,
    test all of them, and report the mean accuracy and its standard error over the divisions.

    Each division is a run of its own in --out, as `tpn train` would make it with --split-seed 0, 1, 2, ...; what came
    out is in results.json beside them. Ctrl-C saves and ends; `--resume` goes on exactly where it was.
    """

    splits: int = 10
    """How many divisions, from --split-seed on."""
    test_shots: tuple[int, ...] = (1, 5)
    """The numbers of labelled pictures of each class to test with."""
    test_unlabelled: int = 20
    """Unlabelled pictures of each class (and of each distractor class) in testing."""
    test_episodes: int = 600
    """How many episodes each test has."""
    json: Flag = False
    """Print one JSON object instead of text."""

    @property
    def first_run(self) -> Path:
        assert self.out is not None
        return self.out / f"split-{self.episode.split_seed}"


def main(arguments: list[str]) -> int:
    name, arguments = split_method(Splits, "tpn splits", arguments)
    options = read_options(Splits, f"tpn splits {name}", name, arguments)
    if options.splits < 1:
        raise TPNError(f"--splits must be at least 1, not {options.splits}.")
    if not options.test_shots or len(set(options.test_shots)) < len(options.test_shots):
        raise TPNError("--test-shots must be one or more different numbers.")
    if not options.episode.unlabelled:
        raise TPNError("Divisions differ in the pictures that are unlabelled: --unlabelled must be at least 1.")
    use_processor(options.threads)
    images, config = configure(name, options)
    folder = options.out or Path(f"{default_folder(config)}-splits")
    runs = runs_of_splits(folder, config, options.splits)
    settings = test_settings(config, options, images)
    for run, of_run in runs.values():
        check(run, of_run, options.resume, images)
    for run, of_run in runs.values():
        outcome = carry_out(run, of_run, images)
        if outcome.stopped_by is not None:
            return report(outcome, run, of_run)
    with progress("testing", len(runs) * len(settings), "tests") as advance:
        done = {seed: run for seed, (run, _) in runs.items()}
        summaries = summarise(done, images, settings, options.test_episodes, options.seed, advance)
    tell(summaries, settings, config, options, folder)
    return 0


def test_settings(config: RunConfig, options: Splits[Any, Setting], images: Images) -> list[Setting]:
    """What the episodes of the tests are made of. Refuses, before any training, what cannot be tested."""
    from tpn.evaluation.protocol import draw_episodes

    method = build_method(config.method, config.settings, config.dimensions)
    settings = [replace(config.episode, shot=shot, unlabelled=options.test_unlabelled) for shot in options.test_shots]
    for setting in settings:
        check_setting(method, setting)
        draw_episodes(images.split("test"), setting, min(options.test_episodes, 1), options.seed)
    return settings


def tell(
    summaries: list[Summary], settings: list[Setting], config: RunConfig, options: Splits[Any, Setting], folder: Path
) -> None:
    """Write what came out, and show it."""
    result: dict[str, Any] = {
        "method": config.method,
        "transduction": find_method(config.method).info.transduction,
        "data": config.data,
        "split": "test",
        "splits": options.splits,
        "episodes": options.test_episodes,
        "training": asdict(config.episode) | {"episodes": config.settings.episodes},
        "tests": [
            {
                "accuracy": summary.accuracy,
                "standard_error": summary.standard_error,
                "way": setting.way,
                "shot": setting.shot,
                "query": setting.query,
                "unlabelled": setting.unlabelled,
                "distractors": setting.distractors,
                "of_each_split": {seed: test.value for seed, test in summary.tests.items()},
            }
            for summary, setting in zip(summaries, settings, strict=True)
        ],
    }
    write_json(folder / "results.json", result)
    if options.json:
        print(json.dumps(result))
        return
    print(
        f"{config.method} (transduction {result['transduction']}) on {config.data}, trained on {options.splits} "
        f"division(s), {options.test_episodes} episodes"
    )
    for summary, setting in zip(summaries, settings, strict=True):
        each = ", ".join(percent(test.value, None) for test in summary.tests.values())
        error = "" if summary.standard_error is None else "  (standard error over the divisions)"
        print(f"  {describe_setting(replace(setting, split_seed=0))}")
        print(f"    accuracy  {percent(summary.accuracy, summary.standard_error)}{error}: {each}")
    say(f"The runs and results.json are in {folder}.")
