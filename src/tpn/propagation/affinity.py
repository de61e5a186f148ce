"""How alike two images are: equations (1) and (2)."""

import torch
from jaxtyping import Float
from torch import Tensor

SMALLEST_SCALE = 1e-4


def mean_squared_distances(
    x: Float[Tensor, "*episode node feature"],
) -> Float[Tensor, "*episode node node"]:
    """The mean over the features of the squared differences of every two nodes.

    By a matrix product, so no [node, node, feature] array is ever built. The middle of the nodes is taken off first:
    distances do not change by it, and float32 loses fewer digits. A node's distance to itself is exactly 0.
    """
    x = x - middle(x.detach())
    product = x @ x.mT
    square = product.diagonal(dim1=-2, dim2=-1)
    distances = (square.unsqueeze(-1) + square.unsqueeze(-2) - 2 * product).clamp_min(0)
    distances = (distances + distances.mT) / (2 * x.shape[-1])
    return distances.masked_fill(torch.eye(x.shape[-2], dtype=torch.bool, device=x.device), 0)


def middle(x: Float[Tensor, "*episode node feature"]) -> Float[Tensor, "*episode 1 feature"]:
    """A mean in which nodes count the less the farther they lie off: single ones that are far off do not move it."""
    square = x.square().sum(-1, keepdim=True)
    weight = 1 / (square + square.median(-2, keepdim=True).values + torch.finfo(x.dtype).tiny ** 0.5)
    centre: Tensor = (weight / weight.sum(-2, keepdim=True)).mT @ x
    return centre


def scale(features: Float[Tensor, "*node feature"], sigma: Float[Tensor, "*node"]) -> Float[Tensor, "*node feature"]:
    """f / σ with one length scale per node. A σ nearer to zero than 1e-4 is taken as 1e-4 (of the same sign)."""
    floor = torch.where(sigma < 0, -SMALLEST_SCALE, SMALLEST_SCALE).to(sigma)
    sigma = torch.where(sigma.abs() < SMALLEST_SCALE, floor, sigma)
    return features / sigma.unsqueeze(-1)


def affinity(
    features: Float[Tensor, "*episode node feature"],
    sigma: float | Float[Tensor, "*episode node"] | None = None,
) -> Float[Tensor, "*episode node node"]:
    """W = exp(-d/2), d the mean squared distance of f/σ: equation (1) for one σ, (2) for one per node.

    Without σ, the features are taken as scaled already.
    """
    if sigma is not None:
        if not isinstance(sigma, Tensor):
            sigma = torch.full(features.shape[:-1], sigma, dtype=features.dtype, device=features.device)
        features = scale(features, sigma)
    return torch.exp(-0.5 * mean_squared_distances(features))
