"""From an experiment to jobs: the trainings it needs, and the tests of each."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tpn.backbones._registry import check_backbone
from tpn.images.split import Images
from tpn.methods._config import Config
from tpn.methods._registry import find_method
from tpn.paper.budget import Budget
from tpn.paper.job import Computing, Job
from tpn.paper.recipe import Cell, Experiment, Test, Training
from tpn.runs.config import RunConfig


@dataclass(frozen=True)
class Plan:
    """The jobs of an experiment. Cells with the same training share its job."""

    jobs: dict[str, Job]
    """The jobs by name."""
    of_cell: dict[Cell, tuple[str, ...]]
    """The name of the job of each cell; several for a mean over partitions into labelled and unlabelled images."""


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
    assert budget.test_episodes is not None
    assert budget.splits is not None
    tests: dict[str, dict[Test, None]] = {}
    configs: dict[str, RunConfig] = {}
    of_cell: dict[Cell, tuple[str, ...]] = {}
    for cell in experiment.cells:
        trainings = [cell.training]
        if cell.over_partitions:
            trainings = [cell.training.partition(number) for number in range(budget.splits)]
        names = []
        for training in trainings:
            config = RunConfig.on(
                images,
                method=training.method,
                settings=settings_for(training, budget),
                episode=training.episode,
                class_seed=class_seed,
                seed=seed,
            )
            name = name_of(config)
            configs[name] = config
            tests.setdefault(name, {})[cell.test] = None
            names.append(name)
        of_cell[cell] = tuple(names)
    jobs = {
        name: Job(name, str(out.resolve()), config, tuple(tests[name]), budget.test_episodes, computing)
        for name, config in configs.items()
    }
    return Plan(jobs, of_cell)


def settings_for(training: Training, budget: Budget) -> Config:
    """Return the settings of a training within a budget."""
    own = dict(training.settings)
    for name in ("episodes", "schedule", "validation_episodes", "patience"):
        if getattr(budget, name) is not None:
            own[name] = getattr(budget, name)
    if budget.resnet is not None and str(own.get("backbone", "")).startswith("resnet"):
        own["backbone"] = budget.resnet
    settings = find_method(training.method).Config(**own)
    check_backbone(settings.backbone, settings.drop_block)
    if budget.validations is None:
        return settings
    every = -(-settings.episodes // budget.validations)
    patience = settings.patience
    if budget.patience is None and patience:  # the same number of episodes as before
        patience = max(1, patience * settings.validate_every // every)
    return replace(settings, validate_every=every, patience=patience)


def name_of(config: RunConfig) -> str:
    """Return a name such as tpn-5way-5shot-15query-1f2e3d4c, with a digest of all that determines the outcome."""
    content = asdict(replace(config, data="", init=None))
    del content["began_as"]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
    setting = config.episode
    distractors = f"-{setting.distractors}distractors" if setting.distractors else ""
    partition = f"-split{setting.split_seed}" if setting.unlabelled else ""
    shape = f"{setting.way}way-{setting.shot}shot-{setting.query}query{distractors}{partition}"
    return f"{config.method}-{shape}-{digest}"
