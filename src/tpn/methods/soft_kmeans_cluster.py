"""Soft k-means with an additional cluster for distractors."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tpn.episodes.task import TrainingTask
from tpn.methods._method import Dimensions, Info
from tpn.methods._prototypes import squared_distances
from tpn.methods._registry import register_method
from tpn.methods.protonet import ProtoNet
from tpn.methods.soft_kmeans import PAPER, SoftKMeans, SoftKMeansConfig

SMALLEST = 1e-6


@register_method
class SoftKMeansCluster(SoftKMeans):
    """Ren et al., "Meta-Learning for Semi-Supervised Few-Shot Classification", ICLR 2018: soft k-means + cluster.

    Soft k-means with an additional cluster for images that belong to none of the classes. It lies at the origin, and
    its radius r is learned: an unlabelled image x is assigned to it in proportion to exp(-|x|²/r² - log r), and to a
    class, whose radius is 1, in proportion to exp(-d²). Initially r is such that unlabelled images of a first episode
    are as near to the cluster as to a class: from 1 or 100, the cluster would take no images, or all, and hardly learn.

    https://arxiv.org/abs/1803.00676
    """

    info = Info(name="soft-kmeans-cluster", paper=PAPER, transduction="no", unlabelled="needs")

    def __init__(self, config: SoftKMeansConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.log_radius = nn.Parameter(torch.zeros(()))

    def soft_assignments(
        self, unlabelled: Float[Tensor, "episode node feature"], prototypes: Float[Tensor, "episode way feature"]
    ) -> Float[Tensor, "episode node way"]:
        to_classes = -squared_distances(unlabelled, prototypes)
        to_cluster = -unlabelled.square().sum(-1, keepdim=True) * torch.exp(-2 * self.log_radius) - self.log_radius
        return torch.cat([to_classes, to_cluster], dim=-1).softmax(-1)[..., :-1]

    @torch.no_grad()
    def initialise(self, task: TrainingTask) -> None:
        """Initialise the radius from the unlabelled images of these episodes."""
        embedded = self.embedded(task)
        if embedded.unlabelled.shape[1] > 0:
            to_classes = squared_distances(embedded.unlabelled, ProtoNet.prototypes(self, embedded)).amin(-1)
            to_origin = embedded.unlabelled.square().sum(-1)
            self.log_radius.copy_((to_origin / to_classes.clamp_min(SMALLEST)).median().log() / 2)
