"""tpn splits: the semi-supervised protocol, on several divisions into labelled and unlabelled images."""

import json
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tpn.cli.parsing import Flag
from tpn.cli.train import (
    AnyConfig,
    AnySetting,
    Train,
    configure,
    default_folder,
    exit_code,
    read_options,
    split_method,
)
from tpn.episodes.episode_sampler import EpisodeSampler
from tpn.episodes.setting import Setting
from tpn.errors import TPNError
from tpn.evaluation.intervals import percent
from tpn.evaluation.protocol import check_setting
from tpn.files import make_folder, read_json, write_json
from tpn.images.split import Images
from tpn.methods._registry import build_method, find_method
from tpn.progress import progress, say
from tpn.runs.folder import Run, RunConfig
from tpn.runs.settings_json import from_json
from tpn.training.preflight import carry_out, check
from tpn.training.splits import TEST_SEED, Summary, runs_of_splits, summarise

TEST_UNLABELLED = 20
MOST_SPLITS = 1000


@dataclass(frozen=True)
class Plan:
    """What a folder of such trainings is for: splits.json."""

    first_split: int
    splits: int
    test_shots: tuple[int, ...]
    test_unlabelled: int | None
    test_episodes: int


@dataclass(frozen=True, kw_only=True)
class Splits(Train[AnyConfig, AnySetting]):
    """Train a method on several divisions of the training images into labelled and unlabelled ones, test all of them,
    and report the mean accuracy and its standard error over the divisions: the protocol of semi-supervised methods.

    Each division is a run of its own in --out, as `tpn train` would make it with --split-seed 0, 1, 2, ...; what came
    out is in results.json beside them. Ctrl-C saves and ends; `--resume` goes on exactly where it was.
    """

    out: Path | None = None
    """The folder for the runs and results.json; if not given, one in runs/ named after the settings."""
    splits: int = 10
    """How many divisions, from --split-seed on."""
    test_shots: tuple[int, ...] = (1, 5)
    """The numbers of labelled images of each class to test with."""
    test_unlabelled: int | None = None
    """Unlabelled images of each class (and of each distractor class) in testing; if not given, 20, or none after a
    training without any."""
    test_episodes: int = 600
    """How many episodes each test has."""
    json: Flag = False
    """Print one JSON object instead of text."""

    @property
    def first_run(self) -> Path:
        assert self.out is not None
        plan = read_plan(self.out)
        return self.out / f"split-{self.episode.split_seed if plan is None else plan.first_split}"

    @property
    def remembered(self) -> dict[str, Any]:
        assert self.out is not None
        plan = read_plan(self.out)
        return {} if plan is None else {name: value for name, value in vars(plan).items() if name != "first_split"}


def main(arguments: list[str]) -> int:
    name, arguments = split_method(Splits, "tpn splits", arguments)
    options = read_options(Splits, f"tpn splits {name}", name, arguments)
    check_options(options)
    machine = options.prepare()
    machine.check_alone("tpn splits")
    images, config = configure(name, options)
    folder = options.out or Path(f"{default_folder(config)}-splits")
    check_folder(folder, options.resume)
    settings = test_settings(config, options, images)
    runs = runs_of_splits(folder, config, options.splits)
    for run, of_run in runs.values():
        check(run, of_run, options.resume, images, machine)
    write_plan(folder, options)
    for run, of_run in runs.values():
        outcome = carry_out(run, of_run, images, machine)
        if outcome.stopped_by is not None:
            say(f"Stopped and saved. Go on with: tpn splits {name} --out {shlex.quote(str(folder))} --resume")
            return exit_code(outcome)
    with progress("testing", len(runs) * len(settings), "tests") as advance:
        done = {seed: run for seed, (run, _) in runs.items()}
        summaries = summarise(done, images, settings, options.test_episodes, machine.device, advance)
    tell(summaries, settings, config, options, folder)
    return 0


def check_options(options: Splits[Any, Setting]) -> None:
    """Refuse what makes no sense, by the names that the options have here."""
    if not 1 <= options.splits <= MOST_SPLITS:
        raise TPNError(f"--splits must be at least 1 and at most {MOST_SPLITS}, not {options.splits}.")
    shots = options.test_shots
    if not shots or len(set(shots)) < len(shots) or min(shots) < 1:
        raise TPNError("--test-shots must be one or more different numbers of at least 1.")
    if options.test_episodes < 1:
        raise TPNError(f"--test-episodes must be at least 1, not {options.test_episodes}.")
    if options.test_unlabelled is not None and options.test_unlabelled < 0:
        raise TPNError(f"--test-unlabelled must be at least 0, not {options.test_unlabelled}.")
    if options.test_unlabelled == 0 and options.episode.distractors:
        raise TPNError("--distractors are unlabelled images: --test-unlabelled must be at least 1.")
    share = options.episode.labelled_share
    if share == 1 or (share is None and not options.episode.unlabelled):
        raise TPNError(
            "Nothing is divided into labelled and unlabelled images, so all trainings would be the same: give "
            "--unlabelled, or a --labelled-share below 1."
        )


def check_folder(folder: Path, resume: bool) -> None:
    """Refuse a folder that is something else, or that is there already. Nothing is ever overwritten."""
    if folder.exists() and not folder.is_dir():
        raise TPNError(f"{folder} is a file. Choose another --out.")
    if Run(folder).exists:
        raise TPNError(f"{folder} is the folder of a single run. Choose another --out.")
    if (folder / "splits.json").exists() and not resume:
        raise TPNError(f"{folder} holds such trainings already. Continue them with --resume, or choose another --out.")
    if (folder / "results.json").exists() and not (folder / "splits.json").exists():
        raise TPNError(f"{folder} has a results.json of something else. Choose another --out.")


def write_plan(folder: Path, options: Splits[Any, Setting]) -> None:
    """Write down what the folder is for, so that resuming needs no more than its name."""
    make_folder(folder)
    plan = Plan(
        first_split=options.episode.split_seed,
        splits=options.splits,
        test_shots=options.test_shots,
        test_unlabelled=options.test_unlabelled,
        test_episodes=options.test_episodes,
    )
    write_json(folder / "splits.json", asdict(plan))


def read_plan(folder: Path) -> Plan | None:
    """What `write_plan` has written, if anything."""
    file = folder / "splits.json"
    if not file.is_file():
        return None
    try:
        return from_json(Plan, read_json(file))
    except TPNError as failure:
        raise TPNError(f"{file} is damaged: {failure}") from failure


def test_settings(config: RunConfig, options: Splits[Any, Setting], images: Images) -> list[Setting]:
    """What the episodes of the tests are made of. Refuses, before any training, what cannot be tested."""
    method = build_method(config.method, config.settings, config.dimensions)
    unlabelled = options.test_unlabelled
    if unlabelled is None:
        unlabelled = TEST_UNLABELLED if config.episode.unlabelled else 0
    settings = [replace(config.episode, shot=shot, unlabelled=unlabelled) for shot in options.test_shots]
    for setting in settings:
        check_setting(method, setting)
        EpisodeSampler(images.split("test"), setting, TEST_SEED)
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
        print(f"  {replace(setting, split_seed=0)}")
        print(f"    accuracy  {percent(summary.accuracy, summary.standard_error)}{error}: {each}")
    say(f"The runs and results.json are in {folder}.")
