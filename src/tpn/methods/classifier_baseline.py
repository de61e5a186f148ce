"""Learning to tell all training classes apart, without episodes: the first of two stages, and a method by itself."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tpn.episodes.task import Task, TrainingTask
from tpn.errors import TPNError
from tpn.images.augmentation import Augmentation
from tpn.methods._method import Config, Dimensions, Info, Learned, Method, check_rounds
from tpn.methods._registry import register
from tpn.methods.protonet import class_means, memberships

SHARPNESS = 10.0
"""What cosines are multiplied by, to be scores."""


@dataclass(frozen=True)
class BaseClassConfig(Config):
    """Learn to tell all training classes apart."""

    episodes: int = 10_000
    """Mini-batches to train on, which are here what episodes are to other methods."""
    batch_size: int = 128
    """Images in a mini-batch. (--way, --shot and --query are for validation.)"""
    label_smoothing: float = 0.0
    """The share of certainty that is taken from the right class and dealt to all."""
    augment: tuple[Augmentation, ...] = ("crop", "flip")
    optimiser: Literal["adam", "sgd"] = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    schedule: Literal["halve", "linear", "step", "cosine"] = "cosine"
    warm_up: int = 50
    patience: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds(self, "batch_size", 2)
        if not 0 <= self.label_smoothing < 1:
            raise TPNError(f"--label-smoothing must be at least 0 and below 1, not {self.label_smoothing}.")


class BaseClassTraining(Method):
    """A backbone and a linear layer that learn to tell all training classes apart. How it scores is open."""

    config: BaseClassConfig

    def __init__(self, config: BaseClassConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.backbone = dimensions.build_backbone(config)
        self.head = nn.Linear(math.prod(self.backbone.map_shape), dimensions.train_classes)

    def embed(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image feature"]:
        maps: Tensor = self.backbone(images)
        return maps.flatten(1)

    def learn(self, task: TrainingTask) -> Learned:
        """Learn to which training class each image belongs, one episode or mini-batch after the other."""
        learned = []
        for images, classes in zip(task.inputs, training_classes(task), strict=True):
            scores = self.head(self.embed(images[: len(classes)]))
            loss = F.cross_entropy(scores, classes, label_smoothing=self.config.label_smoothing)
            self.backward(loss / len(task.inputs))
            learned.append(Learned.of(loss, scores, classes))
        return Learned.mean(learned)


@register
class ClassifierBaseline(BaseClassTraining):
    """Chen et al., "Meta-Baseline: Exploring Simple Meta-Learning for Few-Shot Learning", ICCV 2021.

    The network learns to tell all training classes apart, without episodes. Then its last layer is left out: a class of
    a task is the mean of its support's features, and the score of a query the cosine of the angle to it. `tpn pretrain`
    trains it, as the first stage of other methods.
    """

    info = Info(
        name="classifier-baseline",
        paper="Chen et al., Meta-Baseline: Exploring Simple Meta-Learning for Few-Shot Learning, ICCV 2021",
        transduction="no",
        learns_from="classes",
    )
    Config = BaseClassConfig

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        means = class_means(task.support, memberships(task.support_labels, task.way, like=task.inputs))
        return SHARPNESS * F.normalize(task.query, dim=-1) @ F.normalize(means, dim=-1).mT


def training_classes(task: TrainingTask) -> Int64[Tensor, "episode node"]:
    """The class, among all training classes, of each image of the support and the queries."""
    return task.classes.gather(1, torch.cat([task.support_labels, task.query_labels], dim=1))
