"""From affinities to the graph for propagation: nearest neighbours, then normalisation."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def neighbour_mask(
    W: Float[Tensor, "*episode node node"], k: int, mutual: bool = False
) -> Bool[Tensor, "*episode node node"]:
    """Return the edges of the k-nearest-neighbour graph; each node counts as its own first neighbour.

    An edge is kept if one of its nodes is among the neighbours of the other or, with `mutual`, if both are.
    """
    k = min(k, W.shape[-1])
    nearest = W.detach().topk(k, dim=-1).indices
    chosen = torch.zeros(W.shape, dtype=torch.bool, device=W.device).scatter_(-1, nearest, True)
    mask = chosen & chosen.mT if mutual else chosen | chosen.mT
    return mask | torch.eye(W.shape[-1], dtype=torch.bool, device=W.device)


def connect(
    W: Float[Tensor, "*episode node node"], k: int, mutual: bool = False
) -> Float[Tensor, "*episode node node"]:
    """Keep each node's k strongest edges. Gradients flow through their weights, not through the choice."""
    return W.masked_fill(~neighbour_mask(W, k, mutual), 0)


def normalise(W: Float[Tensor, "*episode node node"]) -> Float[Tensor, "*episode node node"]:
    """Return S = D^(-1/2) W D^(-1/2). The row of a node without edges is zero."""
    degree = W.sum(-1)
    isolated = degree < torch.finfo(W.dtype).tiny ** 0.5  # below this the gradient of D^(-1/2) would overflow
    root = degree.masked_fill(isolated, 1).rsqrt().masked_fill(isolated, 0)
    return root.unsqueeze(-1) * W * root.unsqueeze(-2)
