"""What an experiment of the paper consists of: cells, each with its training, its test and the published number.

Methods are named, not loaded: listing the experiments needs no torch.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from tpn.episodes.setting import BatchNorm, Setting
from tpn.paper.published import Published

Benchmark: TypeAlias = Literal["mini-imagenet", "tiered-imagenet"]


@dataclass(frozen=True)
class Training:
    """A method, the episodes it is trained on, and the settings that differ from the method's defaults."""

    method: str
    episode: Setting
    settings: tuple[tuple[str, Any], ...] = ()
    """Pairs of name and value, for the full budget."""

    def partition(self, seed: int) -> "Training":
        """Return the same training on another partition into labelled and unlabelled images."""
        return replace(self, episode=replace(self.episode, split_seed=seed))


def training(method: str, way: int, shot: int, query: int = 15, **settings: Any) -> Training:
    """Return a training on episodes of this shape."""
    return Training(method, Setting(way, shot, query), tuple(settings.items()))


@dataclass(frozen=True)
class Test:
    """A test of the trained method, or of another method with its weights, on episodes of the test classes."""

    episode: Setting
    as_method: str | None = None
    batch_norm: BatchNorm = "running"
    """Which statistics batch normalisation uses: the running ones of training, or those of each test episode."""
    flip: bool = False
    """Average the feature maps of each image and its mirror image (the setting `test_flip`)."""
    time_solvers: bool = False
    """Measure the time of the closed-form and of the iterative solver on the test episodes as well."""


@dataclass(frozen=True)
class Cell:
    """A number in a table, or a point in a figure."""

    row: str
    """The system; in a figure, the line."""
    column: str
    """The setting; in a figure, the position on the x-axis."""
    training: Training
    test: Test
    published: Published | None = None
    over_partitions: bool = False
    """Whether it is the mean over several partitions into labelled and unlabelled images, with its standard error."""

    @property
    def method(self) -> str:
        """The method that is tested."""
        return self.test.as_method or self.training.method


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper."""

    name: str
    title: str
    where: str
    """Where it is in the paper."""
    data: Benchmark
    """The dataset of the published numbers."""
    cells: tuple[Cell, ...]
    figure: str | None = None
    """The label of the x-axis, if the rows are drawn as lines."""
    init: str | None = None
    """What its trainings start with, unless the budget says otherwise: see `Budget.init`."""

    @property
    def rows(self) -> list[str]:
        """The names of the rows, in the paper's order."""
        return list(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in the paper's order."""
        return list(dict.fromkeys(cell.column for cell in self.cells))

    @property
    def methods(self) -> list[str]:
        """The methods that are tested."""
        return list(dict.fromkeys(cell.method for cell in self.cells))

    @property
    def trainings(self) -> set[Training]:
        """The different trainings, before any partitions."""
        return {cell.training for cell in self.cells}

    @property
    def over_partitions(self) -> bool:
        """Whether the numbers are means over several partitions into labelled and unlabelled images."""
        return any(cell.over_partitions for cell in self.cells)

    def only(self, methods: tuple[str, ...]) -> "Experiment":
        """Return the cells of these methods."""
        return replace(self, cells=tuple(cell for cell in self.cells if cell.method in methods))


Rule: TypeAlias = Callable[..., Training]
"""Maps the way and shot of a test, and in some experiments its queries, to the training."""


@dataclass(frozen=True)
class System:
    """How a system is trained for a test, and how it is tested."""

    rule: Rule
    as_method: str | None = None
    batch_norm: BatchNorm = "running"

    def test(self, episode: Setting) -> Test:
        """Return the test of this system on such episodes."""
        return Test(episode, self.as_method, self.batch_norm)
