"""The semi-supervised protocol: train and test on several partitions into labelled and unlabelled images."""

import shlex
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tpn.digests import check_digest, with_digest
from tpn.episodes.episode_sampler import MOST_EPISODES, EpisodeSampler
from tpn.episodes.setting import TEST_SEED, Setting
from tpn.errors import Interrupted, TPNError
from tpn.evaluation.intervals import Mean, percent, standard_error
from tpn.evaluation.subject import Subject
from tpn.files import make_folder, read_json, write_json
from tpn.images.split import Images
from tpn.methods._method import Method, check_way_and_shot
from tpn.methods._registry import find_method
from tpn.progress import progress as progress_bar
from tpn.progress import showing
from tpn.results import Result
from tpn.runs.config import RunConfig
from tpn.runs.folder import Run
from tpn.runs.loading import load_run
from tpn.runs.settings_json import from_json
from tpn.training.device import computing
from tpn.training.preflight import check, train_in_folder
from tpn.training.setup import Training
from tpn.workflows.keywords import build, takes
from tpn.workflows.options import SplitsOptions, TrainingDeviceOptions, TrainOptions
from tpn.workflows.train import configure, find_execution

TEST_UNLABELLED = 20
MOST_SPLITS = 1000


@dataclass(frozen=True)
class Plan:
    """The protocol of a folder of runs, as splits.json stores it."""

    first_split: int
    splits: int
    test_shots: tuple[int, ...]
    test_unlabelled: int | None
    test_episodes: int


@dataclass(frozen=True)
class PartitionTest:
    """Tests in one setting of the runs of several partitions."""

    setting: Setting
    tests: dict[int, Mean]
    """Seed of the partition -> accuracy over the test episodes, with its 95 % interval."""

    @property
    def accuracy(self) -> float:
        """The mean over the partitions."""
        return float(np.mean([test.value for test in self.tests.values()]))

    @property
    def standard_error(self) -> float | None:
        """The standard error of that mean over the partitions."""
        return standard_error(np.array([test.value for test in self.tests.values()]))


@dataclass(frozen=True)
class SplitsResult(Result):
    """Mean accuracy and standard error over several partitions into labelled and unlabelled images."""

    folder: Path
    config: RunConfig
    splits: int
    test_episodes: int
    tests: list[PartitionTest]

    def to_dict(self) -> dict[str, Any]:
        names = ("way", "shot", "query", "unlabelled", "distractors")
        return {
            "method": self.config.method,
            "transduction": find_method(self.config.method).info.transduction,
            "data": self.config.data,
            "split": "test",
            "splits": self.splits,
            "episodes": self.test_episodes,
            "training": asdict(self.config.episode) | {"episodes": self.config.settings.episodes},
            "tests": [
                {
                    "accuracy": test.accuracy,
                    "standard_error": test.standard_error,
                    **{name: getattr(test.setting, name) for name in names},
                    "of_each_split": {seed: mean.value for seed, mean in test.tests.items()},
                }
                for test in self.tests
            ],
        }

    def rows(self) -> list[dict[str, Any]]:
        tests = self.to_dict()["tests"]
        return [{name: value for name, value in test.items() if name != "of_each_split"} for test in tests]

    def summary(self) -> str:
        transduction = find_method(self.config.method).info.transduction
        lines = [
            f"{self.config.method} (transduction {transduction}) on {self.config.data}, trained on {self.splits} "
            f"partition(s), {self.test_episodes} episodes"
        ]
        for test in self.tests:
            each = ", ".join(percent(mean.value, None) for mean in test.tests.values())
            error = "" if test.standard_error is None else "  (standard error over the partitions)"
            lines.append(f"  {replace(test.setting, split_seed=0)}")
            lines.append(f"    accuracy  {percent(test.accuracy, test.standard_error)}{error}: {each}")
        return "\n".join(lines)


@takes(SplitsOptions, Setting)
def train_splits(
    method: str | type[Method] | None = None,
    data: str | Images | None = None,
    *,
    progress: bool = True,
    **options: Any,
) -> SplitsResult:
    """Train a method on several partitions of the training images into labelled and unlabelled ones, and test each.

    This is the protocol of semi-supervised few-shot learning: the mean accuracy over the partitions, with its standard
    error. Each partition is a run of its own in `out`, as `tpn.train` would make it with split_seed 0, 1, 2, …; the
    outcome is in results.json beside them. With `resume=True` it continues exactly where it was.

    Parameters
    ----------
    method : str or subclass of Method, default="tpn"
        As in `tpn.train`; the method's own settings are keywords too.
    data : str or Images, default="quickdraw"
        As in `tpn.train`.
    progress : bool, default=True
        Show a progress bar.
    {options}

    Returns
    -------
    SplitsResult
    """
    given = dict(options)
    where = build(TrainingDeviceOptions, given)
    with showing(progress), computing(where.threads, where.device) as device:
        execution = find_execution(device, where)
        execution.check_alone("tpn splits")
        plan = plan_of(given)
        images, run, config, resume = configure(method, data, given, "train_splits", first_run)
        folder = run.folder if "out" in options and options["out"] is not None else Path(f"{run.folder}-splits")
        check_options(plan, config.episode)
        check_folder(folder, resume)
        plan = replace(plan, first_split=config.episode.split_seed)
        runs = runs_of_splits(folder, config, plan.splits)
        settings = test_settings(config, images, plan)
        for run, of_run in runs.values():
            check(run, of_run, execution, resume)
        make_folder(folder)
        write_json(folder / "splits.json", with_digest(asdict(plan)))
        for run, of_run in runs.values():
            outcome = train_in_folder(Training.build(run, of_run, images, execution))
            if outcome.stopped_by is not None:
                command = f"tpn splits {config.method} --out {shlex.quote(str(folder))} --resume"
                raise Interrupted(f"Stopped and saved. Continue with: {command}", outcome.stopped_by)
        tests = [PartitionTest(setting, {}) for setting in settings]
        with progress_bar("testing", len(runs) * len(settings), "tests") as advance, showing(False):
            for seed, (run, of_run) in runs.items():
                subject = Subject(load_run(run, of_run).to(device), images.spec, images.split("test"), of_run)
                for test, outcome_of in zip(tests, subject.test(settings, plan.test_episodes, TEST_SEED), strict=True):
                    test.tests[seed] = outcome_of.mean
                    advance(1)
    result = SplitsResult(folder, config, plan.splits, plan.test_episodes, tests)
    write_json(folder / "results.json", result.to_dict())
    return result


def first_run(out: Path, setting: Setting) -> Path:
    """Return the run of the first partition, whose settings are used when resuming."""
    plan = read_plan(out)
    return out / f"split-{setting.split_seed if plan is None else plan.first_split}"


def plan_of(given: dict[str, Any]) -> Plan:
    """Take the options of the protocol out of those given; when resuming, the others keep their values."""
    own = {one.name for one in fields(SplitsOptions)} - {one.name for one in fields(TrainOptions)}
    defaults: dict[str, Any] = {one.name: one.default for one in fields(SplitsOptions) if one.name in own}
    if given.get("resume") and given.get("out") is not None and (before := read_plan(Path(given["out"]))) is not None:
        defaults |= {name: value for name, value in vars(before).items() if name in own}
    taken = {name: given.pop(name) for name in own if name in given}
    plan = {**defaults, **taken}
    return Plan(first_split=0, **{**plan, "test_shots": tuple(plan["test_shots"])})


def check_options(plan: Plan, episode: Setting) -> None:
    """Refuse invalid options of the protocol."""
    if not 1 <= plan.splits <= MOST_SPLITS:
        raise TPNError(f"--splits must be at least 1 and at most {MOST_SPLITS}, not {plan.splits}.")
    shots = plan.test_shots
    if not shots or len(set(shots)) < len(shots) or min(shots) < 1:
        raise TPNError("--test-shots must be one or more different numbers of at least 1.")
    if plan.test_episodes < 1:
        raise TPNError(f"--test-episodes must be at least 1, not {plan.test_episodes}.")
    if plan.test_episodes > MOST_EPISODES:
        raise TPNError(f"--test-episodes must be at most {MOST_EPISODES}, not {plan.test_episodes}.")
    if plan.test_unlabelled is not None and plan.test_unlabelled < 0:
        raise TPNError(f"--test-unlabelled must be at least 0, not {plan.test_unlabelled}.")
    if plan.test_unlabelled == 0 and episode.distractors:
        raise TPNError("--distractors are unlabelled images: --test-unlabelled must be at least 1.")
    share = episode.labelled_share
    if share == 1 or (share is None and not episode.unlabelled):
        raise TPNError(
            "All images have labels, so all trainings would be the same: give --unlabelled, or a --labelled-share "
            "below 1."
        )


def check_folder(folder: Path, resume: bool) -> None:
    """Refuse a folder with other content or, without --resume, with earlier runs. Nothing is ever overwritten."""
    if folder.exists() and not folder.is_dir():
        raise TPNError(f"{folder} is a file. Choose another --out.")
    if Run(folder).exists:
        raise TPNError(f"{folder} is the folder of a single run. Choose another --out.")
    if (folder / "splits.json").exists() and not resume:
        raise TPNError(
            f"{folder} already has runs of this protocol. Continue them with --resume, or choose another --out."
        )
    if (folder / "results.json").exists() and not (folder / "splits.json").exists():
        raise TPNError(f"{folder} has a results.json of something else. Choose another --out.")


def read_plan(folder: Path) -> Plan | None:
    """Read splits.json, if the folder has one."""
    file = folder / "splits.json"
    if not file.is_file():
        return None
    content = check_digest(read_json(file), file)
    try:
        return from_json(Plan, content)
    except TPNError as failure:
        raise TPNError(f"{file} is damaged: {failure}") from failure


def runs_of_splits(folder: Path, config: RunConfig, splits: int) -> dict[int, tuple[Run, RunConfig]]:
    """Return the folder and settings of the run of each partition, by seed, starting with the seed in `config`."""
    first = config.episode.split_seed
    return {
        seed: (Run(folder / f"split-{seed}"), replace(config, episode=replace(config.episode, split_seed=seed)))
        for seed in range(first, first + splits)
    }


def test_settings(config: RunConfig, images: Images, plan: Plan) -> list[Setting]:
    """Return the settings of the tests; refuse, before any training, settings that cannot be tested."""
    unlabelled = plan.test_unlabelled
    if unlabelled is None:
        unlabelled = TEST_UNLABELLED if config.episode.unlabelled else 0
    settings = [replace(config.episode, shot=shot, unlabelled=unlabelled) for shot in plan.test_shots]
    for setting in settings:
        check_way_and_shot(find_method(config.method).info, config.dimensions, setting.way, [setting.shot])
        EpisodeSampler(images.split("test"), setting, TEST_SEED)
    return settings
