"""What an experiment of the paper is: cells, each with what is trained, what is tested, and the published number."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from tpn.episodes.setting import Setting
from tpn.evaluation.protocol import BatchNorm
from tpn.paper.published import Published


@dataclass(frozen=True)
class Training:
    """What is trained: a method, the episodes that it learns from, and settings other than the method's own."""

    method: str
    episode: Setting
    settings: tuple[tuple[str, Any], ...] = ()
    """As pairs of name and value. Those of the full budget."""

    def split(self, seed: int) -> "Training":
        """The same on another division into labelled and unlabelled images."""
        return replace(self, episode=replace(self.episode, split_seed=seed))


def training(method: str, way: int, shot: int, query: int = 15, **settings: Any) -> Training:
    """A training on episodes of this shape."""
    return Training(method, Setting(way, shot, query), tuple(settings.items()))


@dataclass(frozen=True)
class Test:
    """What is tested: the trained method, or another with its weights, on episodes of new classes."""

    episode: Setting
    as_method: str | None = None
    batch_norm: BatchNorm = "running"
    """The statistics that batch normalisation uses: those of the training, or those of the episode at hand."""


@dataclass(frozen=True)
class Cell:
    """A number of a table, or a point of a figure."""

    row: str
    """The system; in a figure, the line."""
    column: str
    """The setting; in a figure, where on the x-axis."""
    training: Training
    test: Test
    published: Published | None = None
    of_splits: bool = False
    """Is it the mean over several divisions into labelled and unlabelled images, with its standard error?"""

    @property
    def method(self) -> str:
        """What is tested."""
        return self.test.as_method or self.training.method


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper."""

    name: str
    title: str
    where: str
    """Where the paper has it."""
    data: Literal["mini-imagenet", "tiered-imagenet"]
    """What the published numbers were measured on."""
    cells: tuple[Cell, ...]
    figure: str | None = None
    """What the x-axis is, if its rows can be drawn as lines."""
    times_solvers: bool = False
    """Is it about time as well?"""

    @property
    def rows(self) -> list[str]:
        """In the paper's order."""
        return list(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> list[str]:
        """In the paper's order."""
        return list(dict.fromkeys(cell.column for cell in self.cells))

    @property
    def methods(self) -> list[str]:
        """Those that are tested."""
        return list(dict.fromkeys(cell.method for cell in self.cells))

    def only(self, methods: tuple[str, ...]) -> "Experiment":
        """The part of it that is about these methods."""
        return replace(self, cells=tuple(cell for cell in self.cells if cell.method in methods))


Rule = Callable[..., Training]
"""How a system is trained for a test of so many ways and shots, and in some experiments queries."""


@dataclass(frozen=True)
class System:
    """How a system is trained for a test, and how it is tested."""

    rule: Rule
    as_method: str | None = None
    batch_norm: BatchNorm = "running"

    def test(self, episode: Setting) -> Test:
        """A test of it on such episodes."""
        return Test(episode, self.as_method, self.batch_norm)
