"""How much an experiment may cost: as in the paper, or what a processor can do."""

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from tpn.errors import TPNError
from tpn.methods._config import Config
from tpn.methods._registry import find_method
from tpn.paper.recipe import Training

MOST_SPLITS = 1000
Schedule = Literal["halve", "linear", "step", "cosine"]


@dataclass(frozen=True)
class Budget:
    """What an experiment may cost: the same for all its systems. Where it says nothing, a recipe is as in the paper."""

    image_size: int | None = None
    """Scale the images to so many pixels in height and width (quick: 28; full: 84)."""
    episodes: int | None = None
    """Training episodes of every system (quick: 100; full: as each recipe says, up to 500,000)."""
    schedule: Schedule | None = None
    """How the learning rate falls (quick: linear, for all; full: as for each system)."""
    validations: int | None = None
    """Validate so many times, evenly spread (quick: twice; full: as for each system)."""
    validation_episodes: int | None = None
    """Episodes in a validation (quick: 10; full: 100)."""
    patience: int | None = None
    """Stop when so many validations have brought nothing (quick: never; full: as for each system)."""
    test_episodes: int | None = None
    """Episodes in a test (quick: 60; full: 600)."""
    splits: int | None = None
    """Divisions into labelled and unlabelled images in semi-supervised tables (quick: 3; full: 10)."""
    resnet: str | None = None
    """The backbone of the ResNet table (quick: resnet12-16; full: resnet12)."""

    def __post_init__(self) -> None:
        for name in ("episodes", "validations", "validation_episodes", "test_episodes", "splits"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise TPNError(f"--{name.replace('_', '-')} must be at least 1, not {value}.")
        if self.splits is not None and self.splits > MOST_SPLITS:
            raise TPNError(f"--splits must be at most {MOST_SPLITS}, not {self.splits}.")

    def changed(self, **given: Any) -> "Budget":
        """The same, but for what is given."""
        known = {field.name for field in fields(self)}
        return replace(self, **{name: value for name, value in given.items() if name in known and value is not None})

    def settings(self, training: Training) -> Config:
        """The settings of a training."""
        own = dict(training.settings)
        for name in ("episodes", "schedule", "validation_episodes", "patience"):
            if getattr(self, name) is not None:
                own[name] = getattr(self, name)
        if self.resnet is not None and str(own.get("backbone", "")).startswith("resnet"):
            own["backbone"] = self.resnet
        settings = find_method(training.method).Config(**own)
        if self.validations is None:
            return settings
        every = -(-settings.episodes // self.validations)
        patience = settings.patience
        if self.patience is None and patience:  # as many episodes as before
            patience = max(1, patience * settings.validate_every // every)
        return replace(settings, validate_every=every, patience=patience)


BUDGETS = {
    "full": Budget(test_episodes=600, splits=10),
    "quick": Budget(
        image_size=28,
        episodes=100,
        schedule="linear",
        validations=2,
        validation_episodes=10,
        patience=0,
        test_episodes=60,
        splits=3,
        resnet="resnet12-16",
    ),
}
