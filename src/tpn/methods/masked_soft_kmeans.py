"""Soft k-means that learns which unlabelled images to leave out."""

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

    Soft k-means in which the part of an unlabelled image in a class also depends on a mask: sigmoid(-γ(d - β)), d its
    squared distance to the prototype divided by the mean of such. The threshold β and the steepness γ of a class,
    both positive, and near 1 at the start, come from a small network that sees minimum, maximum, variance, skewness and
    kurtosis of these d. No gradient flows back through those five.

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
        """How far each unlabelled image counts for each class, between 0 and 1."""
        relative = distances / distances.mean(-2, keepdim=True).clamp_min(SMALLEST)
        threshold, steepness = self.mask_network(statistics(relative.detach())).exp().unsqueeze(-3).unbind(-1)
        return torch.sigmoid(-steepness * (relative - threshold))


def statistics(values: Float[Tensor, "episode node way"]) -> Float[Tensor, "episode way 5"]:
    """Minimum, maximum, variance, skewness and (excess) kurtosis over the nodes."""
    deviation = values - values.mean(-2, keepdim=True)
    variance = deviation.square().mean(-2)
    spread = variance.clamp_min(SMALLEST).sqrt()
    skewness = deviation.pow(3).mean(-2) / spread**3
    kurtosis = deviation.pow(4).mean(-2) / spread**4 - 3
    return torch.stack([values.amin(-2), values.amax(-2), variance, skewness, kurtosis], dim=-1)
