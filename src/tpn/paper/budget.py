"""How much an experiment may cost: as in the paper, or what a CPU can do. Nothing here needs torch."""

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

from tpn.errors import TPNError

MOST_SPLITS = 1000
FIRST_STAGE = "first-stage"
"""As --init: the pre-trained backbone that ships with the package, if it was trained on these images; otherwise a first
stage that is trained before all systems."""
SCRATCH = "scratch"
"""As --init: start from scratch, also where a recipe has two stages."""
MOST_EPISODES = {"episodes": 10**9, "validations": 10**6, "validation_episodes": 10**5, "test_episodes": 10**6}
Schedule: TypeAlias = Literal["halve", "linear", "step", "cosine", "one-cycle"]


@dataclass(frozen=True)
class Budget:
    """What an experiment may cost, the same for all its systems. None stands for the value of each recipe."""

    image_size: int | None = None
    """Resize images to this height and width in pixels (quick: 28; otherwise 84, and 28 for QuickDraw)."""
    init: str | None = None
    """The run whose backbone every system starts with; first-stage: the pre-trained backbone that ships with the
    package, or one that is trained first; scratch: none (cpu: first-stage; quick: scratch; full: as in each recipe)."""
    episodes: int | None = None
    """Training episodes of every system (quick: 100; full: as in each recipe, up to 500,000)."""
    train_images: int | None = None
    """Training images of every system, which determine the number of its episodes unless --episodes is given (cpu:
    20,000)."""
    adapting_train_images: int | None = None
    """Training images of MAML and Reptile, which take several steps in each task and so compute with each image many
    times (cpu: 4,000; otherwise --train-images)."""
    schedule: Schedule | None = None
    """The learning rate schedule of every system (cpu: cosine; otherwise as in each recipe)."""
    validations: int | None = None
    """The number of validations, evenly spaced (quick: 2; cpu: 3; full: as in each recipe)."""
    validation_episodes: int | None = None
    """Episodes in each validation (quick: 10; cpu: 40; full: 100)."""
    patience: int | None = None
    """Stop after this many validations without improvement; 0: never (quick and cpu: 0; full: as in each recipe)."""
    test_episodes: int | None = None
    """Episodes in each test (quick: 60; cpu and full: 600)."""
    adapting_test_episodes: int | None = None
    """Episodes in each test of a method that adapts its network to each task, which takes long (cpu: 200; otherwise
    --test-episodes)."""
    splits: int | None = None
    """Random partitions into labelled and unlabelled images in the semi-supervised tables (quick, cpu: 3; full: 10)."""
    resnet: str | None = None
    """The backbone of the ResNet table (quick and cpu: resnet12-16; full: resnet12) and of mini-resnet12."""

    def __post_init__(self) -> None:
        counts = ("episodes", "train_images", "validations", "validation_episodes", "test_episodes", "splits")
        for name in (*counts, "adapting_train_images", "adapting_test_episodes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise TPNError(f"--{name.replace('_', '-')} must be at least 1, not {value}.")
            if value is not None and value > (most := MOST_EPISODES.get(name, value)):
                raise TPNError(f"--{name.replace('_', '-')} must be at most {most}, not {value}.")
        if self.splits is not None and self.splits > MOST_SPLITS:
            raise TPNError(f"--splits must be at most {MOST_SPLITS}, not {self.splits}.")

    def starting_with(self, init: str | None) -> "Budget":
        """Return the budget with what systems start with; `init` is what a recipe says. None: from scratch."""
        chosen = SCRATCH if init == SCRATCH else self.init or init
        return replace(self, init=None if chosen == SCRATCH else chosen)

    def override(self, options: Any) -> "Budget":
        """Return a copy with those fields replaced that `options` has with a value other than None."""
        given = {field.name: getattr(options, field.name, None) for field in fields(Budget)}
        return replace(self, **{name: value for name, value in given.items() if value is not None})


BUDGETS = {
    "full": Budget(test_episodes=600, splits=10),
    "cpu": Budget(
        init=FIRST_STAGE,
        train_images=20_000,
        adapting_train_images=4_000,
        schedule="cosine",
        validations=3,
        validation_episodes=40,
        patience=0,
        test_episodes=600,
        adapting_test_episodes=200,
        splits=3,
        resnet="resnet12-16",
    ),
    "quick": Budget(
        image_size=28,
        init=SCRATCH,
        episodes=100,
        validations=2,
        validation_episodes=10,
        patience=0,
        test_episodes=60,
        splits=3,
        resnet="resnet12-16",
    ),
}
