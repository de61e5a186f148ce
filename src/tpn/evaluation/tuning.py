"""The choice of a head's settings on validation classes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from tpn.episodes.task import Episode
from tpn.evaluation.embedded_run import EmbeddedRun
from tpn.evaluation.protocol import evaluate

GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "simple-shot": {"transform": ("auto", "l2", "power")},
    "logistic-regression": {"transform": ("auto", "power"), "inverse_penalty": (1.0, 10.0, 100.0)},
    "bd-cspn": {"transform": ("auto", "power"), "shift": (True, False), "temperature": (5.0, 10.0, 20.0)},
    "laplacian-shot": {
        "transform": ("auto", "power"),
        "rectify": (True, False),
        "laplacian_weight": (0.1, 0.3, 0.7, 1.0),
    },
    "tim": {"transform": ("auto", "power"), "temperature": (5.0, 7.5, 15.0)},
    "alpha-tim": {"transform": ("auto", "power"), "entropy_alpha": (2.0, 4.0, 7.0)},
    "pt-map": {"transform": ("power", "auto"), "temperature": (5.0, 10.0, 20.0)},
    "map-kmeans": {"transform": ("episode", "power"), "temperature": (5.0, 10.0, 20.0)},
    "paddle": {
        "transform": ("auto", "power"),
        "temperature": (30.0, 60.0, 120.0),
        "proportion_weight": (0.5, 1.0),
    },
    "ilpc": {"transform": ("auto", "power"), "alpha": (0.5, 0.8), "neighbours": (8, 15)},
    "epnet": {"transform": ("none", "auto", "power"), "embedding_alpha": (0.2, 0.5)},
    "tafssl": {"transform": ("auto", "power"), "dimensions": (4, 10, 20), "subspace": ("pca", "ica")},
    "proto-lp": {"transform": ("power", "auto"), "temperature": (5.0, 10.0), "smoothness": (0.3, 1.0)},
    "transductive-fine-tuning": {
        "transform": ("auto", "power"),
        "step_size": (3e-4, 1e-3),
        "scale": (10.0, 20.0),
    },
    "propagated-prototypes": {"support_weight": (1.0, 2.0), "alpha": (0.5, 0.7), "balance_weight": (0.1, 0.3)},
    "adaptive-manifold": {"transform": ("auto", "power"), "information": ("tim", "alpha-tim")},
}
"""The values of each head's settings that are tried. Other heads keep their settings."""


@dataclass(frozen=True)
class Trial:
    """Settings of a head, and their accuracy on validation classes: the mean over balanced and unbalanced queries."""

    settings: dict[str, Any]
    accuracies: tuple[float, ...]

    @property
    def accuracy(self) -> float:
        return sum(self.accuracies) / len(self.accuracies)


def candidates(head: str) -> list[dict[str, Any]]:
    """Return the settings of a head to choose from."""
    grid = GRIDS.get(head, {})
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def trials(
    embedded: EmbeddedRun, head: str, tests: list[list[Episode]], advance: Callable[[int], None]
) -> Iterator[Trial]:
    """Test every choice of a head's settings on the same episodes."""
    for settings in candidates(head):
        method = embedded.method(head, settings)
        outcomes = [evaluate(method, embedded.split, episodes) for episodes in tests]
        advance(1)
        yield Trial(settings, tuple(outcome.mean.value for outcome in outcomes))
