"""What a report is made from."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tpn.paper.budget import BUDGETS, Budget
from tpn.paper.experiments import EXPERIMENTS
from tpn.paper.measured import Results
from tpn.paper.plan import Plan
from tpn.paper.recipe import Experiment

NOT_YET, FAILED = "—", "failed"
NAMES = {"mini-imagenet": "miniImageNet", "tiered-imagenet": "tieredImageNet", "quickdraw": "QuickDraw drawings"}


@dataclass(frozen=True)
class Report:
    """An experiment, how it was run, and its results."""

    experiment: Experiment
    budget: Budget
    budget_name: str
    source: str
    """Where the images come from, such as folder:PATH."""
    image_size: int
    plan: Plan
    results: Results
    failures: dict[str, str]
    """Why each failed job failed."""
    command: str

    @property
    def data(self) -> str:
        """The kind of source, such as folder."""
        return self.source.partition(":")[0]

    @property
    def name(self) -> str:
        """The name of its files: table1-quickdraw-quick, and what differs from the defaults."""
        parts = [self.experiment.name, self.data, self.budget_name]
        if self.data == "folder":
            parts.insert(2, Path(self.source.partition(":")[2]).name)
        if self.changes:
            parts.append(hashlib.sha256(json.dumps(self.changes, sort_keys=True).encode()).hexdigest()[:6])
        seeds = {job.config.seed for job in self.plan.jobs.values()} - {0}
        parts += [f"seed-{seed}" for seed in seeds]
        if self.experiment.methods != EXPERIMENTS.get(self.experiment.name, self.experiment).methods:
            parts += self.experiment.methods
        return "-".join(parts)

    @property
    def changes(self) -> dict[str, Any]:
        """The settings that differ from the budget of this name."""
        named, used = asdict(BUDGETS[self.budget_name]), asdict(self.budget)
        return {name: value for name, value in used.items() if value != named[name]}

    @property
    def budget_title(self) -> str:
        """The budget in words, such as: quick budget, with test episodes 600."""
        changed = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.changes.items())
        start = f" (warm start, {self.length})" if self.plan.start else ""
        return f"{self.budget_name} budget{start}{f', with {changed}' if changed else ''}"

    @property
    def length(self) -> str:
        """How long each system is trained, in words."""
        budget = self.budget
        if budget.train_images is not None and budget.episodes is None:
            return f"{budget.train_images:,} training images"
        return "episodes as in each recipe" if budget.episodes is None else f"{budget.episodes:,} episodes"

    @property
    def same_data(self) -> bool:
        """Whether the published numbers were measured on the same dataset."""
        return self.data == self.experiment.data

    @property
    def data_title(self) -> str:
        """The name of the dataset."""
        return NAMES.get(self.data, self.data)
