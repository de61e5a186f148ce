"""The classifier baseline: classifier training, then the nearest class mean by cosine."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tpn.episodes.task import Task
from tpn.methods._classifier_training import ClassifierTraining
from tpn.methods._config import ClassifierConfig
from tpn.methods._method import Info
from tpn.methods._prototypes import class_means, memberships
from tpn.methods._registry import register_method

SCALE = 10.0
"""The factor of the cosines."""


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
    Config = ClassifierConfig
    config: ClassifierConfig

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        means = class_means(task.support, memberships(task.support_labels, task.way, like=task.inputs))
        return SCALE * F.normalize(task.query, dim=-1) @ F.normalize(means, dim=-1).mT
