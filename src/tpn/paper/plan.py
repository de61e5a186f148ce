"""From an experiment to jobs: which trainings it needs, and which tests of each."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tpn.images.split import Images
from tpn.paper.budget import Budget
from tpn.paper.job import Computing, Job
from tpn.paper.recipe import Cell, Experiment, Test, Training
from tpn.runs.folder import RunConfig


@dataclass(frozen=True)
class Plan:
    """The jobs of an experiment. Cells that share a training share its job."""

    jobs: dict[str, Job]
    """By name."""
    of_cell: dict[Cell, tuple[str, ...]]
    """The job that each cell comes from; several for a mean over divisions into labelled and unlabelled images."""


def plan(
    experiment: Experiment,
    budget: Budget,
    images: Images,
    out: Path,
    seed: int = 0,
    class_seed: int = 0,
    computing: Computing = Computing(),  # noqa: B008
) -> Plan:
    """The jobs of an experiment on these images, in the order of its cells."""
    assert budget.test_episodes is not None
    assert budget.splits is not None
    tests: dict[str, dict[Test, None]] = {}
    configs: dict[str, RunConfig] = {}
    of_cell: dict[Cell, tuple[str, ...]] = {}
    for cell in experiment.cells:
        trainings = [cell.training.split(seed) for seed in range(budget.splits)] if cell.of_splits else [cell.training]
        names = []
        for training in trainings:
            config = configure(training, budget, images, seed, class_seed)
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


def configure(training: Training, budget: Budget, images: Images, seed: int, class_seed: int) -> RunConfig:
    """The settings of the run that a training is within a budget."""
    return RunConfig.on(
        images,
        method=training.method,
        settings=budget.settings(training),
        episode=training.episode,
        class_seed=class_seed,
        seed=seed,
    )


def name_of(config: RunConfig) -> str:
    """tpn-5way-5shot-15query-1f2e3d4c: what is trained, and a digest of all that decides the outcome."""
    content = asdict(replace(config, data="", init=None))
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
    setting = config.episode
    distractors = f"-{setting.distractors}distractors" if setting.distractors else ""
    split = f"-split{setting.split_seed}" if setting.unlabelled else ""
    shape = f"{setting.way}way-{setting.shot}shot-{setting.query}query{distractors}{split}"
    return f"{config.method}-{shape}-{digest}"
