"""Soft k-means with a learned mask for unlabelled images that belong to no class."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tpn.methods._method import Dimensions, Info
from tpn.methods._prototypes import squared_distances
from tpn.methods._registry import register_method
from tpn.methods.soft_kmeans import PAPER, SoftKMeans, SoftKMeansConfig

SMALLEST = 1e-6


@register_method
class MaskedSoftKMeans(SoftKMeans):
    """Ren et al., "Meta-Learning for Semi-Supervised Few-Shot Classification", ICLR 2018: masked soft k-means.

    Soft k-means in which the assignment of an unlabelled image to a class is multiplied by a mask, sigmoid(-γ(d - β)),
    d its squared distance to the prototype divided by the mean of these distances. The threshold β and the steepness γ
    of a class, both positive and initially near 1, come from a small network whose inputs are the minimum, maximum,
    variance, skewness and kurtosis of d. No gradient flows through these inputs.

    https://arxiv.org/abs/1803.00676
    """

    info = Info(name="masked-soft-kmeans", paper=PAPER, transduction="no", unlabelled="needs")

    def __init__(self, config: SoftKMeansConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        last = nn.Linear(20, 2)
        nn.init.normal_(last.weight, std=0.01)
        nn.init.zeros_(last.bias)
        self.mask_network = nn.Sequential(nn.Linear(5, 20), nn.Tanh(), last)

    def soft_assignments(
        self, unlabelled: Float[Tensor, "episode node feature"], prototypes: Float[Tensor, "episode way feature"]
    ) -> Float[Tensor, "episode node way"]:
        squares = squared_distances(unlabelled, prototypes)
        return (-squares).softmax(-1) * self.mask(squares)

    def mask(self, distances: Float[Tensor, "episode node way"]) -> Float[Tensor, "episode node way"]:
        """Return the mask of each unlabelled image for each class, between 0 and 1."""
        relative = distances / distances.mean(-2, keepdim=True).clamp_min(SMALLEST)
        threshold, steepness = self.mask_network(statistics(relative.detach())).exp().unsqueeze(-3).unbind(-1)
        return torch.sigmoid(-steepness * (relative - threshold))


def statistics(values: Float[Tensor, "episode node way"]) -> Float[Tensor, "episode way 5"]:
    """Return minimum, maximum, variance, skewness and excess kurtosis over the nodes."""
    deviation = values - values.mean(-2, keepdim=True)
    variance = deviation.square().mean(-2)
    spread = variance.clamp_min(SMALLEST).sqrt()
    skewness = deviation.pow(3).mean(-2) / spread**3
    kurtosis = deviation.pow(4).mean(-2) / spread**4 - 3
    return torch.stack([values.amin(-2), values.amax(-2), variance, skewness, kurtosis], dim=-1)
