"""Length scales: the network g that predicts one for each image, and estimates from the data."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tpn.backbones._blocks import ConvBlock
from tpn.propagation.affinity import SMALLEST_SCALE, mean_squared_distances


class LengthScale(nn.Module):
    """σ = g(f(x)): two convolutional blocks (64 filters, then 1) whose pooling rounds up, then layers of 8 units and 1.

    As in the paper, σ is not bounded: it may be negative or near zero.
    """

    def __init__(self, map_shape: tuple[int, int, int]) -> None:
        super().__init__()
        channels, height, width = map_shape
        self.blocks = nn.Sequential(ConvBlock(channels, 64, pool="up"), ConvBlock(64, 1, pool="up"))
        for block in self.blocks:
            assert isinstance(block, ConvBlock)
            height, width = block.output_size(height), block.output_size(width)
        self.hidden = nn.Linear(height * width, 8)
        self.out = nn.Linear(8, 1)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, maps: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image"]:
        hidden = F.relu(self.hidden(self.blocks(maps).flatten(1)))
        sigma: Tensor = self.out(hidden).squeeze(1)
        return sigma

    @torch.no_grad()
    def start_at(self, sigma: float) -> None:
        """Initialise the last layer so that σ is near this value for every image."""
        self.out.weight.mul_(0.1 * sigma)
        self.out.bias.fill_(sigma)


@torch.no_grad()
def typical_scale(features: Float[Tensor, "node feature"], k: int) -> float:
    """Return the σ for which the edge to a typical one of the k nearest neighbours has weight exp(-1)."""
    distances = mean_squared_distances(features)
    k = min(k, len(features))
    nearest = distances.topk(k, dim=-1, largest=False).values[:, 1:]  # the first is the node itself
    typical = float(nearest.median()) if nearest.numel() else 0.0
    return max(math.sqrt(typical / 2), SMALLEST_SCALE)


def median_scale(distances: Float[Tensor, "*episode node node"]) -> Float[Tensor, "*episode 1 1"]:
    """Return σ by the median heuristic: the median distance of two different nodes, from squared distances."""
    nodes = distances.shape[-1]
    if nodes < 2:
        return torch.ones_like(distances[..., :1, :1])
    one, other = torch.triu_indices(nodes, nodes, offset=1, device=distances.device)
    median = distances[..., one, other].median(dim=-1).values
    return median.clamp_min(SMALLEST_SCALE**2).sqrt()[..., None, None]
