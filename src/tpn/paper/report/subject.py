"""What a report is about."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tpn.images.split import Images
from tpn.paper.budget import BUDGETS, Budget
from tpn.paper.experiments import EXPERIMENTS
from tpn.paper.plan import Plan
from tpn.paper.recipe import Experiment
from tpn.paper.results import Results

NOT_YET, FAILED = "—", "failed"
NAMES = {"mini-imagenet": "miniImageNet", "tiered-imagenet": "tieredImageNet", "quickdraw": "QuickDraw drawings"}


@dataclass(frozen=True)
class Report:
    """All that there is to report on."""

    experiment: Experiment
    budget: Budget
    budget_name: str
    images: Images
    plan: Plan
    results: Results
    failures: dict[str, str]
    command: str

    @property
    def data(self) -> str:
        """The kind of source that the images come from."""
        return self.images.spec.partition(":")[0]

    @property
    def name(self) -> str:
        """Of its files: table1-quickdraw-quick, and what is other than usual."""
        parts = [self.experiment.name, self.data, self.budget_name]
        if self.data == "folder":
            parts.insert(2, Path(self.images.spec.partition(":")[2]).name)
        if self.changes:
            parts.append(hashlib.sha256(json.dumps(self.changes, sort_keys=True).encode()).hexdigest()[:6])
        seeds = {job.config.seed for job in self.plan.jobs.values()} - {0}
        parts += [f"seed-{seed}" for seed in seeds]
        if self.experiment.methods != EXPERIMENTS.get(self.experiment.name, self.experiment).methods:
            parts += self.experiment.methods
        return "-".join(parts)

    @property
    def changes(self) -> dict[str, Any]:
        """The settings in which the budget is not as its name says."""
        named, used = asdict(BUDGETS[self.budget_name]), asdict(self.budget)
        return {name: value for name, value in used.items() if value != named[name]}

    @property
    def budget_title(self) -> str:
        """quick budget, with test episodes 600."""
        changed = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.changes.items())
        return f"{self.budget_name} budget{f', with {changed}' if changed else ''}"

    @property
    def same_data(self) -> bool:
        """Are the published numbers about these images?"""
        return self.data == self.experiment.data

    @property
    def data_title(self) -> str:
        """What they are called."""
        return NAMES.get(self.data, self.data)
