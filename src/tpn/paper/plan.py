"""From an experiment to jobs: the trainings it needs, and the tests of each."""

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tpn.backbones._registry import check_backbone
from tpn.episodes.setting import Setting
from tpn.images.split import Images
from tpn.methods._adaptation import Adapting
from tpn.methods._config import ClassifierConfig, Config
from tpn.methods._method import Method
from tpn.methods._registry import find_method
from tpn.paper.budget import Budget
from tpn.paper.first_stage import (
    Start,
    backbone_for,
    first_stage_tests,
    given_start,
    pretrained_for,
)
from tpn.paper.job import Computing, Job
from tpn.paper.recipe import Cell, Experiment, Test, Training
from tpn.paper.two_stages import KEEP_BACKBONE, WARM_START, first_stage
from tpn.runs.config import RunConfig


@dataclass(frozen=True)
class Plan:
    """The jobs of an experiment. Cells with the same training share its job."""

    jobs: dict[str, Job]
    """The jobs by name."""
    of_cell: dict[Cell, tuple[str, ...]]
    """The name of the job of each cell; several for a mean over partitions into labelled and unlabelled images."""
    first: dict[str, Job] = field(default_factory=dict)
    """The jobs of first stages, to be done before the others."""
    start: str = ""
    """What all systems start with, in words; empty if they start from scratch."""


def plan(
    experiment: Experiment,
    budget: Budget,
    images: Images,
    out: Path,
    seed: int = 0,
    class_seed: int = 0,
    computing: Computing = Computing(),  # noqa: B008
) -> Plan:
    """Return the jobs of an experiment on these images, in the order of its cells."""
    budget = budget.starting_with(experiment.init)
    assert budget.test_episodes is not None
    assert budget.splits is not None
    tests: dict[str, dict[Test, None]] = {}
    configs: dict[str, RunConfig] = {}
    of_cell: dict[Cell, tuple[str, ...]] = {}
    starts = Starts(budget, images, out, seed, class_seed, computing)
    for cell in experiment.cells:
        trainings = [cell.training]
        if cell.over_partitions:
            trainings = [cell.training.partition(number) for number in range(budget.splits)]
        names = []
        for training in trainings:
            settings = settings_for(training, budget)
            start = starts.find(settings.backbone)
            config = RunConfig.on(
                images,
                method=training.method,
                settings=settings,
                episode=training.episode,
                class_seed=class_seed,
                seed=seed,
                init=None if start is None else start.folder,
                init_weights="" if start is None else start.weights,
            )
            name = name_of(config)
            configs[name] = config
            tests.setdefault(name, {})[cell.test] = None
            names.append(name)
        of_cell[cell] = tuple(names)
    jobs = {
        name: Job(name, str(out.resolve()), config, tuple(tests[name]), test_episodes(config, budget), computing)
        for name, config in configs.items()
    }
    return Plan(jobs, of_cell, starts.jobs, starts.description)


class Starts:
    """The first stages of an experiment, one for each backbone, found or planned when they are first needed."""

    def __init__(
        self, budget: Budget, images: Images, out: Path, seed: int, class_seed: int, computing: Computing
    ) -> None:
        self._budget, self._images, self._out, self._computing = budget, images, out, computing
        self._seeds = {"seed": seed, "class_seed": class_seed}
        self._found: dict[str, Start] = {}
        self.jobs: dict[str, Job] = {}

    def find(self, own: str) -> Start | None:
        """Return the run that systems with this backbone start with, if the budget has them start with one."""
        if self._budget.init is None:
            return None
        backbone = pretrained_for(own, self._budget.init)
        if backbone not in self._found:
            given = given_start(self._budget.init, self._images, backbone)
            self._found[backbone] = given or self._plan(backbone)
        return self._found[backbone]

    def _plan(self, backbone: str) -> Start:
        """Plan the training of a first stage."""
        training = first_stage(backbone, self._images.image_size)
        settings = find_method(training.method).Config(**dict(training.settings))
        config = RunConfig.on(
            self._images, method=training.method, settings=settings, episode=training.episode, **self._seeds
        )
        name, episodes = name_of(config), self._budget.test_episodes
        assert episodes is not None
        job = Job(name, str(self._out.resolve()), config, first_stage_tests(), episodes, self._computing)
        self.jobs[name] = job
        return Start(str(job.run.folder), "")

    @property
    def description(self) -> str:
        """The first stages in words."""
        return ", ".join(Path(start.folder).name for start in self._found.values())


def test_episodes(config: RunConfig, budget: Budget) -> int:
    """Return the number of test episodes: fewer, if the budget says so, for a method that adapts its network."""
    assert budget.test_episodes is not None
    adapts = find_method(config.method).embed is Method.embed
    return (budget.adapting_test_episodes if adapts else None) or budget.test_episodes


def train_images(training: Training, budget: Budget) -> int | None:
    """Return the number of training images: fewer, if the budget says so, for a method that takes steps in a task."""
    takes_steps = issubclass(find_method(training.method), Adapting)
    return (budget.adapting_train_images if takes_steps else None) or budget.train_images


def settings_for(training: Training, budget: Budget) -> Config:
    """Return the settings of a training within a budget."""
    own = dict(training.settings)
    if budget.init is not None:
        own = {**KEEP_BACKBONE, **WARM_START.get(training.method, {}), **own}
    for name in ("episodes", "schedule", "validation_episodes", "patience"):
        if getattr(budget, name) is not None:
            own[name] = getattr(budget, name)
    if budget.resnet is not None and str(own.get("backbone", "")).startswith("resnet"):
        own["backbone"] = budget.resnet
    settings = find_method(training.method).Config(**own)
    if budget.init is not None:
        settings = replace(settings, backbone=backbone_for(settings.backbone, budget.init))
    images = train_images(training, budget)
    if images is not None and budget.episodes is None:
        settings = replace(settings, episodes=max(1, images // images_in(training.episode, settings)))
    check_backbone(settings.backbone, settings.drop_block)
    if budget.validations is None:
        return settings
    every = -(-settings.episodes // budget.validations)
    patience = settings.patience
    if budget.patience is None and patience:  # the same number of episodes as before
        patience = max(1, patience * settings.validate_every // every)
    return replace(settings, validate_every=every, patience=patience)


def images_in(episode: Setting, settings: Config) -> int:
    """Return the number of images in a training episode, or in a mini-batch."""
    if isinstance(settings, ClassifierConfig):
        return settings.batch_size
    return episode.images


def name_of(config: RunConfig) -> str:
    """Return a name such as tpn-5way-5shot-15query-1f2e3d4c, with a digest of all that determines the outcome.

    Settings with their default values are left out, so that a new setting does not orphan the results of earlier
    versions; `read_result` notices results whose defaults have changed since.
    """
    content = asdict(replace(config, data="", init=None))
    content |= {"settings": _chosen(config.settings), "episode": _chosen(config.episode)}
    if config.init is not None and not config.init_weights:
        content["init"] = Path(config.init).name  # a first stage of the same experiment
    del content["began_as"]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
    setting = config.episode
    distractors = f"-{setting.distractors}distractors" if setting.distractors else ""
    partition = f"-split{setting.split_seed}" if setting.unlabelled else ""
    shape = f"{setting.way}way-{setting.shot}shot-{setting.query}query{distractors}{partition}"
    return f"{config.method}-{shape}-{digest}"


def _chosen(settings: Config | Setting) -> dict[str, Any]:
    """Return the settings that differ from their defaults."""
    return {
        field.name: value for field in fields(settings) if (value := getattr(settings, field.name)) != field.default
    }
