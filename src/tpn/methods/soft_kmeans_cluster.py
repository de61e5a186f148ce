"""Soft k-means with one more cluster, for distractors."""

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

    Soft k-means in which one more cluster takes up what belongs to none of the classes. It lies at the origin, and its
    radius r is learned: an unlabelled image x belongs to it by exp(-|x|²/r² - log r), to a class, whose radius is 1,
    by exp(-d²), all of it normalised to one. The radius starts where unlabelled images of a first episode are as near
    to the cluster as to a class: from 1 or 100 it would take no part, or all of it, and hardly learn.

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
        """Set the radius by the unlabelled images of these episodes."""
        embedded = self.embedded(task)
        if embedded.unlabelled.shape[1] > 0:
            to_classes = squared_distances(embedded.unlabelled, ProtoNet.prototypes(self, embedded)).amin(-1)
            to_origin = embedded.unlabelled.square().sum(-1)
            self.log_radius.copy_((to_origin / to_classes.clamp_min(SMALLEST)).median().log() / 2)
