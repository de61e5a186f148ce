"""The affinity of two images: equations (1) and (2)."""

import torch
from jaxtyping import Float
from torch import Tensor

SMALLEST_SCALE = 1e-4


def mean_squared_distances(
    x: Float[Tensor, "*episode node feature"],
) -> Float[Tensor, "*episode node node"]:
    """Return the squared difference of every two nodes, averaged over the features.

    A matrix product avoids an array of shape [node, node, feature]. The nodes are centred first, which leaves distances
    unchanged and loses fewer digits in float32. A node's distance to itself is exactly 0.
    """
    x = x - robust_centre(x.detach())
    product = x @ x.mT
    square = product.diagonal(dim1=-2, dim2=-1)
    distances = (square.unsqueeze(-1) + square.unsqueeze(-2) - 2 * product).clamp_min(0)
    distances = (distances + distances.mT) / (2 * x.shape[-1])
    return distances.masked_fill(torch.eye(x.shape[-2], dtype=torch.bool, device=x.device), 0)


def robust_centre(x: Float[Tensor, "*episode node feature"]) -> Float[Tensor, "*episode 1 feature"]:
    """Return a robust centre of the nodes: a mean with smaller weights for outliers."""
    square = x.square().sum(-1, keepdim=True)
    weight = 1 / (square + square.median(-2, keepdim=True).values + torch.finfo(x.dtype).tiny ** 0.5)
    centre: Tensor = (weight / weight.sum(-2, keepdim=True)).mT @ x
    return centre


def scale(features: Float[Tensor, "*node feature"], sigma: Float[Tensor, "*node"]) -> Float[Tensor, "*node feature"]:
    """Return f / σ for one length scale per node. A σ nearer to zero than 1e-4 counts as 1e-4 (of the same sign)."""
    floor = torch.where(sigma < 0, -SMALLEST_SCALE, SMALLEST_SCALE).to(sigma)
    sigma = torch.where(sigma.abs() < SMALLEST_SCALE, floor, sigma)
    return features / sigma.unsqueeze(-1)


def affinity(
    features: Float[Tensor, "*episode node feature"],
    sigma: float | Float[Tensor, "*episode node"] | None = None,
) -> Float[Tensor, "*episode node node"]:
    """Return W = exp(-d/2), d the mean squared distance of f/σ: equation (1) for a single σ, (2) for one per node.

    Without σ, the features are assumed to be scaled already.
    """
    if sigma is not None:
        if not isinstance(sigma, Tensor):
            sigma = torch.full(features.shape[:-1], sigma, dtype=features.dtype, device=features.device)
        features = scale(features, sigma)
    return torch.exp(-0.5 * mean_squared_distances(features))
