"""Soft k-means: prototypes refined by unlabelled images."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, cat

from tpn.episodes.task import Task
from tpn.methods._config import check_rounds
from tpn.methods._method import Info
from tpn.methods._prototypes import class_means, memberships, squared_distances
from tpn.methods._registry import register_method
from tpn.methods.protonet import ProtoNet, ProtoNetConfig

PAPER = "Ren et al., Meta-Learning for Semi-Supervised Few-Shot Classification, ICLR 2018"


@dataclass(frozen=True)
class SoftKMeansConfig(ProtoNetConfig):
    """Soft k-means: move the prototypes of the classes towards the unlabelled images near them."""

    refinements: int = 1
    """Number of refinement steps; with 0, prototypes are the means of the support."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds(self, "refinements", 0)


@register_method
class SoftKMeans(ProtoNet):
    """Ren et al., "Meta-Learning for Semi-Supervised Few-Shot Classification", ICLR 2018: soft k-means.

    A prototypical network whose prototypes are refined by the unlabelled images of the episode: each is softly assigned
    to the classes by the softmax of its negative squared distances to the prototypes, and the new prototypes are the
    means of support and unlabelled images, weighted by assignment. Queries are classified independently.

    https://arxiv.org/abs/1803.00676
    """

    info = Info(name="soft-kmeans", paper=PAPER, transduction="no", unlabelled="needs", head=True)
    Config = SoftKMeansConfig
    config: SoftKMeansConfig

    def soft_assignments(
        self, unlabelled: Float[Tensor, "episode node feature"], prototypes: Float[Tensor, "episode way feature"]
    ) -> Float[Tensor, "episode node way"]:
        """Return the soft assignment of each unlabelled image to each class."""
        return (-squared_distances(unlabelled, prototypes)).softmax(-1)

    def prototypes(self, task: Task) -> Float[Tensor, "episode way feature"]:
        prototypes = super().prototypes(task)
        if task.unlabelled.shape[1] == 0:
            return prototypes
        labelled = memberships(task.support_labels, task.way, like=task.inputs)
        known = cat([task.support, task.unlabelled], dim=1)
        for _ in range(self.config.refinements):
            prototypes = class_means(known, cat([labelled, self.soft_assignments(task.unlabelled, prototypes)], dim=1))
        return prototypes
