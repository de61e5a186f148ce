"""What a report is about."""

from dataclasses import dataclass

from tpn.images import Images
from tpn.paper.budget import Budget
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
        """The kind of source that the pictures come from."""
        return self.images.spec.partition(":")[0]

    @property
    def name(self) -> str:
        """Of its files: table1-quickdraw-quick, with the methods if it is not about all."""
        whole, chosen = EXPERIMENTS.get(self.experiment.name, self.experiment), self.experiment.methods
        some = f"-{'-'.join(chosen)}" if chosen != whole.methods else ""
        return f"{self.experiment.name}-{self.data}-{self.budget_name}{some}"

    @property
    def same_data(self) -> bool:
        """Are the published numbers about these pictures?"""
        return self.data == self.experiment.data

    @property
    def pictures(self) -> str:
        """What they are called."""
        return NAMES.get(self.data, self.data)
