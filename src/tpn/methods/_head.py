"""Base class of heads: methods that classify the features of any backbone, without training of their own."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from tpn.episodes.task import Task
from tpn.errors import TPNError
from tpn.methods._classifier_training import ClassifierTraining
from tpn.methods._config import ClassifierConfig, Config
from tpn.methods._method import Dimensions
from tpn.methods._prototypes import memberships
from tpn.methods._transforms import Transform, rooted, transformed


@dataclass(frozen=True)
class TransformConfig(Config):
    """The feature transform of a head."""

    transform: Transform = "auto"
    """What is done to the features first: nothing (none); unit length (l2); the mean feature of the training classes is
    subtracted, then unit length (cl2); square roots, unit length, and cl2 of that (power); or unit length, then the
    mean of the episode is subtracted, which is transductive, and unit length again (episode). auto is cl2 where the
    mean of the training classes is known, otherwise l2."""


@dataclass(frozen=True)
class HeadConfig(ClassifierConfig, TransformConfig):
    """Settings of heads: the feature transform, and the training of the backbone as a classifier."""


class Head(ClassifierTraining):
    """A head on the features of a backbone. Subclasses define `classify`.

    It can be tested on the weights of any run, and on features alone. Where it is trained, the backbone learns to
    classify all training classes, as for `classifier-baseline`.
    """

    Config = HeadConfig
    config: TransformConfig  # type: ignore[assignment]
    most_nodes: ClassVar[int | None] = None
    """The largest episode that it can classify, if it compares all images of an episode with each other."""
    base_mean: Tensor | None
    rooted_mean: Tensor | None

    def __init__(self, config: TransformConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        for name in ("base_mean", "rooted_mean"):  # stored beside the weights, not among them: see tpn.runs.base_mean
            self.register_buffer(name, None, persistent=False)
        self.has_classifier = False
        """Whether the classifier of the training classes was trained, so that a head may use it."""

    @property
    def transduction(self) -> str:
        return "yes" if self.config.transform == "episode" else super().transduction

    @property
    def needs_base_means(self) -> bool:
        """Whether its transform subtracts the mean feature of the training classes, which is not known yet."""
        return self.base_mean is None and self.config.transform in ("auto", "cl2", "power")

    def set_base_means(self, means: dict[str, Tensor]) -> None:
        """Set the mean features of the training classes: `base_mean` and `rooted_mean`."""
        for name in ("base_mean", "rooted_mean"):
            setattr(self, name, means[name].to(next(self.parameters(), means[name])))

    @staticmethod
    def weighted_base_means(
        features: Float[Tensor, "image feature"], weights: Float[Tensor, "image"]
    ) -> dict[str, Float[Tensor, "feature"]]:
        """Return the weighted sums of features of training images that `set_base_means` takes."""
        weights = weights.double()
        return {"base_mean": weights @ features.double(), "rooted_mean": weights @ rooted(features).double()}

    def classify(
        self,
        support: Float[Tensor, "episode support feature"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query feature"],
    ) -> Float[Tensor, "episode query way"]:
        """Return the score of every query for every class, given transformed features and the labels as rows of Y."""
        raise NotImplementedError

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        known = task.n_support + task.n_query
        if self.most_nodes is not None and known > self.most_nodes:
            raise TPNError(
                f"{self.info.name} compares all images of an episode with each other: it takes at most "
                f"{self.most_nodes:,} images, not {known:,}."
            )
        if self.config.transform == "cl2" and self.base_mean is None:
            raise TPNError(
                "--transform cl2 subtracts the mean feature of the training classes, which is not known here: test a "
                "run whose training images can be opened, or give features of training classes too (train=... of "
                "tpn.images_from), or choose --transform l2."
            )
        features = self.prepared(task.inputs[:, :known].flatten(2))
        Y = memberships(task.support_labels, task.way, like=features)
        return self.classify(features[:, : task.n_support], Y, features[:, task.n_support :])

    def prepared(self, embedded: Float[Tensor, "episode node feature"]) -> Float[Tensor, "episode node feature2"]:
        """Return the features that it classifies: those of the backbone, transformed."""
        return transformed(embedded, self.config.transform, self.base_mean, self.rooted_mean)


def together(
    support: Float[Tensor, "episode support feature"], query: Float[Tensor, "episode query feature"]
) -> Float[Tensor, "episode node feature"]:
    """Return support and queries as the nodes of one episode."""
    return torch.cat([support, query], dim=1)


def check_positive(config: Config, *names: str) -> None:
    """Refuse settings that are not positive numbers."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not 0 < value < float("inf"):
            raise TPNError(f"--{name.replace('_', '-')} must be a number above 0, not {value}.")


def check_fraction(config: Config, name: str) -> None:
    """Refuse a setting that is not above 0 and at most 1."""
    if not 0 < getattr(config, name) <= 1:
        raise TPNError(f"--{name.replace('_', '-')} must be above 0 and at most 1, not {getattr(config, name)}.")
