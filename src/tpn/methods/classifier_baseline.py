"""The classifier baseline: classifier training, then the nearest class mean by cosine."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from tpn.episodes.task import Task
from tpn.methods._classifier_training import ClassifierTraining
from tpn.methods._config import PretrainingConfig
from tpn.methods._cosine_classifier import SCALE, CosineClassifier
from tpn.methods._method import Dimensions, Info
from tpn.methods._prototypes import class_means, memberships
from tpn.methods._registry import register_method


def neighbourhood_loss(features: Float[Tensor, "image feature"], classes: Int64[Tensor, "image"]) -> Float[Tensor, ""]:
    """Goldberger et al., "Neighbourhood Components Analysis", NIPS 2004, with cosines: the mean negative logarithm of
    the probability that a neighbour, drawn by the softmax of the cosines, has the same class.

    Images without another one of their class are left out.
    """
    directions = F.normalize(features, dim=-1)
    itself = torch.eye(len(features), dtype=torch.bool, device=features.device)
    similarity = (SCALE * directions @ directions.mT).masked_fill(itself, -torch.inf)
    same = (classes[:, None] == classes[None, :]) & ~itself
    paired = same.any(-1)
    if not paired.any():
        return features.sum() * 0
    alike = similarity[paired].masked_fill(~same[paired], -torch.inf).logsumexp(-1)
    return (similarity[paired].logsumexp(-1) - alike).mean()


@register_method
class ClassifierBaseline(ClassifierTraining):
    """Chen et al., "Meta-Baseline: Exploring Simple Meta-Learning for Few-Shot Learning", ICCV 2021.

    The network learns to classify all training classes, without episodes. In a test its last layer is removed: the
    prototype of a class is the mean of its support's features, and the score of a query is the cosine of the angle to
    it. `tpn pretrain` trains it as the first stage of other methods.

    https://arxiv.org/abs/2003.04390
    """

    info = Info(
        name="classifier-baseline",
        paper="Chen et al., Meta-Baseline: Exploring Simple Meta-Learning for Few-Shot Learning, ICCV 2021",
        transduction="no",
        learns_from="mini-batches",
        head=True,
    )
    Config = PretrainingConfig
    config: PretrainingConfig

    def __init__(self, config: PretrainingConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        if config.classifier == "cosine":
            self.head = CosineClassifier(self.head.in_features, dimensions.train_classes)

    def regularisation(
        self, features: Float[Tensor, "image feature"], classes: Int64[Tensor, "image"]
    ) -> float | Float[Tensor, ""]:
        return self.config.nca * neighbourhood_loss(features, classes) if self.config.nca else 0.0

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        means = class_means(task.support, memberships(task.support_labels, task.way, like=task.inputs))
        return SCALE * F.normalize(task.query, dim=-1) @ F.normalize(means, dim=-1).mT
